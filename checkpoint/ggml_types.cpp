#include "checkpoint/ggml_types.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/strings.h"

namespace tern::checkpoint {
namespace {

constexpr std::array kTypes = std::to_array<GgmlTypeInfo>({
    {GgmlType::f32, "F32", 1, 4, 0},
    {GgmlType::f16, "F16", 1, 2, 1},
    {GgmlType::q4_0, "Q4_0", 32, 18, 2},
    {GgmlType::q4_1, "Q4_1", 32, 20, 3},
    {GgmlType::q5_0, "Q5_0", 32, 22, 8},
    {GgmlType::q5_1, "Q5_1", 32, 24, 9},
    {GgmlType::q8_0, "Q8_0", 32, 34, 7},
    {GgmlType::q8_1, "Q8_1", 32, 40, -1},
    {GgmlType::q2_k, "Q2_K", 256, 84, 10},
    {GgmlType::q3_k, "Q3_K", 256, 110, 12},
    {GgmlType::q4_k, "Q4_K", 256, 144, 15},
    {GgmlType::q5_k, "Q5_K", 256, 176, 17},
    {GgmlType::q6_k, "Q6_K", 256, 210, 18},
    {GgmlType::q8_k, "Q8_K", 256, 292, -1},
    {GgmlType::iq2_xxs, "IQ2_XXS", 256, 66, 19},
    {GgmlType::iq2_xs, "IQ2_XS", 256, 74, 20},
    {GgmlType::iq3_xxs, "IQ3_XXS", 256, 98, 23},
    {GgmlType::iq1_s, "IQ1_S", 256, 50, 24},
    {GgmlType::iq4_nl, "IQ4_NL", 32, 18, 25},
    {GgmlType::iq3_s, "IQ3_S", 256, 110, 26},
    {GgmlType::iq2_s, "IQ2_S", 256, 82, 28},
    {GgmlType::iq4_xs, "IQ4_XS", 256, 136, 30},
    {GgmlType::i8, "I8", 1, 1, -1},
    {GgmlType::i16, "I16", 1, 2, -1},
    {GgmlType::i32, "I32", 1, 4, -1},
    {GgmlType::i64, "I64", 1, 8, -1},
    {GgmlType::f64, "F64", 1, 8, -1},
    {GgmlType::iq1_m, "IQ1_M", 256, 56, 31},
    {GgmlType::bf16, "BF16", 1, 2, 32},
    {GgmlType::tq1_0, "TQ1_0", 256, 54, 36},
    {GgmlType::tq2_0, "TQ2_0", 256, 66, 37},
    {GgmlType::mxfp4, "MXFP4", 32, 17, 38},
    {GgmlType::nvfp4, "NVFP4", 64, 36, 39},
    {GgmlType::q1_0, "Q1_0", 128, 18, 40},
});

struct Plain {
  GgmlType type;
  tern_dtype dtype;
};
constexpr std::array kPlain = std::to_array<Plain>({
    {GgmlType::f32, TERN_F32},
    {GgmlType::f16, TERN_F16},
    {GgmlType::bf16, TERN_BF16},
    {GgmlType::f64, TERN_F64},
    {GgmlType::i8, TERN_I8},
    {GgmlType::i16, TERN_I16},
    {GgmlType::i32, TERN_I32},
    {GgmlType::i64, TERN_I64},
});

struct Packed {
  GgmlType type;
  tern_packing packing;
};
constexpr std::array kPacked = std::to_array<Packed>({
    {GgmlType::q4_0, TERN_PACK_GGUF_Q4_0},
    {GgmlType::q4_1, TERN_PACK_GGUF_Q4_1},
    {GgmlType::q5_0, TERN_PACK_GGUF_Q5_0},
    {GgmlType::q5_1, TERN_PACK_GGUF_Q5_1},
    {GgmlType::q8_0, TERN_PACK_GGUF_Q8_0},
    {GgmlType::q4_k, TERN_PACK_GGUF_Q4_K},
    {GgmlType::q6_k, TERN_PACK_GGUF_Q6_K},
    {GgmlType::q2_k, TERN_PACK_GGUF_Q2_K},
    {GgmlType::q3_k, TERN_PACK_GGUF_Q3_K},
    {GgmlType::q5_k, TERN_PACK_GGUF_Q5_K},
    {GgmlType::iq4_nl, TERN_PACK_GGUF_IQ4_NL},
    {GgmlType::iq4_xs, TERN_PACK_GGUF_IQ4_XS},
    {GgmlType::mxfp4, TERN_PACK_GGUF_MXFP4},
});

}  // namespace

std::span<const GgmlTypeInfo> ggml_types() { return kTypes; }

const GgmlTypeInfo* find_ggml_type(std::uint32_t number) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& info) { return static_cast<std::uint32_t>(info.type) == number; });
  return found == kTypes.end() ? nullptr : found;
}

const GgmlTypeInfo& ggml_type_info(GgmlType type) {
  const auto* found = find_ggml_type(static_cast<std::uint32_t>(type));
  return found != nullptr ? *found : kTypes.front();
}

std::optional<GgmlType> ggml_type_from_name(std::string_view name) {
  for (const auto& info : kTypes) {
    const bool equal = std::equal(name.begin(), name.end(), info.name.begin(), info.name.end(),
                                  [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; });
    if (equal) return info.type;
  }
  return std::nullopt;
}

std::optional<tern_dtype> ggml_plain_dtype(GgmlType type) {
  for (const auto& row : kPlain) {
    if (row.type == type) return row.dtype;
  }
  return std::nullopt;
}

std::optional<GgmlType> ggml_type_of(tern_dtype dtype) {
  for (const auto& row : kPlain) {
    if (row.dtype == dtype) return row.type;
  }
  return std::nullopt;
}

std::optional<tern_packing> ggml_packing(GgmlType type) {
  for (const auto& row : kPacked) {
    if (row.type == type) return row.packing;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> element_count(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) return std::nullopt;
  }
  if (count > (std::uint64_t{1} << 62)) return std::nullopt;
  return count;
}

std::optional<std::uint64_t> ggml_tensor_bytes(GgmlType type, std::span<const std::int64_t> shape) {
  const auto count = element_count(shape);
  if (!count) return std::nullopt;
  const GgmlTypeInfo& info = ggml_type_info(type);
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  if (row % info.block_elements != 0) return std::nullopt;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(*count / static_cast<std::uint64_t>(info.block_elements),
                             static_cast<std::uint64_t>(info.block_bytes), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += cat(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

}  // namespace tern::checkpoint
