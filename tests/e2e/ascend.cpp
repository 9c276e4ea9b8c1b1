// Training and answering on the Ascend backend, over the fake of CANN's libraries, on a chip of each family: without
// the host's help, and as the cpu does.
#include <gtest/gtest.h>

#include <cmath>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

constexpr const char* kChips[] = {"910B1", "910_9391", "950PR_9589", "310P3", "910A"};

class Ascend : public TinyTraining {
 protected:
  Ascend() : TinyTraining(sums(12)) { use_heads_of_16(); }
  [[nodiscard]] Options on(const std::string& chip) const {
    Options options = options_;
    if (chip == "cpu") return options;
    options.variables["TERN_FAKE_CANN_CHIP"] = chip;
    options.variables["LD_LIBRARY_PATH"] = TERN_FAKE_CANN;
    return options;
  }
  [[nodiscard]] static std::string device(const std::string& chip) { return chip == "cpu" ? "cpu" : "npu:0"; }
  [[nodiscard]] std::vector<double> train(const std::string& chip) const {
    const std::string output = "out-" + chip;
    // clang-format off
    const auto words = sft(output, {
        "--device", device(chip), "--fallback", "forbid", "--activation_dtype", "float32", "--learning_rate", "1e-2", "--max_steps", "3",
        "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2", "--save_strategy", "epoch"});
    // clang-format on
    const Outcome outcome = run(words, on(chip));
    EXPECT_EQ(outcome.status, 0) << chip << ": " << outcome.err;
    std::vector<double> losses;
    for (const std::string& loss : logged(output, "loss")) losses.push_back(std::stod(loss));
    return losses;
  }
  [[nodiscard]] std::string generate(const std::string& chip) const {
    Options options = on(chip);
    options.input = "1+2=";
    const Outcome outcome =
        run({"infer", "--model", path("model").string(), "--adapters", path("out-cpu/checkpoint-3").string(),
             "--device", device(chip), "--fallback", "forbid", "--torch_dtype", "float32", "--temperature", "0",
             "--max_new_tokens", "6", "--max_model_len", "128"},
            options);
    EXPECT_EQ(outcome.status, 0) << chip << ": " << outcome.err;
    return outcome.out;
  }
};

TEST_F(Ascend, TrainsAnAdapterAndAnswersAsTheCpuDoes) {
  const std::vector<double> expected = train("cpu");
  ASSERT_EQ(expected.size(), 3U);
  const std::string answer = generate("cpu");
  for (const char* chip : kChips) {
    const std::vector<double> found = train(chip);
    ASSERT_EQ(found.size(), expected.size()) << chip;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i])) << chip << ", step " << i;
    }
    EXPECT_EQ(generate(chip), answer) << chip;
  }
}

}  // namespace
}  // namespace tern::e2e
