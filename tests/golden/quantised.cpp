// Checkpoints that a quantiser wrote, run as models: each equals its dequantised twin.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "accel/backend.h"
#include "base/strings.h"
#include "checkpoint/convert.h"
#include "golden.h"
#include "models/quantise_rows.h"
#include "ops/ref/tensor.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;

constexpr double kLogits = 1e-4;     // absolute
constexpr double kGradients = 1e-4;  // relative
constexpr double kX15Logits = 4e-4;  // relative, of activations in 15 bits
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

  // What is said beside how the checkpoint's own tools round what comes into a product.
  [[nodiscard]] static std::vector<std::string> without_rounding(std::vector<std::string> notes) {
    std::erase_if(notes, [](const std::string& note) { return note.find("isn't rounded") != std::string::npos; });
    return notes;
  }
  // Of linear layers that the checkpoint leaves alone.
  [[nodiscard]] static bool is_plain(const std::string& module) {
    return std::string(GetParam()) == "int8_mixed" && module.ends_with(".down_proj");
  }

  fs::path path_;
  fs::path twin_;
};

// Groups that planes have no word for: four scales of nf4 that share one, where bitsandbytes has 256.
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

// Broken if weights were expanded, their planes were laid out in another way, or one of the loops for many rows, for
// few and for x15 read them in another.
class AsStored : public Quantised {
 protected:
  // A step of an adapter on all linear layers, of numbers drawn from one seed.
  [[nodiscard]] static Gradients step(models::LoadedModel& model) {
    const models::AdapterConfig config{.rank = 4, .alpha = 8, .target_modules = {"all-linear"}};
    const auto adapter =
        models::create_adapter(model, "lora", config, models::select_modules(model.config, config.target_modules).value());
    StepOptions options;
    options.graph.adapters = adapter.layers;
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0.0F, 0.1F);
    for (const auto& [module, layer] : adapter.layers) {
      for (const std::string& name : {layer.lora_a, layer.lora_b}) {
        std::vector<float> values(static_cast<std::size_t>(num_elements(model.store->at(name).desc)));
        for (float& value : values) value = normal(random);
        model.store->upload(name, std::as_bytes(std::span(values)));
        options.graph.trainable.push_back(name);
      }
    }
    auto rows = std::make_shared<data::MemoryStore>();
    data::Sample sample;
    for (std::int32_t i = 0; i < 30; ++i) sample.ids.push_back(i * 5 % 48);
    sample.weights.assign(sample.ids.size(), 1.0F);
    rows->add(std::move(sample));
    data::EncodedDataset dataset;
    dataset.add(rows);
    return step_gradients(model, dataset, options);
  }
};

TEST_P(AsStored, EqualsItsTwin) {
  auto model = load_on(path_, cpu_device(), TERN_F32);
  auto other = load_on(twin("f32"), cpu_device(), TERN_F32);
  for (const auto& module : models::linear_modules(model.config))
    EXPECT_EQ(is_quantised(model.store->at(module.name + ".weight").desc), !is_plain(module.name)) << module.name;
  EXPECT_TRUE(without_rounding(model.notes).empty()) << model.notes.front();
  EXPECT_LE(max_difference(logits(model), logits(other)), kLogits);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 12; ++i) tokens.push_back(i * 11 % 48);
  const auto want = decode_logits(other, tokens);
  EXPECT_LE(max_difference(decode_logits(model, tokens), want), kLogits);
  const std::string method = GetParam();
  const auto in_x15 = decode_logits(model, tokens, TERN_COMPUTE_X15);
  EXPECT_LE(relative_error(in_x15, want), kX15Logits);
  const bool whole_numbers = method.starts_with("awq") || method.starts_with("gptq") || method.starts_with("packed_") ||
                             method.find("int8") != std::string::npos;
  EXPECT_EQ(in_x15 != decode_logits(model, tokens), whole_numbers);
}

TEST_P(AsStored, GradientsOfAnAdapterEqualItsTwins) {
  auto model = load_on(path_, cpu_device(), TERN_F32);
  auto other = load_on(twin("f32"), cpu_device(), TERN_F32);
  ASSERT_TRUE(is_quantised(model.store->at(kLinear).desc));
  const Gradients got = step(model), want = step(other);
  EXPECT_EQ(got.by_parameter.size(), 14U);
  EXPECT_NEAR(got.loss, want.loss, 1e-5);
  EXPECT_LE(worst_error(got, want), kGradients);
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
  const bool has = method != "nf4";
  EXPECT_EQ(is_quantised(model.store->at(kLinear).desc), has);
  EXPECT_EQ(without_rounding(model.notes).empty(), has);
  if (!has) return;
  EXPECT_LE(max_difference(logits(model), logits(other)), 1e-4);
}

// A weight quantised while loading has the numbers that the tools of the method give it.
class QuantisedAtLoad : public testing::Test {
 protected:
  // The planes of the fixture's weight.
  [[nodiscard]] std::vector<std::vector<std::byte>> planes(const models::QuantiseOptions& options) const {
    const std::int64_t rows = numbers_.shape("weight")[0], columns = numbers_.shape("weight")[1];
    const auto all = models::quantised_planes(options, rows, columns, numbers_.floats("weight"));
    std::vector<std::vector<std::byte>> out;
    std::size_t at = 0;
    for (const std::uint64_t bytes : plane_bytes(models::quantised_desc(options, rows, columns)).bytes) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(at);
      out.emplace_back(from, from + static_cast<std::ptrdiff_t>(bytes));
      at += bytes;
    }
    EXPECT_EQ(at, all.size());
    return out;
  }
  void expect_codes(const std::vector<std::byte>& plane, const std::string& name) const {
    const auto file = checkpoint::Safetensors::open(fixture("quantised-at-load.safetensors")).value();
    const auto* tensor = file.tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(plane.size(), tensor->bytes.size()) << name;
    EXPECT_TRUE(std::equal(plane.begin(), plane.end(), tensor->bytes.begin())) << name;
  }
  // Relative to what PyTorch gives; it adds up a mean in another order.
  static void expect_near(std::span<const float> found, std::span<const float> wanted, double bound) {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], wanted[i], bound * std::fabs(wanted[i])) << "element " << i;
  }
  [[nodiscard]] static std::vector<float> floats(std::span<const std::byte> bytes) {
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  Numbers numbers_{fixture("quantised-at-load.safetensors")};
};

TEST_F(QuantisedAtLoad, Nf4IsBitsandbytes) {
  const auto found = planes({.method = models::QuantiseMethod::nf4, .double_quant = false});
  expect_codes(found[0], "nf4.data");
  EXPECT_EQ(floats(found[1]), numbers_.floats("nf4.absmax"));
}

TEST_F(QuantisedAtLoad, Nf4WithScalesOfEightBitsIsBitsandbytes) {
  const models::QuantiseOptions options{.method = models::QuantiseMethod::nf4};
  const auto found = planes(options);
  expect_codes(found[0], "nf4_twice.data");
  expect_codes(found[1], "nf4_twice.absmax");
  const std::vector<float> levels = floats(found[2]);
  ASSERT_EQ(levels.size(), 256U + 1 + 2);
  EXPECT_EQ(std::vector(levels.begin(), levels.begin() + 256), numbers_.floats("nf4_twice.map"));
  expect_near(std::span(levels).subspan(256, 1), numbers_.floats("nf4_twice.offset"), 0x1p-22);
  expect_near(std::span(levels).subspan(257), numbers_.floats("nf4_twice.nested"), 0x1p-20);
  std::vector<std::span<const std::byte>> spans(found.begin(), found.end());
  const auto tensor = ops::ref::decode(models::quantised_desc(options, 256, 128), spans);
  EXPECT_LE(
      relative_error(std::vector<float>(tensor.real.begin(), tensor.real.end()), numbers_.floats("nf4_twice.values")),
      1e-6);
}

TEST_F(QuantisedAtLoad, Int8IsBitsandbytes) {
  const auto found = planes({.method = models::QuantiseMethod::int8});
  expect_codes(found[0], "int8.data");
  std::vector<float> scales = floats(found[1]);
  for (float& scale : scales) scale *= 127.0F;
  expect_near(scales, numbers_.floats("int8.absmax"), 0x1p-22);
}

TEST_F(QuantisedAtLoad, Fp8IsTransformers) {
  const auto found = planes({.method = models::QuantiseMethod::fp8});
  expect_codes(found[0], "fp8.data");
  EXPECT_EQ(floats(found[1]), numbers_.floats("fp8.scale"));
}

// Broken if the model computed with other weights than those, or something but its linear layers and experts was
// quantised.
class QuantisedModel : public testing::TestWithParam<std::tuple<const char*, models::QuantiseMethod>> {
 protected:
  [[nodiscard]] static models::LoadedModel quantised(const fs::path& path, const models::QuantiseOptions& how,
                                                     accel::DevicePtr device) {
    models::LoadOptions options;
    options.quantise = how;
    const auto source =
        std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
    return models::load_model(models::read_config(*source).value(), source, std::move(device), options).value();
  }
  // Rounds the twin's weight as the model's is.
  static void round(const models::LoadedModel& model, models::LoadedModel& twin, const models::QuantiseOptions& how,
                    const models::ParameterSpec& spec) {
    const TensorDesc& desc = model.store->at(spec.name).desc;
    const std::vector<float> plain = download(*twin.store, spec.name);
    const std::int64_t matrices = spec.shape.size() == 3 ? spec.shape[0] : 1;
    const auto values = [&](std::int64_t first, std::int64_t count) {
      const auto from = plain.begin() + first * desc.shape[1];
      return std::vector<float>(from, from + count * desc.shape[1]);
    };
    const auto want = models::quantised_planes_of(how, desc, matrices, values);
    std::vector<std::byte> stored(total_bytes(desc));
    model.store->download(spec.name, stored);
    EXPECT_EQ(stored, want) << spec.name;
    std::vector<std::span<const std::byte>> spans;
    std::size_t at = 0;
    for (const std::uint64_t bytes : plane_bytes(desc).bytes) {
      spans.push_back(std::span(want).subspan(at, bytes));
      at += bytes;
    }
    const auto numbers = ops::ref::decode(desc, spans).real;
    const std::vector<float> rounded(numbers.begin(), numbers.end());
    EXPECT_LE(relative_error(rounded, plain), 0.12) << spec.name;
    twin.store->upload(spec.name, std::as_bytes(std::span(rounded)));
  }
  [[nodiscard]] static std::vector<float> logits(models::LoadedModel& model) {
    std::vector<std::int32_t> tokens, rows;
    for (std::int32_t i = 0; i < 20; ++i) {
      tokens.push_back(i * 7 % static_cast<std::int32_t>(model.config.vocab_size));
      rows.push_back(i);
    }
    return prefill_logits(model, tokens, rows, TERN_F32);
  }
};

TEST_P(QuantisedModel, ComputesWithTheQuantisedNumbers) {
  const auto [name, method] = GetParam();
  const fs::path path = fixture(name);
  const models::QuantiseOptions how{.method = method};
  auto model = quantised(path, how, cpu_device());
  auto twin = load(path, true);  // in memory that can be written
  std::set<std::string> linear;
  for (const auto& module : models::linear_modules(model.config)) linear.insert(module.name + ".weight");
  bool any_experts = false, any_left = false;
  for (const auto& spec : model.architecture->parameters(model.config)) {
    const bool experts = spec.shape.size() == 3 && !spec.is_bias;
    const bool is_held = is_quantised(model.store->at(spec.name).desc);
    const bool fits = spec.shape.back() % 32 == 0;  // that the cpu has products for
    EXPECT_EQ(is_held, (experts || linear.contains(spec.name)) && fits) << spec.name;
    any_experts = any_experts || experts;
    any_left = any_left || (experts && !fits);
    if (is_held) round(model, twin, how, spec);
  }
  const auto says = [&](const char* begin) {
    return std::any_of(model.notes.begin(), model.notes.end(),
                       [&](const std::string& note) { return note.starts_with(begin); });
  };
  EXPECT_TRUE(says("weights of linear layers were quantised to "));
  EXPECT_EQ(says("weights of routed experts were quantised to "), any_experts);
  EXPECT_EQ(says("weights of routed experts stay in f32, 0.0 MB: cpu:0 has no product for their shapes in "), any_left);
  EXPECT_EQ(model.notes.size(), 1U + (any_experts ? 1U : 0U) + (any_left ? 1U : 0U));
  const auto want = logits(twin);
  EXPECT_LE(max_difference(logits(model), want), kLogits);
  if (any_experts && !any_left) {  // this device has products for all shapes
    auto simulated = quantised(path, how, sim_device());
    EXPECT_LE(max_difference(logits(simulated), want), kLogits);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, QuantisedModel,
                         testing::Combine(testing::Values("qwen3-untied", "qwen3-moe-tied", "mixtral", "gpt-oss-tied"),
                                          testing::Values(models::QuantiseMethod::nf4, models::QuantiseMethod::int8,
                                                          models::QuantiseMethod::fp8)));

// gpt-oss is published with experts that are quantised already: they stay, with a line.
TEST_F(QuantisedModel, ExpertsThatAreQuantisedAlreadyStay) {
  const auto model = quantised(fixture("gpt-oss-mxfp4"), {.method = models::QuantiseMethod::int8}, cpu_device());
  EXPECT_EQ(model.store->at("model.layers.0.mlp.experts.gate_proj.weight").desc.scheme.packing, TERN_PACK_GGUF_MXFP4);
  EXPECT_EQ(model.store->at("model.layers.0.self_attn.q_proj.weight").desc.scheme.packing, TERN_PACK_ROW_INT8);
  EXPECT_NE(
      std::find(model.notes.begin(), model.notes.end(), "weights of routed experts stay as they're stored, in mxfp4"),
      model.notes.end());
}

// Blocks of fp8 are of one expert each, whatever the number of its rows.
TEST_F(QuantisedAtLoad, Fp8HasBlocksOfOneExpert) {
  const models::QuantiseOptions options{.method = models::QuantiseMethod::fp8};
  EXPECT_EQ(models::quantised_desc_of(options, 4, 2880, 64).scheme.group_rows, 64);
  EXPECT_EQ(models::quantised_desc_of(options, 4, 256, 64).scheme.group_rows, 128);
  EXPECT_EQ(models::quantised_desc_of(options, 1, 2880, 64).scheme.group_rows, 128);
}

constexpr auto kMethodName = [](const auto& tested) { return std::string(tested.param); };
INSTANTIATE_TEST_SUITE_P(Methods, Quantised,
                         testing::Values("awq", "gptq", "gptq_in_order", "fp8", "fp8_rows", "int8", "nf4", "nf4_256",
                                         "mxfp4", "fp8_whole"),
                         kMethodName);
// As quantisers themselves write a model (script/golden.d/quantizer_checkpoints.py).
constexpr const char* kWriters[] = {"packed_int4",      "packed_int4_zeros",
                                    "packed_int4_rows", "packed_int4_order",
                                    "packed_int8",      "int8_zeros",
                                    "int8_mixed",       "fp8_blocks",
                                    "gptq_int3",        "gptq_v2",
                                    "gptq_borrowed",    "gptq_dynamic",
                                    "awq_gemv",         "fp4",
                                    "bnb_int8"};
INSTANTIATE_TEST_SUITE_P(Writers, Quantised, testing::ValuesIn(kWriters), kMethodName);
INSTANTIATE_TEST_SUITE_P(Writers, AsStored, testing::ValuesIn(kWriters), kMethodName);
INSTANTIATE_TEST_SUITE_P(Methods, Expanded, testing::Values("nf4"), kMethodName);
INSTANTIATE_TEST_SUITE_P(Methods, AsStored,
                         testing::Values("awq", "gptq", "gptq_in_order", "fp8", "fp8_rows", "int8", "nf4_256",
                                         "fp8_whole"),
                         kMethodName);
INSTANTIATE_TEST_SUITE_P(Methods, Repacked, testing::Values("mxfp4"), kMethodName);

}  // namespace
}  // namespace tern::golden
