#include "base/dtype.h"

#include <array>

namespace tern {
namespace {

constexpr std::array<DtypeInfo, TERN_DTYPE_COUNT> kDtypes = {{
    {TERN_F32, "f32", "F32", "float32", 4, true},
    {TERN_F16, "f16", "F16", "float16", 2, true},
    {TERN_BF16, "bf16", "BF16", "bfloat16", 2, true},
    {TERN_F64, "f64", "F64", "float64", 8, true},
    {TERN_I8, "i8", "I8", "int8", 1, false},
    {TERN_U8, "u8", "U8", "uint8", 1, false},
    {TERN_I16, "i16", "I16", "int16", 2, false},
    {TERN_U16, "u16", "U16", "uint16", 2, false},
    {TERN_I32, "i32", "I32", "int32", 4, false},
    {TERN_U32, "u32", "U32", "uint32", 4, false},
    {TERN_I64, "i64", "I64", "int64", 8, false},
    {TERN_U64, "u64", "U64", "uint64", 8, false},
    {TERN_BOOL, "bool", "BOOL", "bool", 1, false},
    {TERN_F8_E4M3, "f8_e4m3", "F8_E4M3", "float8_e4m3fn", 1, true},
    {TERN_F8_E5M2, "f8_e5m2", "F8_E5M2", "float8_e5m2", 1, true},
}};

struct PackingInfo {
  tern_packing packing;
  std::string_view name;
  BlockSize block;
};

constexpr std::array<PackingInfo, 21> kPackings = {{
    {TERN_PACK_NONE, "none", {0, 0}},
    {TERN_PACK_GGUF_Q4_0, "q4_0", {32, 18}},
    {TERN_PACK_GGUF_Q4_1, "q4_1", {32, 20}},
    {TERN_PACK_GGUF_Q8_0, "q8_0", {32, 34}},
    {TERN_PACK_GGUF_Q5_0, "q5_0", {32, 22}},
    {TERN_PACK_GGUF_Q5_1, "q5_1", {32, 24}},
    {TERN_PACK_GGUF_Q4_K, "q4_k", {256, 144}},
    {TERN_PACK_GGUF_Q6_K, "q6_k", {256, 210}},
    {TERN_PACK_GGUF_Q2_K, "q2_k", {256, 84}},
    {TERN_PACK_GGUF_Q3_K, "q3_k", {256, 110}},
    {TERN_PACK_GGUF_Q5_K, "q5_k", {256, 176}},
    {TERN_PACK_GGUF_IQ4_NL, "iq4_nl", {32, 18}},
    {TERN_PACK_GGUF_IQ4_XS, "iq4_xs", {256, 136}},
    {TERN_PACK_GGUF_MXFP4, "gguf_mxfp4", {32, 17}},
    {TERN_PACK_ROW_INT8, "int8", {0, 0}},
    {TERN_PACK_AWQ_INT4, "awq_int4", {0, 0}},
    {TERN_PACK_GPTQ_INT4, "gptq_int4", {0, 0}},
    {TERN_PACK_F8_BLOCK, "f8_block", {0, 0}},
    {TERN_PACK_NF4, "nf4", {0, 0}},
    {TERN_PACK_MXFP4, "mxfp4", {0, 0}},
    {TERN_PACK_FP4, "fp4", {0, 0}},
}};

const PackingInfo& packing_info(tern_packing packing) {
  for (const auto& info : kPackings) {
    if (info.packing == packing) return info;
  }
  return kPackings.front();
}

}  // namespace

const DtypeInfo& dtype_info(tern_dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)); }

std::optional<tern_dtype> dtype_from_name(std::string_view name) {
  for (const auto& info : kDtypes) {
    if (name == info.name || name == info.safetensors || name == info.torch) return info.dtype;
  }
  return std::nullopt;
}

BlockSize packing_block(tern_packing packing) { return packing_info(packing).block; }
std::string_view packing_name(tern_packing packing) { return packing_info(packing).name; }

}  // namespace tern
