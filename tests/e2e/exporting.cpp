// What leaves tern: adapters merged into directories and GGUF files, models quantised into files that other programs load.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/merge_check.h"
#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

class Exporting : public TinyTraining {
 protected:
  Exporting() : TinyTraining(sums(16)) {}

  // An adapter that changes much, over `model`.
  [[nodiscard]] std::string trained(const std::string& model = "model") const {
    auto words = sft("out", {"--max_steps", "8", "--learning_rate", "0.02"});
    words[2] = path(model).string();
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return path("out/checkpoint-8").string();
  }
  [[nodiscard]] double score(const std::vector<std::string>& model) const {
    std::vector<std::string> words = {"score", "--torch_dtype", "float32", "--dataset", texts_};
    words.insert(words.end(), model.begin(), model.end());
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::smatch found;
    EXPECT_TRUE(std::regex_search(outcome.out, found, std::regex("\"loss\":([-+.0-9eE]+)"))) << outcome.out;
    return found.empty() ? 0.0 : std::stod(found[1]);
  }
  [[nodiscard]] Outcome exported(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"export"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options_);
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path("out")), fs::directory_iterator()));
  }
  std::string texts_ = scratch_.write("texts.jsonl", "{\"text\": \"1 + 2 is 3 and 3 + 4 is 7\"}\n");
};

TEST_F(Exporting, MergesToADirectoryAsMergeLoraDoes) {
  const std::string checkpoint = trained();
  const auto merge = exported({"--merge_lora", "true", "--adapters", checkpoint + "/"});
  ASSERT_EQ(merge.status, 0) << merge.err;
  EXPECT_NE(merge.err.find("merge verified"), std::string::npos) << merge.err;
  const auto other = run({"merge-lora", "--adapters", checkpoint, "--output_dir", path("other").string()}, options_);
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_TRUE(read("out/checkpoint-8-merged/model.safetensors") == read("other/model.safetensors"));
  const double adapter = score({"--model", path("model").string(), "--adapters", checkpoint});
  EXPECT_GT(std::abs(score({"--model", path("model").string()}) - adapter), 0.1) << "the adapter changes nothing";
  EXPECT_NEAR(score({"--model", checkpoint + "-merged"}), adapter, 1e-4);
  EXPECT_EQ(exported({"--merge_lora", "true", "--adapters", checkpoint}).status, 2) << "it exists";
  EXPECT_EQ(exported({"--merge_lora", "true", "--adapters", checkpoint, "--exist_ok", "true"}).status, 0);
}

TEST_F(Exporting, AWrongMergeIsRefused) {
  const std::string checkpoint = trained();
  session::SessionOptions base;
  base.runtime.device = "cpu";
  base.model = path("model").string();
  EXPECT_THROW((void)engine::check_merge(base, checkpoint, path("model")), Failure) << "the base alone is no merge";
}

TEST_F(Exporting, AGgufBaseKeepsItsTypes) {
  const auto convert = run({"convert", path("model").string(), path("base.gguf").string(), "--outtype", "q8_0"}, options_);
  ASSERT_EQ(convert.status, 0) << convert.err;
  const std::string checkpoint = trained("base.gguf");
  const auto merge = exported({"--merge_lora", "true", "--adapters", checkpoint, "--output_dir", path("m.gguf").string()});
  ASSERT_EQ(merge.status, 0) << merge.err;
  EXPECT_EQ(fs::file_size(path("m.gguf")), fs::file_size(path("base.gguf"))) << "each tensor in its own type";
  const double adapter = score({"--model", path("base.gguf").string(), "--adapters", checkpoint});
  EXPECT_GT(std::abs(score({"--model", path("base.gguf").string()}) - adapter), 0.1) << "the adapter changes nothing";
  EXPECT_NEAR(score({"--model", path("m.gguf").string()}), adapter, 0.05);
  const auto fine = run({"merge-lora", "--adapters", checkpoint, "--outtype", "f32"}, options_);
  ASSERT_EQ(fine.status, 0) << fine.err;
  EXPECT_NEAR(score({"--model", checkpoint + "-merged.gguf"}), adapter, 1e-4);
}

TEST_F(Exporting, QuantisesIntoGguf) {
  const auto outcome = exported({"--model", path("model").string(), "--quant_method", "gguf", "--quant_bits", "8"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NEAR(score({"--model", path("model-gguf-int8.gguf").string()}), score({"--model", path("model").string()}), 0.05);
  const auto folder = exported({"--model", path("model").string(), "--quant_method", "gguf", "--outtype", "q4_0",
                                "--output_dir", path("folder").string()});
  ASSERT_EQ(folder.status, 0) << folder.err;
  EXPECT_TRUE(fs::exists(path("folder/model-q4_0.gguf")));
}

// The file is read again, and differs from the model by no more than the rounding of its weights.
TEST_F(Exporting, QuantisesIntoDirectories) {
  const std::string model = path("model").string();
  const double plain = score({"--model", model});
  const std::vector<std::tuple<std::string, std::string, double>> methods = {
      {"fp8", "", 0.1}, {"int8", "8", 0.05}, {"bnb", "8", 0.05}, {"bnb", "4", 0.3}};
  for (const auto& [method, bits, tolerance] : methods) {
    std::vector<std::string> words = {"--model", model, "--quant_method", method};
    if (!bits.empty()) words.insert(words.end(), {"--quant_bits", bits});
    const auto outcome = exported(words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string made = model + "-" + method + (bits.empty() ? "" : "-int" + bits);
    const double quantised = score({"--model", made});
    EXPECT_NEAR(quantised, plain, tolerance) << method << bits;
    EXPECT_NE(quantised, plain) << method << bits << ": nothing was rounded";
    EXPECT_LT(fs::file_size(fs::path(made) / "model.safetensors"), fs::file_size(path("model/model.safetensors")));
  }
  const std::string checkpoint = trained();
  const double adapter = score({"--model", model, "--adapters", checkpoint});
  const auto merged = exported({"--merge_lora", "true", "--adapters", checkpoint, "--quant_method", "int8"});
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_NEAR(score({"--model", checkpoint + "-int8"}), adapter, 0.05);
}

TEST_F(Exporting, AFullDiskLeavesNothing) {
  const std::string checkpoint = trained();
  const std::size_t before = entries();
  Options full = options_;
  full.largest_file = 4096;
  const auto outcome = run({"export", "--merge_lora", "true", "--adapters", checkpoint}, full);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.last_error_line().find("tern: error:"), std::string::npos) << outcome.err;
  EXPECT_EQ(entries(), before);
}

TEST_F(Exporting, RefusalsAreOneLine) {
  const std::string model = path("model").string();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--model", model}, "nothing to do"},
      {{"--model", model, "--merge_lora", "true"}, "needs an adapter"},
      {{"--adapters", model, "--quant_method", "gguf", "--quant_bits", "8"}, "only exported as part of its model"},
      {{"--model", model, "--quant_method", "gguf"}, "how many bits"},
      {{"--model", model, "--quant_method", "gguf", "--quant_bits", "3"}, "no GGUF type of 3 bits"},
      {{"--model", model, "--quant_bits", "8", "--merge_lora", "true"}, "--quant_bits has no effect"},
  };
  for (const auto& [words, part] : cases) {
    const auto outcome = exported(words);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(part), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace tern::e2e
