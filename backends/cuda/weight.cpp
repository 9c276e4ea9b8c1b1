#include "backends/cuda/weight.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/check.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kStep = 16;  // neighbours that are expanded together

// The struct Expanded of cu/dequantize.cu.
struct Expanded {
  Place at;
  std::int32_t dtype;
  std::int32_t columns;
  std::int64_t row, column;
  std::int64_t first_row, first_column, rows;
  std::int64_t part_rows, part_step, part;
};

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

const char* name_of(tern_packing packing) {
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
      return "Q4_0";
    case TERN_PACK_GGUF_Q4_1:
      return "Q4_1";
    case TERN_PACK_GGUF_Q8_0:
      return "Q8_0";
    case TERN_PACK_GGUF_Q5_0:
      return "Q5_0";
    case TERN_PACK_GGUF_Q5_1:
      return "Q5_1";
    case TERN_PACK_GGUF_Q4_K:
      return "Q4_K";
    case TERN_PACK_GGUF_Q6_K:
      return "Q6_K";
    case TERN_PACK_GGUF_Q2_K:
      return "Q2_K";
    case TERN_PACK_GGUF_Q3_K:
      return "Q3_K";
    case TERN_PACK_GGUF_Q5_K:
      return "Q5_K";
    case TERN_PACK_GGUF_IQ4_NL:
      return "IQ4_NL";
    case TERN_PACK_GGUF_IQ4_XS:
      return "IQ4_XS";
    case TERN_PACK_GGUF_MXFP4:
      return "MXFP4";
    case TERN_PACK_ROW_INT8:
      return "ROW_INT8";
    case TERN_PACK_AWQ_INT4:
      return "AWQ_INT4";
    case TERN_PACK_GPTQ_INT4:
      return "GPTQ_INT4";
    case TERN_PACK_F8_BLOCK:
      return "F8_BLOCK";
    case TERN_PACK_NF4:
      return "NF4";
    case TERN_PACK_FP4:
      return "FP4";
    default:
      return "numbers";
  }
}

}  // namespace

bool expands_weight(const tern_tensor_desc& weight, std::string& reason) {
  if (weight.rank != 2) {
    reason = cat("a quantised weight has two dimensions, this one has ", weight.rank);
    return false;
  }
  if (weight.shape[1] > INT32_MAX || weight.shape[0] > INT32_MAX) {
    reason = "a weight has too many rows or columns";
    return false;
  }
  const PackingBlock block = packing_block(weight.scheme.packing);
  if (block.elements == 0) return expands_planes(weight, reason);
  if (weight.shape[1] % block.elements == 0) return true;
  reason = cat("a row of ", weight.shape[1], " elements is no whole number of blocks of ", block.elements);
  return false;
}

PackedWeight packed_weight(const TensorView& weight) {
  const tern_scheme& scheme = weight.desc.scheme;
  PackedWeight packed{weight.planes[0], weight.planes[1], weight.planes[2], weight.planes[3]};
  packed.rows = weight.dim(0);
  packed.columns = weight.dim(1);
  packed.group_rows = std::max<std::int64_t>(scheme.group_rows, 1);
  packed.group_cols = std::max<std::int64_t>(scheme.group_cols > 0 ? scheme.group_cols : packed.columns, 1);
  packed.scale_type = scheme.scale_dtype;
  packed.bits = scheme.bits;
  packed.less = (scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0 ? 1 : 0;
  packed.has_order = (scheme.flags & TERN_SCHEME_IN_ORDER) != 0 ? 0 : 1;
  packed.twice = (scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0 ? 1 : 0;
  const auto group = static_cast<std::uint64_t>(packed.group_cols);
  packed.group_shift = std::has_single_bit(group) ? std::countr_zero(group) : -1;
  return packed;
}

std::string kernel_of_packing(const char* stem, tern_packing packing) { return cat(stem, "_", name_of(packing)); }

std::string expand_function(tern_packing packing) { return kernel_of_packing("dequantize", packing); }

void expand_weight(Call call, const TensorView& weight, const Expansion& part) {
  const bool numbers = weight.desc.scheme.packing == TERN_PACK_NONE;
  if (numbers) {
    call.arg(weight).arg(weight.stride(0)).arg(weight.stride(1));
  } else {
    call.arg(packed_weight(weight));
  }
  call.arg(Expanded{part.out, part.out_dtype, static_cast<std::int32_t>(part.columns), part.out_row, part.out_column,
                    part.first_row, part.first_column, part.rows,
                    part.part_rows > 0 ? part.part_rows : std::max<std::int64_t>(part.rows, 1), part.part_step,
                    part.out_part});
  call.run(part.rows * parts_of(part.columns, numbers ? 1 : kStep), kPlainThreads);
}

}  // namespace tern::cuda
