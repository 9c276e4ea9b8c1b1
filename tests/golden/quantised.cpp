// Checkpoints that a quantiser wrote, run as models: each equals its dequantised twin.
#include <gtest/gtest.h>
#include <unistd.h>

#include "accel/backend.h"
#include "base/strings.h"
#include "checkpoint/convert.h"
#include "golden.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;

const std::string kLinear = "model.layers.0.self_attn.q_proj.weight";

accel::DevicePtr sim_device() {
  static const auto backend = accel::Backend::load(TERN_SIM_PLUGIN).value();
  return accel::Device::open(backend, 0).value();
}

models::LoadedModel load_on(const fs::path& path, accel::DevicePtr device, tern_dtype dtype,
                            bool fp32_masters = false) {
  models::LoadOptions options;
  options.dtype = dtype;
  if (fp32_masters) options.is_master = [](const std::string&) { return true; };
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
  return models::load_model(models::read_config(*source).value(), source, std::move(device), options).value();
}

class Quantised : public testing::TestWithParam<const char*> {
 protected:
  Quantised() : path_(fs::path(TERN_TEST_DATA) / "checkpoint/quantized/models" / GetParam()) {}
  ~Quantised() override {
    std::error_code ignored;
    fs::remove_all(twin_, ignored);
  }
  // What `tern convert` makes of it: the same numbers without the quantisation.
  fs::path twin(const std::string& outtype) {
    twin_ = fs::path(testing::TempDir()) / cat("tern-twin-", ::getpid(), "-", GetParam());
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    options.replace = true;
    const auto source = checkpoint::CheckpointSource::open(path_).value();
    (void)checkpoint::convert_checkpoint(source, twin_, options).value();
    return twin_;
  }
  [[nodiscard]] static std::vector<float> logits(models::LoadedModel& model) {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> rows;
    for (std::int32_t i = 0; i < 24; ++i) {
      tokens.push_back(i * 7 % 48);
      rows.push_back(i);
    }
    return prefill_logits(model, tokens, rows, TERN_F32);
  }

  fs::path path_;
  fs::path twin_;
};

class Expanded : public Quantised {};
TEST_P(Expanded, EqualsItsTwin) {
  auto model = load_on(path_, cpu_device(), TERN_BF16);
  auto other = load_on(twin("bf16"), cpu_device(), TERN_BF16);
  ASSERT_FALSE(is_quantised(model.store->at(kLinear).desc)) << "the cpu has no product for it";
  ASSERT_EQ(model.notes.size(), 1U);
  EXPECT_NE(model.notes[0].find(" were expanded to bf16, 0.0 MB in place of 0.0 MB: cpu:0 has no product for them"),
            std::string::npos)
      << model.notes[0];
  EXPECT_TRUE(other.notes.empty());
  const auto got = logits(model);
  EXPECT_EQ(got, logits(other));
  EXPECT_GT(max_difference(got, std::vector<float>(got.size(), 0.0F)), 0.1);
}

// MXFP4's pairs of planes are held as ggml's blocks of the same numbers.
class Repacked : public Quantised {};
TEST_P(Repacked, EqualsItsTwin) {
  auto model = load_on(path_, cpu_device(), TERN_F32);
  auto other = load_on(twin("f32"), cpu_device(), TERN_F32);
  EXPECT_EQ(model.store->at(kLinear).desc.scheme.packing, TERN_PACK_GGUF_MXFP4);
  EXPECT_TRUE(model.notes.empty());
  EXPECT_LE(max_difference(logits(model), logits(other)), 1e-4);
}

// Full training begins from the same numbers, in fp32.
TEST_P(Quantised, MastersAreItsTwins) {
  const auto model = load_on(path_, cpu_device(), TERN_BF16, true);
  const auto other = load_on(twin("f32"), cpu_device(), TERN_F32, true);
  for (const auto& spec : model.architecture->parameters(model.config))
    EXPECT_EQ(download(*model.store, spec.name), download(*other.store, spec.name)) << spec.name;
}

// Broken if a device that has the packing got expanded weights, or planes in another order.
TEST_P(Quantised, StaysAsStoredWhereTheDeviceHasThePacking) {
  auto model = load_on(path_, sim_device(), TERN_F32);
  auto other = load_on(twin("f32"), sim_device(), TERN_F32);
  const std::string method = GetParam();
  const bool has = method == "fp8" || method == "int8" || method == "mxfp4";
  EXPECT_EQ(is_quantised(model.store->at(kLinear).desc), has);
  EXPECT_EQ(model.notes.empty(), has);
  if (!has) return;
  EXPECT_LE(max_difference(logits(model), logits(other)), 1e-4);
}

constexpr auto kMethodName = [](const auto& tested) { return std::string(tested.param); };
INSTANTIATE_TEST_SUITE_P(Methods, Quantised, testing::Values("awq", "gptq", "fp8", "int8", "nf4", "mxfp4"),
                         kMethodName);
INSTANTIATE_TEST_SUITE_P(Methods, Expanded, testing::Values("awq", "gptq", "fp8", "int8", "nf4"), kMethodName);
INSTANTIATE_TEST_SUITE_P(Methods, Repacked, testing::Values("mxfp4"), kMethodName);

}  // namespace
}  // namespace tern::golden
