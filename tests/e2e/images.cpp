// tern infer with checkpoints that see, asked in text, against transformers' answers.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "run.h"
#include "tests/support/parsed_json.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using io::Json;
using Words = std::vector<std::string>;

const fs::path kMedia = fs::path(TERN_TEST_DATA) / "media";

class Images : public ::testing::Test {
 protected:
  Images() {
    options_.variables["TERN_HOME"] = (scratch_ / "home").string();
    options_.variables["TERN_CACHE_DIR"] = (scratch_ / "cache").string();
    options_.folder = kMedia / "decode";
  }
  [[nodiscard]] Outcome infer(const std::string& model, Words more, const std::string& input = {}) const {
    more.insert(more.begin(), {"infer", "--model", (kMedia / "models" / model).string(), "--torch_dtype", "float32",
                               "--temperature", "0", "--max_new_tokens", "8"});
    Options options = options_;
    options.input = input;
    return run(more, options);
  }
  // The result rows of rows, each a line of JSON.
  [[nodiscard]] std::vector<Json> results(const std::string& model, const std::string& rows, Words more = {}) const {
    more.insert(more.end(), {"--val_dataset", scratch_.write("rows.jsonl", rows), "--logprobs"});
    const auto outcome = infer(model, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<Json> out;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) out.push_back(test::parsed_json(line));
    return out;
  }
  static std::vector<Json> golden(const std::string& model) {
    const Json json = test::parsed_json(std::ifstream(kMedia / "models" / model / "answers.json"));
    return {json["answers"].begin(), json["answers"].end()};
  }
  static std::string row_of(const Json& answer) {
    return Json({{"query", answer["query"]}, {"images", answer["images"]}}).dump() + "\n";
  }
  static void expect_equal(const Json& result, const Json& answer) {
    ASSERT_FALSE(result.contains("error")) << result.dump();
    EXPECT_EQ(result.contains("images") ? result["images"].dump() : "[]", answer["images"].dump());
    const Json& tokens = result["logprobs"]["content"];
    ASSERT_EQ(tokens.size(), answer["ids"].size()) << result.dump();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i]["id"].get<int>(), answer["ids"][i].get<int>()) << i;
      EXPECT_NEAR(tokens[i]["logprob"].get<double>(), answer["logprobs"][i].get<double>(), 1e-3) << i;
    }
  }

  Scratch scratch_;
  Options options_;
};

class OfModel : public Images, public ::testing::WithParamInterface<const char*> {};

// Also where config.json says of the whole alone whether embeddings are tied, which only the tensors can settle.
TEST_P(OfModel, AnswersToTextAloneAreThoseOfTransformers) {
  const Json answer = golden(GetParam()).back();
  expect_equal(results(GetParam(), row_of(answer)).at(0), answer);
}

INSTANTIATE_TEST_SUITE_P(Towers, OfModel, ::testing::Values("qwen2_5_vl", "qwen3_vl", "gemma3", "internvl3"));

}  // namespace
}  // namespace tern::e2e
