#include "backends/opencl/weight.h"

#include <algorithm>

#include "backends/opencl/check.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

// As in cl/packing.clh.
struct Packed {
  std::int64_t rows, columns;
  std::int64_t group_rows, group_cols;
  std::int32_t scale_type;
  std::int32_t bits;
  std::int32_t less;
  std::int32_t has_order;
  std::int32_t twice;
  std::int32_t reserved;
};

constexpr std::int64_t kStep = 16;  // neighbours that are expanded together

bool expands_planes(const tern_tensor_desc& weight, std::string& reason) {
  const tern_scheme& scheme = weight.scheme;
  const std::int64_t group = scheme.group_cols > 0 ? scheme.group_cols : weight.shape[1];
  const auto refuse = [&](const char* text) {
    reason = cat("a weight of packing ", scheme.packing, " ", text);
    return false;
  };
  const bool twice = (scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0;
  const bool levels = scheme.packing == TERN_PACK_NF4 || scheme.packing == TERN_PACK_FP4;
  if (!levels && !is_small_float(scheme.scale_dtype)) return refuse("has scales that are no f32, f16 or bf16");
  if (weight.shape[1] % kStep != 0) return refuse("has rows that are no multiple of 16");
  if (group > 0 && group % kStep != 0) return refuse("has groups that are no multiple of 16");
  switch (scheme.packing) {
    case TERN_PACK_ROW_INT8:
      return scheme.group_rows <= 1 || refuse("shares scales between rows");
    case TERN_PACK_F8_BLOCK:
      return true;
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return scheme.scale_dtype == (twice ? TERN_U8 : TERN_F32) || refuse("has scales of another kind");
    case TERN_PACK_AWQ_INT4:
      return weight.shape[0] % 8 == 0 || refuse("has outputs that are no multiple of 8");
    case TERN_PACK_GPTQ_INT4:
      if (scheme.bits != 2 && scheme.bits != 3 && scheme.bits != 4 && scheme.bits != 8) {
        return refuse("has codes of other than 2, 3, 4 and 8 bits");
      }
      return weight.shape[0] * scheme.bits % 32 == 0 || refuse("has outputs that fill no whole words");
    default:
      return refuse("is none that this device expands");
  }
}

}  // namespace

bool expands_weight(const tern_tensor_desc& weight, std::string& reason) {
  if (weight.rank != 2) {
    reason = cat("a quantised weight has two dimensions, this one has ", weight.rank);
    return false;
  }
  const PackingBlock block = packing_block(weight.scheme.packing);
  if (block.elements == 0) return expands_planes(weight, reason);
  if (weight.shape[1] % block.elements == 0) return true;
  reason = cat("a row of ", weight.shape[1], " elements is no whole number of blocks of ", block.elements);
  return false;
}

void weight_args(Call& call, const TensorView& weight) {
  const tern_scheme& scheme = weight.desc.scheme;
  Packed packed{};
  packed.rows = weight.dim(0);
  packed.columns = weight.dim(1);
  packed.group_rows = std::max<std::int64_t>(scheme.group_rows, 1);
  packed.group_cols = std::max<std::int64_t>(scheme.group_cols > 0 ? scheme.group_cols : packed.columns, 1);
  packed.scale_type = scheme.scale_dtype;
  packed.bits = scheme.bits;
  packed.less = (scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0 ? 1 : 0;
  packed.has_order = (scheme.flags & TERN_SCHEME_IN_ORDER) != 0 ? 0 : 1;
  packed.twice = (scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0 ? 1 : 0;
  for (int plane = 0; plane < 4; ++plane) call.arg(weight, plane);
  call.arg(packed);
}

Function expand_function(tern_packing packing) {
  return {"dequantize", "dequantize", Defines().set("PACKING", packing).text()};
}

void expand_weight(Call call, const TensorView& weight, const Expansion& part, const Facts& facts) {
  constexpr std::int64_t kStepsOnCpu = 64;
  if (weight.desc.scheme.packing == TERN_PACK_NONE) {
    call.arg(weight).arg(weight.stride(0)).arg(weight.stride(1)).arg(std::int32_t{weight.dtype()});
  } else {
    weight_args(call, weight);
  }
  const std::int64_t steps = facts.cpu ? std::min(kStepsOnCpu, parts_of(part.columns, kStep)) : 1;
  call.arg(part.out).arg(part.out_row).arg(part.out_column).arg(std::int32_t{part.out_dtype});
  call.arg(part.first_row).arg(part.first_column).arg(static_cast<std::int32_t>(part.columns));
  call.arg(static_cast<std::int32_t>(steps));
  call.run({parts_of(part.columns, kStep * std::max<std::int64_t>(steps, 1)), part.rows, 1},
           {plain_group(facts), 1, 1});
}

}  // namespace tern::opencl
