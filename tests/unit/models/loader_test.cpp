// What weights are held in, and what that costs.
#include "models/loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/half.h"
#include "base/strings.h"
#include "checkpoint/convert.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/ggml_types.h"
#include "checkpoint/gguf_writer.h"
#include "models/gguf_names.h"
#include "models/parameter_reader.h"
#include "models/rope.h"
#include "scratch_model.h"
#include "tests/support/tiny_model.h"

namespace tern::models {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointSource;

constexpr tern_dtype kDtypes[] = {TERN_F32, TERN_BF16, TERN_F16};

Result<LoadedModel> load(const fs::path& path, const LoadOptions& options) {
  auto source = std::make_shared<CheckpointSource>(CheckpointSource::open(path).value());
  return load_model(read_config(*source).value(), source, cpu_device(), options);
}

// The bytes of `value` in that dtype, said once more: the loader's own rounding is what is tested.
std::string bytes_in(tern_dtype dtype, float value) {
  const std::uint16_t half = dtype == TERN_BF16 ? float_to_bf16(value) : float_to_fp16(value);
  std::string bytes(dtype == TERN_F32 ? sizeof(value) : sizeof(half), '\0');
  std::memcpy(bytes.data(), dtype == TERN_F32 ? static_cast<const void*>(&value) : &half, bytes.size());
  return bytes;
}

std::string held(const LoadedModel& model, const std::string& name) {
  std::string bytes(total_bytes(model.store->at(name).desc), '\0');
  model.store->download(name, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class HeldIn : public ::testing::Test {
 protected:
  fs::path stored_in(const fs::path& model, tern_dtype dtype) {
    checkpoint::ConvertOptions options;
    options.outtype = dtype_name(dtype);
    options.replace = true;
    const fs::path target = scratch_ / cat("stored-", dtype_name(dtype));
    (void)checkpoint::convert_checkpoint(CheckpointSource::open(model).value(), target, options).value();
    return target;
  }
  fs::path gguf(const std::string& outtype) {
    const auto source = CheckpointSource::open(golden("llama-tied")).value();
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    set_gguf_form(source, read_config(source).value(), "tiny", options).value();
    (void)checkpoint::convert_checkpoint(source, scratch_ / "model.gguf", options).value();
    return scratch_ / "model.gguf";
  }
  // Expects every weight of the model in `dtype`, each of its numbers the stored one rounded once.
  static void expect_rounded(const LoadedModel& model, tern_dtype dtype) {
    ParameterReader reader(*model.source);
    for (const auto& spec : model.architecture->parameters(model.config)) {
      ASSERT_EQ(model.store->at(spec.name).desc.dtype, dtype) << spec.name;
      std::string want;
      for (const float value : reader.read(spec)) want += bytes_in(dtype, value);
      EXPECT_TRUE(held(model, spec.name) == want) << spec.name << " in " << dtype_name(dtype);
    }
  }

  test::TempDir scratch_;
};

// Nine ways, and in three of them nothing is copied: the rotary table is all that is allocated.
TEST_F(HeldIn, TheDtypeThatIsAskedFor) {
  for (const tern_dtype from : kDtypes) {
    const fs::path path = stored_in(golden("llama-tied"), from);
    for (const tern_dtype to : kDtypes) {
      const LoadedModel model = load(path, {.dtype = to}).value();
      EXPECT_EQ(model.dtype, to);
      expect_rounded(model, to);
      std::uint64_t weights = 0;
      for (const auto& spec : model.architecture->parameters(model.config))
        weights += total_bytes(model.store->at(spec.name).desc);
      if (from == to) {
        EXPECT_LT(model.store->bytes(), weights / 2) << "mapped";
      } else {
        EXPECT_GE(model.store->bytes(), weights);
      }
    }
  }
}

// Norms of a GGUF are fp32; its quantised weights stay as they are.
TEST_F(HeldIn, OnlyWhatIsNotQuantised) {
  const fs::path path = gguf("q8_0");
  const LoadedModel model = load(path, {.dtype = TERN_BF16}).value();
  EXPECT_EQ(model.store->at("model.norm.weight").desc.dtype, TERN_BF16);
  EXPECT_TRUE(is_quantised(model.store->at("model.layers.0.mlp.up_proj.weight").desc));
  EXPECT_TRUE(model.notes.empty()) << model.notes[0];
}

// Rows of a GGUF's q_proj are in another order, in whatever dtype they are held.
TEST_F(HeldIn, TheModelsOwnOrderOfRows) {
  const fs::path path = gguf("f16");
  for (const tern_dtype to : kDtypes) expect_rounded(load(path, {.dtype = to}).value(), to);
}

TEST_F(HeldIn, Fp32WhereTheyAreMasters) {
  const LoadedModel model = load(stored_in(golden("llama-tied"), TERN_BF16),
                                 {.dtype = TERN_BF16, .is_master = [](const std::string&) { return true; }})
                                .value();
  expect_rounded(model, TERN_F32);
  EXPECT_EQ(model.dtype, TERN_BF16);
}

TEST_F(HeldIn, WhatIsExpandedIsExpandedToIt) {
  const fs::path path = fs::path(TERN_TEST_DATA) / "checkpoint/quantized/models/nf4";
  for (const tern_dtype to : kDtypes) {
    const LoadedModel model = load(path, {.dtype = to}).value();
    expect_rounded(model, to);
    ASSERT_FALSE(model.notes.empty());
    EXPECT_NE(model.notes[0].find(cat(" were expanded to ", dtype_name(to), ", ")), std::string::npos)
        << model.notes[0];
  }
}

// Types of GGUF that no packing is: those weights are what the gguf package makes of their blocks (checkpoint's tests),
// rounded, and a line says the memory.
TEST_F(HeldIn, TypesWithoutAPackingAreExpandedWithALine) {
  e2e::TinyModel large;
  large.hidden = 256;  // a row is a block
  large.intermediate = 256;
  e2e::write_tiny_model(scratch_ / "large", large);
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  const auto source = checkpoint::CheckpointSource::open(scratch_ / "large").value();
  set_gguf_form(source, read_config(source).value(), "tiny", options).value();
  (void)checkpoint::convert_checkpoint(source, scratch_ / "f32.gguf", options).value();
  const auto plain = checkpoint::CheckpointSource::open(scratch_ / "f32.gguf").value();
  const std::string chosen = "blk.0.ffn_up.weight";
  int checked = 0;
  for (const checkpoint::GgmlTypeInfo& type : checkpoint::ggml_types()) {
    const bool for_files = type.type != checkpoint::GgmlType::q8_k;  // what ggml rounds activations to
    if (type.block_elements != 256 || checkpoint::ggml_packing(type.type) || !for_files) continue;
    std::vector<checkpoint::GgufTensorSpec> specs;
    for (const auto& tensor : plain.tensors())
      specs.push_back({tensor.name, tensor.name == chosen ? type.type : checkpoint::GgmlType::f32, tensor.shape});
    const fs::path path = scratch_ / cat(type.name, ".gguf");
    auto writer = checkpoint::GgufWriter::create(path, *options.metadata, specs).value();
    std::vector<std::byte> blocks(static_cast<std::size_t>(256 * type.block_bytes));
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<std::byte>(i * 7 % 61);  // scales are finite
    for (const auto& tensor : plain.tensors())
      writer.write(tensor.name, tensor.name == chosen ? std::span<const std::byte>(blocks) : tensor.bytes).value();
    writer.finish().value();
    const LoadedModel model = load(path, {.dtype = TERN_F32}).value();
    EXPECT_EQ(model.notes,
              (std::vector<std::string>{cat("weights of type ", type.name, " were expanded to f32, 0.3 MB in place of ",
                                            fixed(static_cast<double>(blocks.size()) / 1e6, 1),
                                            " MB: cpu:0 has no product for them")}));
    std::vector<float> want(256 * 256);
    checkpoint::dequantize(type.type, blocks, want).value();
    EXPECT_TRUE(held(model, "model.layers.0.mlp.up_proj.weight") ==
                std::string(reinterpret_cast<const char*>(want.data()), want.size() * 4))
        << type.name;
    ++checked;
  }
  EXPECT_EQ(checked, 9);  // IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0
}

// A line where memory is taken that the file's pages would have saved, and none where it isn't.
TEST_F(HeldIn, ACopyOfWhatCouldBeMappedIsTold) {
  e2e::TinyModel large;
  large.hidden = 256;
  large.intermediate = 512;
  e2e::write_tiny_model(scratch_ / "large", large);
  EXPECT_TRUE(load(scratch_ / "large", {.dtype = TERN_F32})->notes.empty());
  const LoadedModel copied = load(scratch_ / "large", {.dtype = TERN_BF16}).value();
  const double bytes = static_cast<double>(2 * copied.config.num_parameters());
  ASSERT_EQ(copied.notes.size(), 1U);
  EXPECT_EQ(copied.notes[0], cat("weights in float32 are held in bfloat16: a copy of ", fixed(bytes / 1e6, 1),
                                 " MB, where --torch_dtype float32 reads them from the file's own pages"));
  EXPECT_TRUE(load(scratch_ / "large", {.is_master = [](const std::string&) { return true; }})->notes.empty());
}

// A run chooses once which of longrope's divisors hold, by the longest sequence that it takes, and says so.
TEST(Loader, LongropesDivisorsAreThoseOfTheRun) {
  const auto sines = [](const char* model, std::int64_t positions, const std::string& note) {
    LoadOptions options;
    options.max_positions = positions;
    const LoadedModel loaded = load_scratch(ScratchModel(model), options).value();
    EXPECT_EQ(loaded.notes.back(), note);
    std::vector<float> values(static_cast<std::size_t>(positions * loaded.config.rotary_dim / 2));
    loaded.store->download("rope.default.sin", std::as_writable_bytes(std::span(values)));
    return std::pair{values, loaded.config};
  };
  const auto expect = [&](const char* model, std::int64_t positions, bool is_long, const std::string& border) {
    const auto [values, config] =
        sines(model, positions,
              cat("positions turn by the rope scaling's ", is_long ? "long" : "short", "_factor: the run takes up to ",
                  positions, " tokens, and that changes after ", border));
    const auto turns = is_long ? long_rope_frequencies(config) : rope_frequencies(config);
    for (std::size_t i = 0; i < turns.size(); ++i)
      EXPECT_FLOAT_EQ(values[3 * turns.size() + i], rope_amplitude(config) * std::sin(3.0 * turns[i])) << i;
  };
  expect("phi3-long", 4, false, "4");
  expect("phi3-long", 5, true, "4");
  expect("phi3-short", 512, false, "512");
  expect("phi3-short", 513, true, "512");
}

// transformers would change the frequencies there.
TEST(Loader, DynamicRopeEndsWithTheContext) {
  const ScratchModel model("llama-untied");
  model.edit("config.json", [](io::Json& json) {
    json["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 10000.0}, {"factor", 4.0}};
  });
  LoadOptions options;
  options.max_positions = 512;
  EXPECT_TRUE(load_scratch(model, options).ok());
  options.max_positions = 513;
  const auto loaded = load_scratch(model, options);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(
      loaded.error().line(),
      "this model's context is 512 tokens, and the run would take 513, where its rope_type, dynamic, changes what "
      "tern computes; choose a shorter --max_length.");
}

TEST(Rounded, ANumberBeyondFp16IsAnErrorThatNamesItsTensor) {
  const std::vector<float> values = {1.0F, -65536.0F};
  try {
    (void)rounded("model.norm.weight", values, TERN_F16);
    FAIL() << "it became an infinity";
  } catch (const Failure& failure) {
    EXPECT_STREQ(
        failure.what(),
        "model.norm.weight: expected numbers that float16 holds, up to 65504, found -65536; give --torch_dtype "
        "float32 or bfloat16, whichever the device has");
  }
  EXPECT_EQ(rounded("w", values, TERN_BF16).size(), 4U);
  EXPECT_EQ(rounded("w", std::vector<float>{65504.0F, INFINITY}, TERN_F16).size(), 4U) << "as the file has it";
}

}  // namespace
}  // namespace tern::models
