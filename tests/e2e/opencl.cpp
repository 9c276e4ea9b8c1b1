// Training and answering on an OpenCL device: numbers as on the processor, and nothing that the host had to run. With
// no device, as where no driver is installed, there is nothing to ask.
#include <gtest/gtest.h>

#include <cmath>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

class OpenCl : public TinyTraining {
 protected:
  OpenCl() : TinyTraining(sums(12)) {
    TinyModel model;
    model.heads = 2;
    model.kv_heads = 1;
    write_tiny_model(path("model"), model);
  }
  void SetUp() override {
    const Outcome devices = run({"devices", "--device", "opencl"}, options_);
    if (devices.status != 0) GTEST_SKIP() << devices.err;
  }
  // The losses of three steps.
  [[nodiscard]] std::vector<double> losses(const std::string& device, std::vector<std::string> more) {
    const std::string output = device.substr(0, device.find(':'));
    const std::vector<std::string> steps = {"--device",        device, "--fallback",      "forbid", "--max_steps", "3",
                                            "--learning_rate", "1e-2", "--save_strategy", "no"};
    more.insert(more.end(), steps.begin(), steps.end());
    const Outcome outcome = run(sft(output, more), options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<double> out;
    for (const std::string& loss : logged(output, "loss")) out.push_back(std::stod(loss));
    EXPECT_EQ(out.size(), 3U);
    return out;
  }
  // fp32 on both: what differs is the order of sums, which three steps of a large learning rate make larger.
  void expect_losses_of_the_cpu(const std::vector<std::string>& more) {
    const auto found = losses("opencl:0", more);
    const auto expected = losses("cpu:0", more);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << i;
  }
};

TEST_F(OpenCl, AnAdapterTrainsWithTheLossesOfTheCpu) { expect_losses_of_the_cpu({}); }

TEST_F(OpenCl, AWholeModelTrainsWithTheLossesOfTheCpu) { expect_losses_of_the_cpu({"--tuner_type", "full"}); }

TEST_F(OpenCl, AnswersAsTheCpuDoes) {
  options_.input = "1+2=";
  const auto answer = [&](const std::string& device) {
    const Outcome outcome = run({"infer", "--model", path("model").string(), "--device", device, "--temperature", "0",
                                 "--max_new_tokens", "8", "--max_model_len", "128", "--fallback", "forbid"},
                                options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const std::string expected = answer("cpu:0");
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(answer("opencl:0"), expected);
}

}  // namespace
}  // namespace tern::e2e
