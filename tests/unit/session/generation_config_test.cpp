#include "session/generation_config.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

TEST(GenerationConfigFile, SaysWhatItSaysAndNoMore) {
  const test::TempDir dir;
  EXPECT_FALSE(read_generation_config(dir.path())->do_sample) << "no file is no advice";
  dir.write("generation_config.json",
            R"({"do_sample": true, "temperature": 0.6, "top_k": 20.0, "top_p": null, "max_new_tokens": 7,)"
            R"("eos_token_id": [3, 1], "transformers_version": "4.37.0"})");
  const auto config = read_generation_config(dir.path());
  ASSERT_TRUE(config.ok()) << config.error().line();
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->temperature, 0.6);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_FALSE(config->top_p);
  EXPECT_FALSE(config->min_p);
  EXPECT_EQ(config->max_new_tokens, 7);
  EXPECT_EQ(config->eos_token_ids, (std::vector<std::int32_t>{3, 1}));
  dir.write("generation_config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(read_generation_config(dir.path())->eos_token_ids, std::vector<std::int32_t>{5});
}

TEST(GenerationConfigFile, TellsWhatItCannotRead) {
  const test::TempDir dir;
  const auto refused = [&](const std::string& text) {
    dir.write("generation_config.json", text);
    const auto config = read_generation_config(dir.path());
    return config.ok() ? "accepted" : dir.line(config.error());
  };
  const std::string mend = "; take the file from the model's repository, or remove it";
  EXPECT_EQ(refused("[1]"), "DIR/generation_config.json: expected an object, found [1]" + mend);
  EXPECT_EQ(refused(R"({"do_sample": 1})"),
            "DIR/generation_config.json: field \"do_sample\": expected true or false, found 1" + mend);
  EXPECT_EQ(refused(R"({"top_p": "all"})"),
            "DIR/generation_config.json: field \"top_p\": expected a number, found \"all\"" + mend);
  EXPECT_EQ(refused(R"({"top_k": -1})"),
            "DIR/generation_config.json: field \"top_k\": expected a count, found -1" + mend);
  // What the flags of these names refuse, where it is read.
  EXPECT_EQ(refused(R"({"do_sample": true, "temperature": -1})"),
            "DIR/generation_config.json: field \"temperature\": expected a number of at least 0, found -1" + mend);
  EXPECT_EQ(refused(R"({"do_sample": true, "top_p": 0})"),
            "DIR/generation_config.json: field \"top_p\": expected a number above 0 and at most 1, found 0" + mend);
  EXPECT_EQ(refused(R"({"repetition_penalty": 0})"),
            "DIR/generation_config.json: field \"repetition_penalty\": expected a number above 0, found 0" + mend);
  EXPECT_EQ(refused(R"({"temperature": -1, "top_p": 0})"), "accepted") << "nothing is drawn";
  for (const char* ids : {R"("two")", "[[2]]", "1e99"}) {
    EXPECT_NE(refused(cat(R"({"eos_token_id": )", ids, "}")).find("expected an integer or a list of integers, found "),
              std::string::npos)
        << ids;
  }
  EXPECT_EQ(
      refused(R"({"eos_token_id": [2, -1]})"),
      "DIR/generation_config.json: field \"eos_token_id\": expected a token id or a list of them, found [2,-1]" + mend);
}

}  // namespace
}  // namespace tern::session
