#include "checkpoint/logical_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::checkpoint {
namespace {

const LogicalTensor* find(const std::vector<LogicalTensor>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

class Quantized : public testing::TestWithParam<const char*> {};

// Broken if packing, order of nibbles, zero points, scales, groups or permutation of a method are misread. The bound is
// the rounding of the reference's own products in fp32.
TEST_P(Quantized, GivesWhatTheFormulaGives) {
  const std::filesystem::path directory = std::filesystem::path(TERN_TEST_DATA "/checkpoint/quantized") / GetParam();
  const auto source = CheckpointSource::open(directory);
  ASSERT_TRUE(source.ok()) << source.error().line();
  const auto all = logical_tensors(*source);
  ASSERT_TRUE(all.ok()) << all.error().line();
  const auto expected = Safetensors::open(directory / "expected.safetensors").value();
  EXPECT_EQ(all->size(), expected.tensors().size());
  for (const SafetensorsTensor& wanted : expected.tensors()) {
    const LogicalTensor* tensor = find(*all, wanted.name);
    ASSERT_NE(tensor, nullptr) << wanted.name;
    ASSERT_EQ(tensor->shape, wanted.shape);
    const std::int64_t columns = tensor->shape.back();
    const auto rows = static_cast<std::int64_t>(*element_count(tensor->shape)) / columns;
    std::vector<float> want(wanted.bytes.size() / 4);
    std::memcpy(want.data(), wanted.bytes.data(), wanted.bytes.size());
    std::vector<float> got(want.size());
    const auto status = read_rows_f32(*tensor, 0, rows, got);
    ASSERT_TRUE(status.ok()) << status.error().line();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_FLOAT_EQ(got[i], want[i]) << wanted.name << " " << i;
    // A part of the rows is that part of the whole.
    std::vector<float> part(static_cast<std::size_t>(columns));
    ASSERT_TRUE(read_rows_f32(*tensor, rows - 1, 1, part).ok());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), got.end() - columns));
    EXPECT_THROW((void)read_rows_f32(*tensor, rows, 1, part), std::logic_error);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Quantized,
                         testing::Values("fp8", "awq", "gptq2", "gptq3", "gptq4", "gptq8", "compressed", "nf4",
                                         "mxfp4"),
                         [](const auto& info) { return std::string(info.param); });
// As the quantisers themselves write and expand a model (script/golden.d/quantizer_checkpoints.py).
INSTANTIATE_TEST_SUITE_P(Writers, Quantized,
                         testing::Values("models/packed_int4", "models/packed_int4_zeros", "models/packed_int4_rows",
                                         "models/packed_int4_order", "models/packed_int8", "models/int8_zeros",
                                         "models/int8_mixed", "models/fp8_blocks", "models/gptq_int3", "models/gptq_v2",
                                         "models/gptq_borrowed", "models/gptq_dynamic", "models/awq_gemv", "models/fp4",
                                         "models/bnb_int8"),
                         [](const auto& info) { return std::string(info.param).substr(7); });

void copy_with_config(const test::TempDir& dir, const char* method, const std::string& config) {
  std::filesystem::copy(std::filesystem::path(TERN_TEST_DATA "/checkpoint/quantized") / method / "model.safetensors",
                        dir / "model.safetensors");
  dir.write("config.json", config);
}

std::string error_of(const char* method, const std::string& config) {
  test::TempDir dir;
  copy_with_config(dir, method, config);
  const auto source = CheckpointSource::open(dir.path()).value();
  const auto all = logical_tensors(source);
  return all.ok() ? "accepted" : all.error().line();
}

TEST(LogicalTensors, RefusesSettingsThatDoNotFitThePlanes) {
  EXPECT_NE(error_of("fp8", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})")
                .find("shape [1, 1]"),
            std::string::npos);
  EXPECT_NE(
      error_of("fp8", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[0,1]}})").find("positive"),
      std::string::npos);
  EXPECT_NE(error_of("fp8", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":null}})")
                .find("shape [1, 1]"),
            std::string::npos);
  EXPECT_NE(error_of("awq", R"({})").find("gptq or awq"), std::string::npos);
  EXPECT_NE(error_of("awq", R"({"quantization_config":{"quant_method":"awq","bits":8}})").find("4 bits"),
            std::string::npos);
  EXPECT_NE(error_of("gptq4", R"({"quantization_config":{"quant_method":"gptq","bits":3}})").find("whole words"),
            std::string::npos);
  EXPECT_NE(error_of("gptq4", R"({"quantization_config":{"quant_method":"gptq","bits":8}})").find("shape"),
            std::string::npos);
  EXPECT_NE(error_of("fp8", R"({"quantization_config":{"quant_method":"hqq"}})").find("hqq"), std::string::npos);
}

// Tensors of zeros, or of the text given.
struct Plane {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string text;
};

void write_planes(const test::TempDir& dir, const std::vector<Plane>& planes, const std::string& quantization) {
  std::vector<TensorSpec> specs;
  for (const Plane& plane : planes) specs.push_back({plane.name, plane.dtype, plane.shape});
  auto writer = SafetensorsWriter::create(dir.path(), specs).value();
  for (const Plane& plane : planes) {
    std::vector<std::byte> bytes(*safetensors_bytes(*find_safetensors_dtype(plane.dtype), plane.shape));
    std::memcpy(bytes.data(), plane.text.data(), std::min(bytes.size(), plane.text.size()));
    EXPECT_TRUE(writer.write(plane.name, bytes).ok());
  }
  EXPECT_TRUE(writer.finish().ok());
  dir.write("config.json", R"({"quantization_config":{"quant_method":)" + quantization + "}}");
}

struct Misfit {
  const char* quantization;
  std::vector<Plane> planes;
  const char* says;
};

class Misfits : public testing::TestWithParam<Misfit> {};

// Broken if planes that do not fit each other are read as if they did, which would read past one of them.
TEST_P(Misfits, AreNamed) {
  test::TempDir dir;
  write_planes(dir, GetParam().planes, GetParam().quantization);
  const auto all = logical_tensors(CheckpointSource::open(dir.path()).value());
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().kind, ErrorKind::data);
  EXPECT_EQ(dir.line(all.error()), std::string("DIR") + GetParam().says);
}

#define OR_PLAIN "; fetch the checkpoint again, or use the unquantised one"
constexpr const char* kFp8 = R"("fp8")";
constexpr const char* kPacked = R"("compressed-tensors")";
constexpr const char* kPacked4 = R"("compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4}}})";
const std::string kShape("\x02\0\0\0\x20\0\0\0", 8);  // [2, 32]
constexpr const char* kAwq = R"("awq")";
constexpr const char* kGptq = R"("gptq")";
constexpr const char* kNf4 = R"("bitsandbytes")";

INSTANTIATE_TEST_SUITE_P(
    Fp8AndCompressed, Misfits,
    testing::Values(
        Misfit{kFp8,
               {{"w.weight", "F8_E4M3", {0, 3'000'000'000}}, {"w.weight_scale_inv", "F32", {1, 1}}},
               ": tensor \"w.weight\": expected dimensions below 2^31, found 3000000000" OR_PLAIN},
        Misfit{kFp8,
               {{"w.weight", "BF16", {2, 2}}, {"w.weight_scale_inv", "F32", {1, 1}}},
               ": tensor \"w.weight\": expected dtype f8_e4m3 or f8_e5m2, found BF16" OR_PLAIN},
        Misfit{kFp8,
               {{"w.weight", "F8_E4M3", {4}}, {"w.weight_scale_inv", "F32", {1, 1}}},
               ": tensor \"w.weight\": expected 2 dimensions, found [4]" OR_PLAIN},
        Misfit{R"("modelopt","quant_algo":"NVFP4")",
               {{"w.weight", "U8", {2, 2}}, {"w.weight_scale", "F8_E4M3", {2, 1}}},
               ": tensor \"w.weight\": expected dtype i8 or f8_e4m3, found U8" OR_PLAIN},
        Misfit{R"("fp8","weight_block_size":[128])",
               {{"w.weight", "F8_E4M3", {2, 2}}, {"w.weight_scale_inv", "F32", {1, 1}}},
               "/config.json: field \"quantization_config.weight_block_size\": expected two positive integers, found "
               "[128]; restore the model's config.json"},
        Misfit{kFp8,
               {{"w.weight", "F8_E4M3", {2, 2}}, {"w.weight_scale_inv", "F32", {2, 1}}},
               ": tensor \"w.weight_scale_inv\": expected shape [1, 1], found [2, 1]" OR_PLAIN},
        Misfit{kPacked,
               {{"w.weight_scale", "F32", {2, 1}}},
               ": tensor \"w.weight_scale\": expected int8 or fp8 weights beside it, found none" OR_PLAIN},
        Misfit{kPacked4,
               {{"w.weight_packed", "I32", {2, 2}}, {"w.weight_scale", "F32", {2, 1}}, {"w.weight_shape", "I64", {2}}},
               ": tensor \"w.weight_shape\": expected 2 outputs, and inputs, found [0, 0]" OR_PLAIN},
        Misfit{kPacked4,
               {{"w.weight_packed", "I32", {2, 2}},
                {"w.weight_scale", "F32", {2, 1}},
                {"w.weight_shape", "I32", {2}, kShape}},
               ": tensor \"w.weight_packed\": expected rows of 32 codes of the bits that config_groups has (4), found "
               "rows "
               "of 2 words" OR_PLAIN},
        Misfit{
            kPacked,
            {{"w.weight_packed", "I32", {2, 4}},
             {"w.weight_scale", "F32", {2, 1}},
             {"w.weight_shape", "I32", {2}, kShape}},
            ": tensor \"w.weight_packed\": expected rows of 32 codes of the bits that config_groups has (none), found "
            "rows of 4 words" OR_PLAIN},
        Misfit{kPacked4,
               {{"w.weight_packed", "I32", {2, 4}},
                {"w.weight_scale", "F32", {2, 3}},
                {"w.weight_shape", "I32", {2}, kShape}},
               ": tensor \"w.weight_scale\": expected groups that divide 32 inputs, found 3" OR_PLAIN},
        Misfit{kPacked4,
               {{"w.weight_packed", "I32", {2, 4}},
                {"w.weight_scale", "F32", {2, 1}},
                {"w.weight_shape", "I32", {2}, kShape},
                {"w.weight_zero_point", "I32", {2, 1}}},
               ": tensor \"w.weight_zero_point\": expected shape [1, 1], found [2, 1]" OR_PLAIN},
        Misfit{kPacked4,
               {{"w.weight_packed", "I32", {2, 4}},
                {"w.weight_scale", "F32", {2, 1}},
                {"w.weight_shape", "I32", {2}, kShape},
                {"w.weight_g_idx", "I32", {31}}},
               ": tensor \"w.weight_g_idx\": expected shape [32], found [31]" OR_PLAIN},
        Misfit{R"("compressed-tensors","format":"marlin-24")",
               {},
               "/config.json: field \"quantization_config.format\": expected pack-quantized, int-quantized, "
               "float-quantized, naive-quantized, mixed-precision, dense or fakequant, found \"marlin-24\"; use the "
               "unquantised checkpoint"},
        Misfit{R"("compressed-tensors","config_groups":{"g":{"format":"nvfp4-pack-quantized"}})",
               {},
               "/config.json: field \"quantization_config.config_groups.g.format\": expected pack-quantized, "
               "int-quantized, float-quantized, naive-quantized or dense, found \"nvfp4-pack-quantized\"; use the "
               "unquantised checkpoint"},
        Misfit{R"("compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"})",
               {},
               "/config.json: field \"quantization_config.sparsity_config.format\": expected dense, found "
               "\"sparse-24-bitmask\"; use the unquantised checkpoint"},
        Misfit{
            R"("compressed-tensors","transform_config":{"config_groups":{"R4":{}}})",
            {},
            "/config.json: field \"quantization_config.transform_config.config_groups\": expected none, as rotations "
            "of activations aren't computed here, found {\"R4\":{}}; use the unquantised checkpoint"},
        Misfit{R"("compressed-tensors","config_groups":{"g":{"weights":{"block_structure":[16]}}})",
               {{"w.weight", "F8_E4M3", {2, 2}}, {"w.weight_scale", "F32", {1, 1}}},
               "/config.json: field \"quantization_config.config_groups.g.weights.block_structure\": expected two "
               "positive integers, found [16]; restore the model's config.json"},
        Misfit{R"("bitsandbytes","load_in_8bit":true)",
               {{"w.weight", "I8", {2, 4}}, {"w.SCB", "F32", {3}}},
               ": tensor \"w.SCB\": expected shape [2], found [3]" OR_PLAIN},
        Misfit{
            R"("bitsandbytes","load_in_8bit":true)",
            {{"w.weight", "I8", {2, 4}}, {"w.SCB", "F32", {2}}, {"w.weight_format", "U8", {}, "\x01"}},
            ": tensor \"w.weight_format\": expected 0 (rows as they are), found the order of a GPU's tiles; save the "
            "model again with a bitsandbytes of 2025 or later"},
        Misfit{kPacked,
               {{"w.weight", "I8", {2, 4}}, {"w.weight_scale", "F32", {3}}},
               ": tensor \"w.weight_scale\": expected a scale of the tensor, of each row, or of equal groups, found "
               "[3]" OR_PLAIN},
        Misfit{kPacked,
               {{"w.weight", "I8", {2, 4}}, {"w.weight_scale", "F32", {2}}, {"w.weight_zero_point", "I8", {1}}},
               ": tensor \"w.weight_zero_point\": expected 2 zero points, found [1]" OR_PLAIN},
        Misfit{R"("mxfp4")",
               {{"w_blocks", "U8", {2, 4}}, {"w_scales", "U8", {2}}},
               ": tensor \"w_blocks\": expected a shape [..., n, k/32, 16], found [2, 4]" OR_PLAIN}));

INSTANTIATE_TEST_SUITE_P(
    AwqAndGptq, Misfits,
    testing::Values(
        Misfit{R"("awq","bits":8)",
               {{"w.qweight", "I32", {8, 1}}, {"w.scales", "F16", {1, 8}}, {"w.qzeros", "I32", {1, 1}}},
               ": tensor \"w.qweight\": expected AWQ of 4 bits, found 8; use a checkpoint of 4 bits, or the "
               "unquantised one"},
        Misfit{kAwq,
               {{"w.qweight", "I32", {8, 1}}, {"w.scales", "F16", {1, 9}}, {"w.qzeros", "I32", {1, 1}}},
               ": tensor \"w.scales\": expected a multiple of 8 columns, found 9" OR_PLAIN},
        Misfit{kAwq,
               {{"w.qweight", "I32", {8, 1}}, {"w.scales", "F16", {3, 8}}, {"w.qzeros", "I32", {3, 1}}},
               ": tensor \"w.scales\": expected groups that divide 8 inputs, found 3" OR_PLAIN},
        Misfit{R"("awq","version":"gemv_fast")",
               {},
               "/config.json: field \"quantization_config.version\": expected gemm or gemv, found gemv_fast; use the "
               "unquantised checkpoint"},
        Misfit{R"("awq","format":"llm-awq")",
               {},
               "/config.json: field \"quantization_config.format\": expected gemm or gemv, found llm-awq; use the "
               "unquantised checkpoint"},
        Misfit{R"("awq","version":"GEMV","group_size":24)",
               {{"w.qweight", "I32", {8, 4}}, {"w.scales", "F16", {8, 8}}, {"w.qzeros", "I32", {8, 1}}},
               ": tensor \"w.qweight\": expected groups of 24 that divide the inputs, found 32" OR_PLAIN},
        Misfit{R"("awq","version":"gemv","group_size":32)",
               {{"w.qweight", "I32", {8, 4}}, {"w.scales", "F16", {8, 8}}, {"w.qzeros", "I32", {7, 1}}},
               ": tensor \"w.qzeros\": expected zero points of 1 groups of 8 outputs, found [7, 1]" OR_PLAIN},
        Misfit{R"("awq","version":"gemv","group_size":32)",
               {{"w.qweight", "I32", {8, 4}}, {"w.scales", "F16", {8, 7}}, {"w.qzeros", "I32", {8, 1}}},
               ": tensor \"w.scales\": expected shape [8, 8], found [8, 7]" OR_PLAIN},
        Misfit{R"("gptq","checkpoint_format":"gptq_p")",
               {{"w.qweight", "I32", {1, 8}}, {"w.scales", "F16", {1, 8}}, {"w.qzeros", "I32", {1, 1}}},
               "/config.json: field \"quantization_config.checkpoint_format\": expected gptq or gptq_v2, found "
               "\"gptq_p\"; "
               "use the unquantised checkpoint"},
        Misfit{kPacked,
               {{"w.qweight", "I32", {8, 1}}, {"w.scales", "F16", {1, 8}}, {"w.qzeros", "I32", {1, 1}}},
               "/config.json: field \"quantization_config.quant_method\": expected gptq or awq, as there are .qweight "
               "tensors, found "
               "compressed-tensors; restore the model's config.json"},
        Misfit{R"("gptq","bits":5)",
               {{"w.qweight", "I32", {1, 8}}, {"w.scales", "F16", {1, 8}}, {"w.qzeros", "I32", {1, 1}}},
               ": tensor \"w.qweight\": expected GPTQ of 2, 3, 4 or 8 bits, found 5; use a checkpoint of such bits, or "
               "the unquantised one"},
        Misfit{R"("gptq","bits":3)",
               {{"w.qweight", "I32", {1, 8}}, {"w.scales", "F16", {1, 8}}, {"w.qzeros", "I32", {1, 1}}},
               ": tensor \"w.qweight\": expected whole words, found 1" OR_PLAIN},
        Misfit{kGptq,
               {{"w.qweight", "I32", {1, 9}}, {"w.scales", "F16", {1, 9}}, {"w.qzeros", "I32", {1, 1}}},
               ": tensor \"w.scales\": expected columns that fill whole words, found 9" OR_PLAIN}));

INSTANTIATE_TEST_SUITE_P(
    Nf4, Misfits, testing::ValuesIn([] {
      const auto planes = [](const std::string& state, const char* scale) {
        return std::vector<Plane>{
            {"w", "U8", {32, 1}, {}},
            {"w.absmax", scale, {1}, {}},
            {"w.quant_map", "F32", {16}, {}},
            {"w.nested_absmax", "F32", {1}, {}},
            {"w.nested_quant_map", "F32", {256}, {}},
            {"w.quant_state.bitsandbytes__nf4", "U8", {static_cast<std::int64_t>(state.size())}, state}};
      };
      return std::vector<Misfit>{
          {kNf4, planes(R"({"shape":[8,8]})", "F32"),
           ": tensor \"w.quant_state.bitsandbytes__nf4\": expected a field \"blocksize\", found none" OR_PLAIN},
          {kNf4, planes(R"({"blocksize":0,"shape":[8,8]})", "F32"),
           ": tensor \"w.quant_state.bitsandbytes__nf4\": field \"blocksize\": expected an integer from 1 to 2^30, "
           "found 0" OR_PLAIN},
          {kNf4, planes(R"({"blocksize":64})", "F32"),
           ": tensor \"w.quant_state.bitsandbytes__nf4\": expected a field \"shape\", found none" OR_PLAIN},
          {kNf4, planes(R"({"blocksize":64,"shape":[8,-8]})", "F32"),
           ": tensor \"w.quant_state.bitsandbytes__nf4\": field \"shape[1]\": expected a size, found -8" OR_PLAIN},
          {kNf4, planes(R"({"blocksize":64,"shape":[8,9]})", "F32"),
           ": tensor \"w\": expected two codes a byte of [8, 9], found 32 bytes" OR_PLAIN},
          {kNf4, planes(R"({"blocksize":64,"shape":[8,8],"nested_blocksize":256})", "U8"),
           ": tensor \"w.quant_state.bitsandbytes__nf4\": expected a field \"nested_offset\", found none" OR_PLAIN},
      };
    }()));
#undef OR_PLAIN

// Broken if it went untold that products or the cache are computed more exactly than the checkpoint's own tools do.
TEST(LogicalTensors, SayWhatIsNotRoundedHere) {
  const auto notes = [](const std::string& quantization) {
    test::TempDir dir;
    write_planes(dir, {}, quantization);
    return notes_on_quantization(CheckpointSource::open(dir.path()).value());
  };
  const auto says = [](const std::string& rounding) {
    return std::vector<std::string>{
        cat("what comes into a product isn't rounded: the checkpoint's own tools round it (", rounding,
            "), and so compute less exactly")};
  };
  const auto group = [](const std::string& fields) {
    return R"("compressed-tensors","config_groups":{"g":{"targets":["Linear"],)" + fields + "}}";
  };
  EXPECT_EQ(notes(group(R"("input_activations":{"num_bits":8,"type":"int","dynamic":true})")), says("int8, dynamic"));
  EXPECT_EQ(notes(group(R"("output_activations":{"type":"float"},"input_activations":null)")), says("float8, static"));
  EXPECT_EQ(notes(R"("fp8","activation_scheme":"dynamic")"), says("float8, dynamic"));
  EXPECT_EQ(notes(R"("fbgemm_fp8")"), says("float8, dynamic"));
  EXPECT_EQ(notes(R"("bitsandbytes","load_in_8bit":true)"), says("int8, dynamic, but for outliers"));
  EXPECT_EQ(notes(R"("compressed-tensors","kv_cache_scheme":{"num_bits":8})"),
            (std::vector<std::string>{
                "the cache is as --kv_cache_dtype says: config.json's kv_cache_scheme isn't followed"}));
  for (const char* none : {R"("awq")", R"("bitsandbytes","load_in_4bit":true)", R"("fp8")"})
    EXPECT_TRUE(notes(none).empty()) << none;
  EXPECT_TRUE(notes(group(R"("weights":{"num_bits":4})")).empty());
}

TEST(LogicalTensors, ReadsNoGroupThatIsNotThere) {
  test::TempDir dir;
  const std::int32_t group = 7;
  write_planes(dir,
               {{"w.qweight", "I32", {1, 8}, {}},
                {"w.scales", "F16", {1, 8}, {}},
                {"w.qzeros", "I32", {1, 1}, {}},
                {"w.g_idx", "I32", {8}, std::string(reinterpret_cast<const char*>(&group), sizeof(group))}},
               kGptq);
  const auto source = CheckpointSource::open(dir.path()).value();
  const auto all = logical_tensors(source).value();
  std::vector<float> values(64);
  EXPECT_EQ(read_rows_f32(all.at(0), 0, 8, values).error().line(),
            "tensor \"w.g_idx\": expected groups from 0 to 0, found 7; fetch the checkpoint again, or use the "
            "unquantised one");
}

// As Ministral 3 is published: one scale a weight, and one of what comes into the product, which nothing here rounds.
TEST(LogicalTensors, Fp8MayHaveOneScaleOfTheWhole) {
  test::TempDir dir;
  const std::vector<Plane> planes = {{"l.weight", "F8_E4M3", {2, 2}, "\x38\x40\x38\xb8"},  // 1, 2, 1, -1
                                     {"l.weight_scale_inv", "BF16", {}, std::string("\x00\x3f", 2)},
                                     {"l.activation_scale", "BF16", {}, "xx"},
                                     {"attn.k_scale", "F32", {1}, "xxxx"},
                                     {"l.input_scale", "F32", {}, "xxxx"}};
  write_planes(dir, planes, R"("fp8","activation_scheme":"static","weight_block_size":null)");
  const auto source = CheckpointSource::open(dir.path()).value();
  const auto all = logical_tensors(source).value();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().name, "l.weight");
  std::vector<float> values(4);
  ASSERT_TRUE(read_rows_f32(all.front(), 0, 2, values).ok());
  EXPECT_EQ(values, (std::vector<float>{0.5F, 1.0F, 0.5F, -0.5F}));
  // Without a word on quantisation, those that stand beside no weight are tensors like any other.
  dir.write("config.json", "{}");
  EXPECT_EQ(logical_tensors(CheckpointSource::open(dir.path()).value()).value().size(), 2U);
}

// As Llama 3.1 405B (fbgemm_fp8) and NVIDIA's fp8 (modelopt) are published; the latter's nvfp4 is not read.
TEST(LogicalTensors, Fp8OfOtherMethodsIsThatOfCompressedTensors) {
  for (const auto& [method, rows] : {std::pair{R"("fbgemm_fp8")", 2}, std::pair{R"("modelopt")", 1}}) {
    test::TempDir dir;
    write_planes(dir,
                 {{"l.weight", "F8_E4M3", {2, 2}, "\x38\x40\x38\xb8"},
                  {"l.weight_scale", "F32", {rows, 1}, std::string("\0\0\0\x3f\0\0\0\x3f", 8)},
                  {"l.input_scale_ub", "F32", {1}, "xxxx"}},
                 method);
    const auto source = CheckpointSource::open(dir.path()).value();
    const auto all = logical_tensors(source).value();
    ASSERT_EQ(all.size(), 1U);
    std::vector<float> values(4);
    ASSERT_TRUE(read_rows_f32(all.front(), 0, 2, values).ok());
    EXPECT_EQ(values, (std::vector<float>{0.5F, 1.0F, 0.5F, -0.5F}));
  }
}

TEST(LogicalTensors, ReadsNoDtypeThatIsNoNumber) {
  test::TempDir dir;
  write_planes(dir, {{"w", "F8_E8M0", {2, 2}, {}}}, kFp8);
  const auto source = CheckpointSource::open(dir.path()).value();
  const auto all = logical_tensors(source).value();
  std::vector<float> values(4);
  EXPECT_EQ(read_rows_f32(all.at(0), 0, 2, values).error().line(),
            "tensor \"w\": expected a dtype that can be read as numbers, found F8_E8M0; convert the file to BF16");
}

}  // namespace
}  // namespace tern::checkpoint
