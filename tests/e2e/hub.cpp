// Hub ids as a user types them, against a hub on loopback.
#include <gtest/gtest.h>

#include "../unit/io/fake_hub.h"
#include "run.h"

namespace tern::e2e {
namespace {

using io::FakeReply;
using io::FakeRequest;

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
  io::FakeHub hub_{answer};
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

}  // namespace
}  // namespace tern::e2e
