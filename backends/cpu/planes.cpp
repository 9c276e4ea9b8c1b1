// Weights in planes for the compiler's base, the choice among all targets, and rows of any quantised weight.
#include "backends/cpu/planes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/quantised.h"
#include "backends/cpu/small_float.h"
#include "backends/cpu/target_region.h"
#include "base/dtype.h"
#include "base/nf4.h"
#include "base/strings.h"
//
#include "backends/cpu/planes_inl.h"

namespace tern::cpu {
namespace {

struct Planes128 {
  static constexpr int W = 4;
  typedef std::uint32_t U __attribute__((vector_size(16)));
  typedef std::int32_t I __attribute__((vector_size(16)));
  typedef std::int16_t Halves __attribute__((vector_size(16)));
  typedef float F __attribute__((vector_size(16)));

  TERN_INLINE void store(float* p, F a) { std::memcpy(p, &a, sizeof a); }
  TERN_INLINE F add_product(F sum, F a, F b) { return sum + a * b; }
  TERN_INLINE float total(F a) { return a[0] + a[1] + a[2] + a[3]; }
  TERN_INLINE F from_i8(const std::uint8_t* p) {
    F out;
    for (int i = 0; i < W; ++i) out[i] = static_cast<float>(static_cast<std::int8_t>(p[i]));
    return out;
  }
  TERN_INLINE F from_f8(const std::uint8_t* p) {
    static const auto numbers = [] {
      std::array<float, 256> out{};
      const SmallFloatFormat format = small_float_format(TERN_F8_E4M3);
      for (std::uint32_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(decode_small_float(format, i));
      return out;
    }();
    return F{numbers[p[0]], numbers[p[1]], numbers[p[2]], numbers[p[3]]};
  }
  TERN_INLINE const float* levels(const float* numbers) { return numbers; }
  TERN_INLINE F from_levels4(const float* levels, const std::uint8_t* pairs) {
    return F{levels[pairs[0] >> 4], levels[pairs[0] & 15], levels[pairs[1] >> 4], levels[pairs[1] & 15]};
  }
  TERN_INLINE void step_of_f8(const std::uint8_t* p, F* out) {
    for (int i = 0; i < kAlongStep / W; ++i) out[i] = from_f8(p + i * W);
  }
  TERN_INLINE void step_of_levels4(const float* levels, const std::uint8_t* pairs, F* out) {
    for (int i = 0; i < kAlongStep / 2; ++i) {
      out[i / W][i % W] = levels[pairs[i] >> 4];
      out[(i + kAlongStep / 2) / W][i % W] = levels[pairs[i] & 15];
    }
  }
  TERN_INLINE U spread(const std::uint32_t* one) { return U{} + *one; }
  TERN_INLINE I dot(I sum, const std::int32_t* pairs, const std::int16_t* q) {
    const auto both = loaded<I>(pairs);
    return sum + (both << 16 >> 16) * std::int32_t{q[0]} + (both >> 16) * std::int32_t{q[1]};
  }
};

constexpr PlaneKernels kKernels = make_planes<Planes128>();

float number_at(const std::uint8_t* plane, tern_dtype dtype, std::int64_t index, const GemmKernels& kernels) {
  float out = 0.0F;
  kernels.widen(dtype, plane + index * dtype_bytes(dtype), &out, 1);
  return out;
}

// The scale of a block of nf4; double quantised, product and sum are rounded as bitsandbytes does.
float nf4_scale(const QuantisedRows& rows, std::int64_t block) {
  if ((rows.scheme.flags & TERN_SCHEME_DOUBLE_QUANT) == 0) {
    return loaded<float>(rows.planes[1] + block * 4);
  }
  const auto level = [&](std::int64_t i) { return loaded<float>(rows.planes[2] + i * 4); };
  const float of = level(kNf4ScaleLevels + 1 + block / kNf4ScaleLevels);
  return level(rows.planes[1][block]) * of + level(kNf4ScaleLevels);
}

constexpr std::int64_t kHalfBlock = 16;  // elements that a loop takes at once

bool is_float(tern_dtype dtype) { return dtype == TERN_F32 || dtype == TERN_BF16 || dtype == TERN_F16; }

}  // namespace

const PlaneKernels& plane_kernels(Target target) {
  const PlaneKernels* found = nullptr;
  switch (target) {
    case Target::avx2:
    case Target::avx512:
      found = plane_kernels_avx2();
      break;
    case Target::avx512_vnni:
    case Target::avx512_bf16:
    case Target::amx_bf16:
      found = plane_kernels_avx512_vnni();
      break;
    default:
      break;
  }
  return found != nullptr ? *found : kKernels;
}

bool reads_planes(const tern_scheme& scheme, std::int64_t k, std::string& reason) {
  const std::int64_t group = scheme.group_cols;
  const auto refuse = [&](std::string_view text) {
    reason = cat("packing ", packing_name(scheme.packing), " ", text);
    return false;
  };
  if (k == 0) return true;
  if (k % kX15Block != 0) return refuse("has rows that are no multiple of 32");
  switch (scheme.packing) {
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
      if (!is_float(scheme.scale_dtype)) return refuse("has scales that are no floats");
      if (scheme.packing == TERN_PACK_ROW_INT8 && scheme.group_rows > 1) return refuse("shares scales between rows");
      return (group > 0 && group % kHalfBlock == 0) || refuse("has groups that are no multiple of 16");
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      if ((scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0 ? scheme.scale_dtype != TERN_U8
                                                         : scheme.scale_dtype != TERN_F32) {
        return refuse("has scales of another kind");
      }
      return (group > 0 && group % kHalfBlock == 0) || refuse("has groups that are no multiple of 16");
    case TERN_PACK_GPTQ_INT4:
      if (scheme.bits != 2 && scheme.bits != 3 && scheme.bits != 4 && scheme.bits != 8)
        return refuse(cat("has codes of ", scheme.bits, " bits"));
      [[fallthrough]];
    case TERN_PACK_AWQ_INT4:
      if (!is_float(scheme.scale_dtype)) return refuse("has scales that are no floats");
      return (group > 0 && group % kX15Block == 0 && k % group == 0) || refuse("has groups that are no multiple of 32");
    default:
      return refuse("is not one that this device expands");
  }
}

void across_scales(const AcrossWeight& w, std::int64_t group, std::int64_t column, std::int64_t n, float* scales,
                   std::int32_t* zeros) {
  const std::int64_t begin = group * w.stride + w.first + column;
  gemm_kernels(w.target).widen(w.scheme.scale_dtype, w.scale + begin * dtype_bytes(w.scheme.scale_dtype), scales, n);
  const bool awq = w.scheme.packing == TERN_PACK_AWQ_INT4;
  const int bits = w.bits();
  const int less = (w.scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0 ? 1 : 0;
  const std::uint32_t mask = (1U << bits) - 1U;
  const std::uint32_t* word = w.zero + begin * bits / 32;
  auto shift = static_cast<int>(begin * bits % 32);
  for (std::int64_t c = 0; c < n; ++c) {
    std::uint32_t zero = *word >> (awq ? kNibble[shift / 4] * 4 : shift);
    if (shift + bits > 32) zero |= word[1] << (32 - shift);
    zeros[c] = static_cast<std::int32_t>(zero & mask) + less;
    shift += bits;
    if (shift >= 32) {
      shift -= 32;
      ++word;
    }
  }
}

GptqCodes gptq_codes(const AcrossWeight& w, std::int64_t row, std::int64_t column) {
  const int bits = w.bits();
  const auto shift = static_cast<int>(row * bits % 32);
  const std::uint32_t* words = w.words_at(row, column);
  return {words, shift + bits > 32 ? words + w.stride : nullptr, shift, bits};
}

QuantisedRows quantised_rows(const TensorView& weight) {
  QuantisedRows rows;
  rows.scheme = weight.desc.scheme;
  for (int p = 0; p < TERN_MAX_PLANES; ++p) rows.planes[p] = weight.data<const std::uint8_t>(p);
  rows.outputs = weight.dim(0);
  rows.k = weight.dim(1);
  const BlockSize block = packing_block(rows.scheme.packing);
  if (block.elements > 0) {
    rows.row_bytes = rows.k / block.elements * block.bytes;
  } else if (lies_across(rows.scheme.packing)) {
    rows.row_bytes = rows.scheme.packing == TERN_PACK_AWQ_INT4 ? rows.outputs / 2 : rows.outputs * 4;
  } else {
    rows.row_bytes = is_levels4(rows.scheme.packing) ? rows.k / 2 : rows.k;
  }
  return rows;
}

QuantisedRows::Bytes QuantisedRows::bytes(std::int64_t row, std::int64_t column, std::int64_t n) const {
  switch (scheme.packing) {
    case TERN_PACK_AWQ_INT4:
      return {planes[0] + row * row_bytes + (first + column) / 2, n / 2};
    case TERN_PACK_GPTQ_INT4: {
      const std::int64_t at = order() != nullptr && row < k ? order()[row] : row;
      return {planes[0] + at * scheme.bits / 32 * row_bytes + (first + column) * 4, n * 4};
    }
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return {planes[0] + (first + row) * row_bytes + column / 2, n / 2};
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
      return {planes[0] + (first + row) * row_bytes + column, n};
    default: {
      const BlockSize block = packing_block(scheme.packing);
      return {planes[0] + (first + row) * row_bytes + column / block.elements * block.bytes,
              n / block.elements * block.bytes};
    }
  }
}

void expand_output(Target target, const QuantisedRows& rows, std::int64_t output, std::int64_t first, std::int64_t n,
                   float* dst) {
  const AcrossWeight w = rows.across(target);
  const bool awq = w.scheme.packing == TERN_PACK_AWQ_INT4;
  const auto nibble = kNibble[(w.first + output) % 8] * 4;
  const std::int32_t* order = rows.order();
  std::int64_t begin = 0, end = 0;  // inputs that share the scale and zero point
  float scale = 0.0F, zero = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t input = order == nullptr ? first + i : order[first + i];
    if (order != nullptr) require_index(input, rows.k, "w: permutation");
    if (input < begin || input >= end) {
      const std::int64_t group = input / w.scheme.group_cols;
      begin = group * w.scheme.group_cols;
      end = begin + w.scheme.group_cols;
      std::int32_t point = 0;
      across_scales(w, group, output, 1, &scale, &point);
      zero = static_cast<float>(point);
    }
    const std::uint32_t code = awq ? *w.words_at(input, output) >> nibble & 15U : gptq_codes(w, input, output).at(0);
    dst[i] = (static_cast<float>(code) - zero) * scale;
  }
}

void along_scales(Target target, const QuantisedRows& rows, std::int64_t output, float* scales) {
  const tern_scheme& scheme = rows.scheme;
  const std::int64_t steps = rows.k / kAlongStep, group = scheme.group_cols, row = rows.first + output;
  const bool pairs = is_levels4(scheme.packing);
  const std::int64_t across = (rows.k + group - 1) / group;
  const std::int64_t begin = pairs ? row * rows.k : 0;  // groups of pairs are of all elements
  const std::int64_t scale_row = (scheme.group_rows > 1 ? row / scheme.group_rows : row) * across;
  std::int64_t of = begin / group;
  std::int64_t left = (of + 1) * group - begin;  // elements until the next group begins
  const auto scale_of = [&] {
    return pairs ? nf4_scale(rows, of)
                 : number_at(rows.planes[1], scheme.scale_dtype, scale_row + of, gemm_kernels(target));
  };
  float scale = scale_of();
  for (std::int64_t step = 0; step < steps; ++step, left -= kAlongStep) {
    if (left == 0) {
      ++of;
      left = group;
      scale = scale_of();
    }
    scales[step] = scale;
  }
}

RowExpander::RowExpander(Target target, const QuantisedRows& rows) : target_(target), rows_(rows) {
  if (rows.scheme.packing == TERN_PACK_NONE) return;
  in_blocks_ = packing_block(rows.scheme.packing).elements > 0;
  if (!in_blocks_ && rows.scheme.group_cols > 0)
    row_groups_ = (rows.k + rows.scheme.group_cols - 1) / rows.scheme.group_cols;
}

void RowExpander::expand_along(std::int64_t row, std::int64_t column, std::int64_t n, float* dst) const {
  const PlaneKernels& kernels = plane_kernels(target_);
  const tern_scheme& scheme = rows_.scheme;
  const std::int64_t output = rows_.first + row, group = scheme.group_cols;
  const bool pairs = is_levels4(scheme.packing);
  const auto loop = scheme.packing == TERN_PACK_F8_BLOCK ? kernels.f8 : kernels.int8;
  const std::uint8_t* codes = rows_.bytes(row, column, n).at;
  const std::int64_t begin = pairs ? output * rows_.k + column : column;  // groups of pairs are of all elements
  const std::int64_t scale_row = (scheme.group_rows > 1 ? output / scheme.group_rows : output) * row_groups_;
  std::int64_t of = begin / group;
  for (std::int64_t done = 0; done < n; ++of) {
    const std::int64_t some = std::min(n, (of + 1) * group - begin) - done;
    if (pairs) {
      kernels.levels4(codes + done / 2, levels4(scheme.packing).data(), nf4_scale(rows_, of), dst + done, some);
    } else {
      loop(codes + done, number_at(rows_.planes[1], scheme.scale_dtype, scale_row + of, gemm_kernels(target_)),
           dst + done, some);
    }
    done += some;
  }
}

void RowExpander::expand_across(std::int64_t row, std::int64_t column, std::int64_t n, float* dst) {
  const AcrossWeight w = rows_.across(target_);
  if (const std::int32_t* order = rows_.order()) {
    row = order[row];
    require_index(row, rows_.k, "w: permutation");
  }
  const std::int64_t group = row / w.scheme.group_cols;
  if (group != group_ || column != column_ || n != n_) {
    std::int32_t zeros[kMost];
    across_scales(w, group, column, n, scales_, zeros);
    std::copy_n(zeros, n, zeros_);
    group_ = group;
    column_ = column;
    n_ = n;
  }
  const PlaneKernels& kernels = plane_kernels(target_);
  if (w.scheme.packing == TERN_PACK_AWQ_INT4) return kernels.awq(w.words_at(row, column), scales_, zeros_, dst, n);
  kernels.gptq(gptq_codes(w, row, column), scales_, zeros_, dst, n);
}

void RowExpander::expand(std::int64_t row, std::int64_t column, std::int64_t n, float* dst) {
  const tern_packing packing = rows_.scheme.packing;
  if (in_blocks_) {
    const std::uint8_t* from = rows_.planes[0] + (rows_.first + row) * rows_.row_bytes;
    return expand_groups(target_, packing, from, column / kX15Block, (n + kX15Block - 1) / kX15Block, dst);
  }
  if (!lies_across(packing)) return expand_along(row, column, n, dst);
  for (std::int64_t done = 0; done < n; done += kMost)
    expand_across(row, column + done, std::min(kMost, n - done), dst + done);
}

void RowExpander::expand(std::int64_t row, std::int64_t column, std::int64_t n, std::uint16_t* dst) {
  const tern_packing packing = rows_.scheme.packing;
  if (in_blocks_) {
    const std::uint8_t* from = rows_.planes[0] + (rows_.first + row) * rows_.row_bytes;
    return expand_groups(target_, packing, from, column / kX15Block, (n + kX15Block - 1) / kX15Block, dst);
  }
  float wide[kMost];
  for (std::int64_t done = 0; done < n; done += kMost) {
    const std::int64_t some = std::min(kMost, n - done);
    expand(row, column + done, some, wide);
    gemm_kernels(target_).narrow(TERN_BF16, wide, dst + done, some);
  }
}

}  // namespace tern::cpu
