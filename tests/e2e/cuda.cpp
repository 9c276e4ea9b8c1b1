// Training and answering on the cuda backend, over the fake of NVIDIA's driver, as on an H100 and on the oldest device:
// without the host's help, and as the cpu does. If this fails, kernels that pass one by one don't do so together.
#include <gtest/gtest.h>

#include <cmath>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

constexpr const char* kCapabilities[] = {"90", "80"};

class Cuda : public TinyTraining {
 protected:
  Cuda() : TinyTraining(sums(12)) { use_heads_of_16(); }
  [[nodiscard]] Options on(const std::string& capability) const {
    Options options = options_;
    if (capability == "cpu") return options;
    options.variables["TERN_FAKE_CUDA_CAPABILITY"] = capability;
    options.variables["LD_LIBRARY_PATH"] = TERN_FAKE_CUDA;
    return options;
  }
  [[nodiscard]] static std::string device(const std::string& capability) {
    return capability == "cpu" ? "cpu" : "cuda:0";
  }
  [[nodiscard]] std::vector<double> train(const std::string& capability) const {
    const std::string output = "out-" + capability;
    // clang-format off
    const auto words = sft(output, {
        "--device", device(capability), "--fallback", "forbid", "--activation_dtype", "float32", "--max_steps", "3",
        "--learning_rate", "1e-2", "--lora_dropout", "0.1", "--per_device_train_batch_size", "2",
        "--gradient_accumulation_steps", "2", "--save_strategy", "epoch"});
    // clang-format on
    const Outcome outcome = run(words, on(capability));
    EXPECT_EQ(outcome.status, 0) << capability << ": " << outcome.err;
    std::vector<double> losses;
    for (const std::string& loss : logged(output, "loss")) losses.push_back(std::stod(loss));
    return losses;
  }
  [[nodiscard]] std::string generate(const std::string& capability, const std::string& cache = "auto",
                                     const std::string& dtype = "float32") const {
    Options options = on(capability);
    options.input = "1+2=";
    const Outcome outcome = run({"infer",
                                 "--model",
                                 path("model").string(),
                                 "--adapters",
                                 path("out-cpu/checkpoint-3").string(),
                                 "--device",
                                 device(capability),
                                 "--fallback",
                                 "forbid",
                                 "--torch_dtype",
                                 dtype,
                                 "--activation_dtype",
                                 dtype,
                                 "--temperature",
                                 "0",
                                 "--max_new_tokens",
                                 "6",
                                 "--max_model_len",
                                 "128",
                                 "--kv_cache_dtype",
                                 cache},
                                options);
    EXPECT_EQ(outcome.status, 0) << capability << ", " << cache << ": " << outcome.err;
    return outcome.out;
  }
};

TEST_F(Cuda, TrainsAnAdapterAndAnswersAsTheCpuDoes) {
  const std::vector<double> expected = train("cpu");
  ASSERT_EQ(expected.size(), 3U);
  const std::string answer = generate("cpu");
  for (const char* capability : kCapabilities) {
    const std::vector<double> found = train(capability);
    ASSERT_EQ(found.size(), expected.size()) << capability;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i])) << capability << ", step " << i;
    }
    EXPECT_EQ(generate(capability), answer) << capability;
  }
  // Over a cache of 8 bits, in fp32 and on the matrix units.
  for (const char* cache : {"int8", "fp8"}) {
    EXPECT_EQ(generate("90", cache), generate("cpu", cache)) << cache;
    EXPECT_EQ(generate("80", cache, "bfloat16"), generate("cpu", cache, "bfloat16")) << cache;
  }
}

}  // namespace
}  // namespace tern::e2e
