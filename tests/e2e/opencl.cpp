// The same model trains and answers on opencl:0 as on the cpu: if this fails, kernels that pass one by one don't do so
// together, or something that a command needs is left to the host.
#include <gtest/gtest.h>

#include <cmath>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

class Opencl : public TinyTraining {
 protected:
  Opencl() : TinyTraining(sums(12)) {
    use_heads_of_16();
    options_.seconds = 600;  // the first run compiles every kernel
  }

  [[nodiscard]] std::vector<double> losses(const std::string& output, const std::vector<std::string>& words) const {
    const Outcome outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 0) << output << ": " << outcome.err;
    std::vector<double> losses;
    for (const std::string& loss : logged(output, "(?:eval_)?loss")) losses.push_back(std::stod(loss));
    return losses;
  }
  [[nodiscard]] std::vector<double> train(const std::string& output, const std::string& device,
                                          const std::vector<std::string>& more) const {
    auto words = sft(output, {"--device", device, "--learning_rate", "1e-2", "--lora_dropout", "0.1"});
    words.insert(words.end(), more.begin(), more.end());
    return losses(output, words);
  }
  [[nodiscard]] std::string answer(const std::string& device, const std::string& adapter,
                                   const std::string& cache = "auto") const {
    Options options = options_;
    options.input = "1+2=";
    const Outcome outcome = run({"infer", "--model", path("model").string(), "--adapters", path(adapter).string(),
                                 "--device", device, "--torch_dtype", "float32", "--temperature", "0",
                                 "--max_new_tokens", "6", "--max_model_len", "128", "--kv_cache_dtype", cache},
                                options);
    EXPECT_EQ(outcome.status, 0) << device << ", " << cache << ": " << outcome.err;
    return outcome.out;
  }
  static void expect_alike(const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i])) << "line " << i;
    }
  }
};

TEST_F(Opencl, TrainsAnswersAndResumesAsTheCpuDoes) {
  const std::vector<std::string> steps = {"--val_dataset", rows_ + "#2", "--max_steps",     "4",
                                          "--save_steps",  "2",          "--eval_strategy", "epoch"};
  const auto expected = train("cpu", "cpu", steps);
  ASSERT_GE(expected.size(), 4U) << "four steps";
  expect_alike(train("opencl", "opencl:0", steps), expected);
  // A checkpoint of one device goes on on the other.
  auto resumed = steps;
  resumed.insert(resumed.end(), {"--resume_from_checkpoint", path("cpu/checkpoint-2").string()});
  expect_alike(train("cpu", "opencl:0", resumed), expected);
  for (const std::string adapter : {"cpu/checkpoint-4", "opencl/checkpoint-4"}) {
    const std::string text = answer("cpu", adapter);
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(answer("opencl:0", adapter), text) << adapter;
  }
  for (const char* cache : {"int8", "fp8"}) {
    EXPECT_EQ(answer("opencl:0", "cpu/checkpoint-4", cache), answer("cpu", "cpu/checkpoint-4", cache)) << cache;
  }
}

TEST_F(Opencl, TrainsAndAnswersWithARealModel) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  options_.variables.erase("TERN_HOME");  // the model lies there
  const auto real = [&](const std::string& device) {
    const std::string output = device.substr(0, 3);
    // clang-format off
    return losses(output, {
        "sft", "--model", "smollm2-135m", "--dataset", TERN_SOURCE_DIR "/examples/gsm8k/train.jsonl#8", "--max_steps", "2",
        "--max_length", "128", "--output_dir", path(output).string(), "--add_version", "false", "--logging_steps", "1",
        "--learning_rate", "1e-3", "--torch_dtype", "float32", "--device", device, "--save_strategy", "no"});
    // clang-format on
  };
  const auto expected = real("cpu");
  ASSERT_EQ(expected.size(), 2U);
  expect_alike(real("opencl:0"), expected);
  Options options = options_;
  options.input = "What is 12 times 7?\n";
  const Outcome outcome =
      run({"infer", "--model", "smollm2-135m", "--device", "opencl:0", "--temperature", "0", "--max_new_tokens", "16"},
          options);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("12 times 7 is"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace tern::e2e
