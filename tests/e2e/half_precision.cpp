// A model in bf16 on a device that has no bf16, as older accelerators are: it runs in fp16, and is trained there with a
// loss scale.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

class HalfPrecision : public TinyTraining {
 protected:
  HalfPrecision() : TinyTraining(sums(12)) {
    TinyModel model;
    model.heads = 2;
    model.kv_heads = 1;
    write_tiny_model(path("model"), model);
    std::string config = read("model/config.json");
    const std::string own = R"("torch_dtype":"float32")";
    config.replace(config.find(own), own.size(), R"("torch_dtype":"bfloat16")");
    std::ofstream(path("model/config.json")) << config;
    options_.variables["TERN_SIM"] = "ascend";
    options_.variables["TERN_SIM_WITHOUT"] = "bf16";
  }
  [[nodiscard]] Outcome train(const std::string& output, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"sft",
                                      "--model",
                                      path("model").string(),
                                      "--dataset",
                                      rows_,
                                      "--output_dir",
                                      path(output).string(),
                                      "--add_version",
                                      "false",
                                      "--logging_steps",
                                      "1",
                                      "--learning_rate",
                                      "1e-2",
                                      "--max_steps",
                                      "3",
                                      "--save_strategy",
                                      "no"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options_);
  }
};

constexpr const char* kLine = "the model is in bfloat16, which simulated ascend device can't store: it runs in float16";

TEST_F(HalfPrecision, AModelInBf16TrainsInFp16WithALossScale) {
  const Outcome half = train("half", {"--device", "sim:0"});
  ASSERT_EQ(half.status, 0) << half.err;
  EXPECT_NE(half.err.find(kLine), std::string::npos) << half.err;
  EXPECT_NE(half.err.find("products in f16"), std::string::npos) << half.err;
  const Outcome whole = train("whole", {"--device", "cpu", "--torch_dtype", "float32"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const auto found = logged("half", "loss");
  const auto expected = logged("whole", "loss");
  ASSERT_EQ(found.size(), 3U);
  ASSERT_EQ(expected.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(std::stod(found[i]), std::stod(expected[i]), 0.02) << i;
  EXPECT_EQ(logged("half", "loss_scale").size(), 3U);
  EXPECT_TRUE(logged("whole", "loss_scale").empty());
}

TEST_F(HalfPrecision, AskedForBf16ItEndsBeforeTheRun) {
  const Outcome outcome = train("refused", {"--device", "sim:0", "--torch_dtype", "bfloat16"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(
      outcome.last_error_line(),
      "tern: error: --torch_dtype is bfloat16, and simulated ascend device can't store it; drop the flag, or give "
      "float16.");
  EXPECT_FALSE(std::filesystem::exists(path("refused")));
}

TEST_F(HalfPrecision, AnswersInFp16) {
  options_.input = "1+2=";
  const Outcome outcome = run({"infer", "--model", path("model").string(), "--device", "sim:0", "--temperature", "0",
                               "--max_new_tokens", "3", "--max_model_len", "128", "--fallback", "forbid"},
                              options_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(kLine), std::string::npos) << outcome.err;
}

TEST_F(HalfPrecision, ADtypeThatNoDeviceMayLackIsNamed) {
  options_.variables["TERN_SIM_WITHOUT"] = "f32";
  const Outcome outcome = run({"devices", "--device", "sim"}, options_);
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.err.find("TERN_SIM_WITHOUT=f32 names no dtype that a device may lack"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace tern::e2e
