// The same model trains and generates on the cpu and on every device that we cannot run: if one of these fails, the
// interface asks something of a device that some device cannot give.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include "run.h"
#include "tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPersonalities[] = {"discrete", "ascend", "graph", "embedded"};

std::vector<double> losses(const fs::path& run_folder) {
  std::ostringstream text;
  text << std::ifstream(run_folder / "logging.jsonl").rdbuf();
  const std::string all = text.str();
  const std::regex pattern("\"(?:eval_)?loss\":([-+.0-9eE]+)");
  std::vector<double> out;
  for (std::sregex_iterator it(all.begin(), all.end(), pattern), end; it != end; ++it)
    out.push_back(std::stod((*it)[1]));
  return out;
}

class Personalities : public ::testing::Test {
 protected:
  Personalities() {
    write_tiny_model(scratch_.path() / "model");
    rows_ = scratch_.write("rows.jsonl", sums(12));
    options_.variables["TERN_HOME"] = (scratch_.path() / "home").string();
    options_.variables["TERN_CACHE_DIR"] = (scratch_.path() / "cache").string();
    options_.folder = scratch_.path();
  }

  [[nodiscard]] Options on(const std::string& personality) const {
    Options options = options_;
    if (personality != "cpu") options.variables["TERN_SIM"] = personality;
    return options;
  }
  [[nodiscard]] static std::string device(const std::string& personality) {
    return personality == "cpu" ? "cpu" : "sim:0";
  }
  [[nodiscard]] std::vector<double> train(const std::string& personality) const {
    const fs::path output = scratch_.path() / ("out-" + personality);
    const Outcome outcome = run({"sft",
                                 "--model",
                                 (scratch_.path() / "model").string(),
                                 "--dataset",
                                 rows_,
                                 "--val_dataset",
                                 rows_ + "#2",
                                 "--output_dir",
                                 output.string(),
                                 "--add_version",
                                 "false",
                                 "--device",
                                 device(personality),
                                 "--torch_dtype",
                                 "float32",
                                 "--learning_rate",
                                 "1e-2",
                                 "--max_steps",
                                 "3",
                                 "--per_device_train_batch_size",
                                 "2",
                                 "--gradient_accumulation_steps",
                                 "2",
                                 "--logging_steps",
                                 "1",
                                 "--save_strategy",
                                 "epoch",
                                 "--eval_strategy",
                                 "epoch"},
                                on(personality));
    EXPECT_EQ(outcome.status, 0) << personality << ": " << outcome.err;
    return losses(output);
  }
  // The embedded device draws no random bits: its sampling falls back to the host, where the user permits it.
  [[nodiscard]] std::string generate(const std::string& personality) const {
    Options options = on(personality);
    options.input = "1+2=";
    const Outcome outcome =
        run({"infer", "--model", (scratch_.path() / "model").string(), "--adapters",
             (scratch_.path() / "out-cpu" / "checkpoint-3").string(), "--device", device(personality), "--torch_dtype",
             "float32", "--fallback", personality == "embedded" ? "warn" : "forbid", "--temperature", "0",
             "--max_new_tokens", "6", "--max_model_len", "128"},
            options);
    EXPECT_EQ(outcome.status, 0) << personality << ": " << outcome.err;
    return outcome.out;
  }

  Scratch scratch_;
  Options options_;
  std::string rows_;
};

TEST_F(Personalities, TrainAndGenerateAsTheCpuDoes) {
  const std::vector<double> expected = train("cpu");
  ASSERT_GE(expected.size(), 4U) << "three steps and an evaluation";
  const std::string answer = generate("cpu");
  for (const char* personality : kPersonalities) {
    const std::vector<double> found = train(personality);
    ASSERT_EQ(found.size(), expected.size()) << personality;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i])) << personality << ", line " << i;
    }
    EXPECT_EQ(generate(personality), answer) << personality;
  }
}

TEST_F(Personalities, FaultsEndWithTheErrorLineAndTheDevicesExitCode) {
  for (const auto& [fault, words] :
       {std::pair{"oom@3", "memory"}, std::pair{"lost@5", "lost"}, std::pair{"async@5", "asynchronous"}}) {
    Options options = on("discrete");
    options.variables["TERN_SIM_FAULT"] = fault;
    const Outcome outcome =
        run({"sft", "--model", (scratch_.path() / "model").string(), "--dataset", rows_, "--output_dir",
             (scratch_.path() / "faulty").string(), "--device", "sim:0", "--max_steps", "1"},
            options);
    EXPECT_NE(outcome.status, 0) << fault;
    EXPECT_EQ(outcome.last_error_line().rfind("tern: error: ", 0), 0U) << fault << ": " << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(words), std::string::npos) << fault << ": " << outcome.last_error_line();
    EXPECT_EQ(outcome.status, std::string(fault) == "async@5" ? 1 : 4) << fault << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace tern::e2e
