// tern inspect-data as a user types it, on a model directory that holds a tokenizer only.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "run.h"

namespace tern::e2e {
namespace {

class InspectData : public ::testing::Test {
 protected:
  InspectData() {
    write(
        "tokenizer.json",
        R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":3,"content":"<end>","single_word":false,)"
        R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,)"
        R"("pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,"model":{"type":"WordLevel",)"
        R"("unk_token":"?","vocab":{"?":0,"red":1,"blue":2,"<end>":3,"user":4,"assistant":5}}})");
    write(
        "tokenizer_config.json",
        R"({"eos_token":"<end>","chat_template":"{% for m in messages %}{{ m.role + ' ' + m.content + '<end> ' }}{% endfor %})"
        R"({% if add_generation_prompt %}{{ 'assistant ' }}{% endif %}"})");
  }
  std::string write(const std::string& name, const std::string& text) { return scratch_.write(name, text); }
  std::string path(const std::string& name) { return (scratch_.path() / name).string(); }
  std::string read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  Outcome inspect(std::vector<std::string> words) {
    words.insert(words.begin(), "inspect-data");
    words.insert(words.end(), {"--model", scratch_.path().string()});
    Options options;
    options.variables["TERN_CACHE_DIR"] = path("cache");
    return run(words, options);
  }

  Scratch scratch_;
};

constexpr char kInspected[] =
    "{\"query\": \"red blue\", \"response\": \"blue\"}\n"
    "{\"query\": \"red\", \"response\": [\"blue\"]}\n"
    "{\"query\": \"blue\", \"response\": \"red red red red\"}\n";

TEST_F(InspectData, TellsNumbersBadRowsAndWhatIsLearned) {
  const auto file = write("rows.jsonl", kInspected);
  const auto outcome = inspect({file, "--sample", "0"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(file + ": 3 rows, 1 bad (dropped); 2 samples"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("samples 2, tokens"), std::string::npos);
  EXPECT_NE(outcome.out.find("sample 0 (" + file + ":1)"), std::string::npos);
  EXPECT_NE(outcome.out.find("⟦"), std::string::npos);
  EXPECT_NE(outcome.err.find(file + ":2: field \"response\": expected a string, found an array"), std::string::npos)
      << outcome.err;
}

// Training refuses such data and sends the user here.
TEST_F(InspectData, TellsThatNothingIsSupervised) {
  const auto file = write("prompts.jsonl", "{\"query\": \"red blue\"}\n{\"prompt\": \"red\"}\n");
  const auto outcome = inspect({file});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 rows, 2 without a supervised token (dropped); 0 samples"), std::string::npos)
      << outcome.out;
}

TEST_F(InspectData, JsonIsAllThatStdoutHolds) {
  const auto outcome = inspect({write("rows.jsonl", kInspected), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.front(), '{');
  EXPECT_EQ(outcome.out.substr(outcome.out.size() - 2), "}\n");
  EXPECT_NE(outcome.out.find("\"samples\": 2"), std::string::npos);
}

TEST_F(InspectData, WritesAPageAndAHistogram) {
  const auto outcome =
      inspect({write("rows.jsonl", kInspected), "--html", path("page.html"), "--svg", path("lengths.svg")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(read("page.html").find("</html>"), std::string::npos);
  EXPECT_NE(read("lengths.svg").find("</svg>"), std::string::npos);
}

TEST_F(InspectData, BadInputEndsWithOneLineAndItsStatus) {
  const auto file = write("rows.jsonl", kInspected);
  const auto strict = inspect({file, "--strict"});
  EXPECT_EQ(strict.status, 3);
  EXPECT_EQ(
      strict.last_error_line(),
      "tern: error: " + file + ":2: field \"response\": expected a string, found an array; write the value in quotes");
  EXPECT_EQ(inspect({path("absent.jsonl")}).status, 3);
  EXPECT_EQ(inspect({file, "--sample", "99"}).status, 2);
  EXPECT_EQ(run({"inspect-data", file}).status, 2) << "no model";
}

TEST_F(InspectData, ReadsWhatAPluginMakes) {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) GTEST_SKIP() << "no python3, and so no plugins";
  const std::string plugin = std::string(TERN_SOURCE_DIR) + "/examples/plugins/short_gsm8k.py";
  const auto outcome = inspect({"short-gsm8k#8", "--external_plugins", plugin});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("8 samples"), std::string::npos) << outcome.out;
  const auto lacks = inspect({"short-gsm8k#8", "--external_plugins", plugin,
                              write("reward.py", "from swift.rewards import orms\norms['mine'] = len\n")});
  EXPECT_NE(lacks.err.find("has no swift.rewards.orms['mine']"), std::string::npos) << lacks.err;
}

}  // namespace
}  // namespace tern::e2e
