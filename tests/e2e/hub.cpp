// Hub ids as a user types them, against a hub on loopback.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "../unit/hub/fake_hub.h"
#include "model_scope.h"
#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

using hub::FakeReply;
using hub::FakeRequest;

const std::string kCommit(40, 'c');
constexpr char kTokenizer[] =
    R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
    R"("pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,)"
    R"("model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"red":1,"blue":2}}})";
constexpr char kRows[] = "{\"text\": \"red blue\"}\n{\"text\": \"blue\"}\n";

std::string listing(const std::string& name, std::size_t size) {
  return R"({"sha":")" + kCommit + R"(","siblings":[{"rfilename":")" + name + R"(","size":)" + std::to_string(size) +
         R"(},{"rfilename":"pytorch_model.bin","size":7}]})";
}

class Hub : public ::testing::Test {
 protected:
  static FakeReply answer(const FakeRequest& request) {
    const auto token = request.headers.find("authorization");
    if (token == request.headers.end() || token->second != "Bearer secret") return {401, "", {}};
    const std::string& target = request.target;
    for (const char* revision : {"main", "v2"}) {
      if (target.starts_with(std::string("/api/models/org/words/revision/") + revision)) {
        return {200, listing("tokenizer.json", sizeof(kTokenizer) - 1), {}};
      }
    }
    if (target.starts_with("/api/datasets/org/rows/revision/main")) {
      return {200, listing("train.jsonl", sizeof(kRows) - 1), {}};
    }
    if (target == "/org/words/resolve/" + kCommit + "/tokenizer.json") return {200, kTokenizer, {}};
    if (target == "/datasets/org/rows/resolve/" + kCommit + "/train.jsonl") return {200, kRows, {}};
    return {404, "", {}};
  }

  Outcome tokenize(std::vector<std::string> words) {
    words.insert(words.begin(), {"tokenize", "--json"});
    Options options;
    options.variables = {{"HF_ENDPOINT", hub_.url()}, {"HF_HUB_CACHE", (scratch_.path() / "hub").string()}};
    return run(words, options);
  }

  Scratch scratch_;
  hub::FakeHub hub_{answer};
};

TEST_F(Hub, ModelAndDatasetComeFromIt) {
  const auto outcome =
      tokenize({"--model", "org/words", "--use_hf", "true", "--hub_token", "secret", "--dataset", "hf::org/rows#2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "{\"ids\":[1,2],\"pieces\":[\"red\",\"blue\"],\"text\":\"red blue\"}\n"
            "{\"ids\":[2],\"pieces\":[\"blue\"],\"text\":\"blue\"}\n");
  for (const auto& request : hub_.requests()) EXPECT_EQ(request.target.find(".bin"), std::string::npos);
  EXPECT_EQ(outcome.err.find("secret"), std::string::npos);
}

TEST_F(Hub, ARevisionIsAskedFor) {
  const auto outcome =
      tokenize({"--model", "hf::org/words", "--model_revision", "v2", "--hub_token", "secret", "--text", "blue"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(hub_.requests().at(0).target.find("/revision/v2"), std::string::npos);
  const auto local = tokenize({"--model", scratch_.path().string(), "--model_revision", "v2", "--text", "blue"});
  EXPECT_EQ(local.status, 2) << "a local model has no revision";
}

TEST_F(Hub, RefusalsAreOneLine) {
  const auto refused = tokenize({"--model", "hf::org/words", "--text", "blue"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.last_error_line().find("needs a token"), std::string::npos) << refused.err;
  const auto absent = tokenize({"--model", "hf::org/none", "--hub_token", "secret", "--text", "blue"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_NE(absent.last_error_line().find("404"), std::string::npos) << absent.err;
}

namespace fs = std::filesystem;

class ModelScope : public ::testing::Test {
 protected:
  ModelScope() {
    write_tiny_model(path("local"));
    fs::create_directories(path("store/models/org"));
    fs::copy(path("local"), path("store/models/org/tiny"));
    fs::create_directories(path("store/datasets/org/rows/sums"));
    put("datasets/org/rows/sums/train.jsonl", sums(4));
    put("datasets/org/rows/sums/test.jsonl", sums(9));
    put("datasets/org/rows/names.jsonl", R"({"query": "Who?", "response": "I."})");
  }

  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }
  void put(const std::string& name, const std::string& text) const { (void)scratch_.write("store/" + name, text); }

  Outcome tern(const std::vector<std::string>& words, const std::map<std::string, std::string>& more = {}) {
    Options options;
    options.variables = {{"MODELSCOPE_ENDPOINT", hub_.url()},
                         {"MODELSCOPE_CACHE", path("cache").string()},
                         {"MODELSCOPE_API_TOKEN", "secret"},
                         {"TERN_HOME", path("home").string()}};
    for (const auto& [name, value] : more) options.variables[name] = value;
    options.folder = scratch_.path();
    options.input = "1 + 2\n";
    return run(words, options);
  }
  // Requests for the file's content.
  std::size_t fetches(const std::string& file) {
    std::size_t count = 0;
    for (const auto& request : hub_.requests()) count += request.target.ends_with("FilePath=" + file) ? 1 : 0;
    return count;
  }

  Scratch scratch_;
  hub::FakeHub hub_{[this](const FakeRequest& request) { return answer_from(path("store"), request); }};
};

TEST_F(ModelScope, ModelsOfEveryCommandComeFromItOnce) {
  const auto infer = [&](const std::string& model) {
    return tern({"infer", "--model", model, "--temperature", "0", "--max_new_tokens", "6"});
  };
  const auto local = infer(path("local").string());
  ASSERT_EQ(local.status, 0) << local.err;
  for (const std::string model : {"org/tiny", "ms::org/tiny"}) {
    const auto hub = infer(model);
    ASSERT_EQ(hub.status, 0) << hub.err;
    EXPECT_EQ(hub.out, local.out);
    EXPECT_EQ(hub.err.find("secret"), std::string::npos);
  }
  EXPECT_EQ(fetches("model.safetensors"), 1U) << "what lies in the cache was fetched again";
  const auto inspected = tern({"inspect", "org/tiny", "--json"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("\"architecture\""), std::string::npos) << inspected.out.substr(0, 300);
  const auto converted = tern({"convert", "ms::org/tiny", path("tiny.gguf").string(), "--outtype", "f16"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(tern({"inspect", path("tiny.gguf").string()}).status, 0);
  EXPECT_EQ(fetches("model.safetensors"), 1U);
}

TEST_F(ModelScope, DatasetsHaveSubsetsAndNumbers) {
  const auto train = tern({"inspect-data", "org/rows:sums#3", "--model", "org/tiny", "--json"});
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_NE(train.out.find("\"rows\": 4"), std::string::npos) << train.out;
  EXPECT_NE(train.out.find("\"samples\": 3"), std::string::npos) << train.out;
  EXPECT_EQ(fetches("sums%2Ftest.jsonl"), 0U) << "the test split is none of training's";
  EXPECT_EQ(fetches("names.jsonl"), 0U) << "another subset";
  const auto trained = tern({"sft", "--model", "org/tiny", "--dataset", "ms::org/rows:sums#2", "--max_steps", "1",
                             "--output_dir", path("out").string()});
  EXPECT_EQ(trained.status, 0) << trained.err;
  const auto absent = tern({"inspect-data", "org/rows:sum", "--model", "org/tiny"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_NE(absent.last_error_line().find("sums"), std::string::npos) << absent.last_error_line();
}

TEST_F(ModelScope, RevisionsTokensAndMirrors) {
  EXPECT_EQ(tern({"inspect", "org/tiny", "--model_revision", "v2"}).status, 0);
  EXPECT_NE(hub_.requests().at(0).target.find("Revision=v2"), std::string::npos);
  const auto absent = tern({"inspect", "org/tiny", "--model_revision", "v3"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_NE(absent.last_error_line().find("v3"), std::string::npos) << absent.last_error_line();
  const auto refused = tern({"inspect", "org/tiny"}, {{"MODELSCOPE_API_TOKEN", ""}});
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.last_error_line().find("MODELSCOPE_API_TOKEN"), std::string::npos) << refused.last_error_line();
  EXPECT_EQ(tern({"inspect", "org/tiny", "--hub_token", "secret"}, {{"MODELSCOPE_API_TOKEN", "other"}}).status, 0)
      << "the flag wins over the variable";
  EXPECT_EQ(tern({"inspect", "org/tiny"}, {{"MODELSCOPE_ENDPOINT", ""}, {"MODELSCOPE_DOMAIN", hub_.url()}}).status, 0);
  const auto other_hub = tern({"inspect", "org/tiny", "--use_hf", "true"},
                              {{"HF_ENDPOINT", hub_.url()}, {"HF_HUB_CACHE", path("hf").string()}});
  EXPECT_EQ(other_hub.status, 3) << "a bare name with --use_hf is Hugging Face's";
}

TEST_F(ModelScope, OfflineIsWhatTheCacheHolds) {
  const std::map<std::string, std::string> offline = {{"HF_HUB_OFFLINE", "1"}};
  const auto before = tern({"inspect", "org/tiny"}, offline);
  EXPECT_EQ(before.status, 3);
  EXPECT_NE(before.last_error_line().find("HF_HUB_OFFLINE"), std::string::npos) << before.last_error_line();
  ASSERT_EQ(tern({"inspect-data", "org/rows:sums", "--model", "org/tiny"}).status, 0);
  const std::size_t asked = hub_.requests().size();
  const auto after = tern({"inspect-data", "org/rows:sums", "--model", "org/tiny"}, offline);
  EXPECT_EQ(after.status, 0) << after.err;
  EXPECT_EQ(hub_.requests().size(), asked) << "the hub was asked";
}

// A repository of GGUF files is many models: the user names one, by file or by quantisation.
TEST_F(ModelScope, OfGgufFilesOneIsFetched) {
  for (const char* type : {"f16", "q8_0"}) {
    const std::string file = path(std::string("store/models/org/quants/tiny-") + type + ".gguf").string();
    fs::create_directories(fs::path(file).parent_path());
    ASSERT_EQ(tern({"convert", path("local").string(), file, "--outtype", type}).status, 0);
  }
  put("models/org/quants/mmproj-tiny-f16.gguf", "a projector, no model");
  const auto which = tern({"inspect", "org/quants"});
  EXPECT_EQ(which.status, 3);
  const auto line = which.last_error_line();
  EXPECT_NE(line.find("tiny-f16.gguf, tiny-q8_0.gguf"), std::string::npos) << line;
  EXPECT_EQ(fetches("tiny-f16.gguf") + fetches("tiny-q8_0.gguf"), 0U) << "files were fetched before the choice";
  const auto chosen = tern({"inspect", "org/quants:Q8_0", "--json"});
  ASSERT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_EQ(tern({"inspect", "ms::org/quants:tiny-q8_0.gguf", "--json"}).out, chosen.out);
  EXPECT_EQ(tern({"inspect", "org/quants:q8_0", "--json"}, {{"HF_HUB_OFFLINE", "1"}}).out, chosen.out);
  EXPECT_EQ(fetches("tiny-f16.gguf") + fetches("mmproj-tiny-f16.gguf"), 0U);
  EXPECT_EQ(fetches("tiny-q8_0.gguf"), 1U);
  const auto absent = tern({"inspect", "org/quants:Q2_K"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_NE(absent.last_error_line().find("tiny-f16.gguf, tiny-q8_0.gguf"), std::string::npos);
  fs::remove(path("store/models/org/quants/tiny-f16.gguf"));
  const auto only = tern({"infer", "--model", "org/quants", "--temperature", "0", "--max_new_tokens", "2"});
  EXPECT_EQ(only.status, 0) << only.err;
  EXPECT_EQ(fetches("mmproj-tiny-f16.gguf"), 1U) << "what can see fetches its tower, too";
  EXPECT_NE(only.err.find("mmproj-tiny-f16.gguf"), std::string::npos) << "and says where it is no use: " << only.err;
  // A split one is all of its parts. (These hold no model: that they are read at all shows that they came.)
  for (const char* part : {"1", "2"})
    put(std::string("models/org/quants/big-Q4_K_M-0000") + part + "-of-00002.gguf", "part");
  const auto split = tern({"inspect", "org/quants:Q4_K_M"});
  EXPECT_EQ(split.status, 3);
  EXPECT_NE(split.last_error_line().find("big-Q4_K_M-00001-of-00002.gguf"), std::string::npos) << split.err;
  for (const char* part : {"1", "2"}) EXPECT_EQ(fetches(std::string("big-Q4_K_M-0000") + part + "-of-00002.gguf"), 1U);
}

}  // namespace
}  // namespace tern::e2e
