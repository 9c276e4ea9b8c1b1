// Blocks are packing_blocks.cpp's; row formats are as in accel.h.
#include "ops/ref/packing.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"
#include "base/nf4.h"
#include "base/strings.h"
#include "ops/ref/packing_blocks.h"
#include "ops/ref/tensor.h"

namespace tern::ops::ref {
namespace {

double fp32(double value) { return static_cast<float>(value); }

using Planes = std::span<const std::span<const std::byte>>;

// A plane as numbers of a dtype, whatever their arrangement.
Tensor numbers(Planes planes, int plane, tern_dtype dtype, std::int64_t count) {
  const std::array<std::span<const std::byte>, 1> one = {planes[static_cast<std::size_t>(plane)]};
  return decode(make_desc(dtype, {count}), one);
}

std::int64_t group_columns(const TensorDesc& desc) {
  return desc.scheme.group_cols > 0 ? desc.scheme.group_cols : desc.shape[1];
}

// Data one byte an element, a scale per group_rows x group_cols.
void expand_scaled(const TensorDesc& desc, Planes planes, std::span<double> out) {
  const std::int64_t rows = desc.shape[0];
  const std::int64_t columns = desc.shape[1];
  const std::int64_t group_cols = group_columns(desc);
  const std::int64_t group_rows = desc.scheme.group_rows > 0 ? desc.scheme.group_rows : 1;
  const std::int64_t groups = (columns + group_cols - 1) / group_cols;
  const Tensor scales = numbers(planes, 1, desc.scheme.scale_dtype, (rows + group_rows - 1) / group_rows * groups);
  const bool integer = desc.scheme.packing == TERN_PACK_ROW_INT8;
  const Tensor data = numbers(planes, 0, integer ? TERN_I8 : TERN_F8_E4M3, rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<std::size_t>(r * columns + c);
      const double scale = scales.real[static_cast<std::size_t>(r / group_rows * groups + c / group_cols)];
      out[i] = fp32(scale * (integer ? static_cast<double>(data.integer[i]) : data.real[i]));
    }
  }
}

// (code - zero) scale, where both planes of codes are words of them and every plane has a row for inputs or a group of
// them. AWQ: words along the outputs, of which the even ones come first; GPTQ: data along the inputs, lowest bits
// first.
void expand_across(const TensorDesc& desc, Planes planes, std::span<double> out) {
  static constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const bool awq = desc.scheme.packing == TERN_PACK_AWQ_INT4;
  const std::int64_t n = desc.shape[0], k = desc.shape[1], groups = k / group_columns(desc);
  const int bits = awq ? 4 : desc.scheme.bits;
  const Tensor data = numbers(planes, 0, TERN_U32, n * k * bits / 32);
  const Tensor scales = numbers(planes, 1, desc.scheme.scale_dtype, groups * n);
  const Tensor zeros = numbers(planes, 2, TERN_U32, groups * n * bits / 32);
  const std::vector<std::int64_t> order = input_order(desc, planes);
  const int less = (desc.scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0 ? 1 : 0;
  // The code that begins with a bit of words `step` apart, the first of which is `first`.
  const auto code = [&](const Tensor& words, std::int64_t first, std::int64_t step, std::int64_t bit) {
    const auto word = [&](std::int64_t i) { return words.integer[static_cast<std::size_t>(first + i * step)]; };
    std::int64_t low = word(bit / 32) >> (bit % 32);
    if (bit % 32 + bits > 32) low |= word(bit / 32 + 1) << (32 - bit % 32);
    return low & ((1 << bits) - 1);
  };
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t row_bit = awq ? (r / 8 * 8 + kNibble[r % 8]) * bits : r * bits;  // within a row of words
    for (std::int64_t c = 0; c < k; ++c) {
      const std::int64_t at = order.empty() ? c : order[static_cast<std::size_t>(c)], group = at / group_columns(desc);
      const std::int64_t q = awq ? code(data, at * n / 8, 1, row_bit) : code(data, r, n, at * bits);
      const std::int64_t zero = code(zeros, group * n * bits / 32, 1, row_bit) + less;
      const double scale = scales.real[static_cast<std::size_t>(group * n + r)];
      out[static_cast<std::size_t>(r * k + c)] = fp32(scale * static_cast<double>(q - zero));
    }
  }
}

// Groups of all elements. Double quantised: level times scale plus shift, each rounded to fp32 as bitsandbytes does.
void expand_levels4(const TensorDesc& desc, Planes planes, std::span<double> out) {
  const auto count = static_cast<std::int64_t>(out.size()), group = group_columns(desc);
  const std::int64_t num_scales = (count + group - 1) / group;
  Tensor scales = numbers(planes, 1, desc.scheme.scale_dtype, num_scales);
  if ((desc.scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0) {
    const Tensor levels =
        numbers(planes, 2, TERN_F32, kNf4ScaleLevels + 1 + (num_scales + kNf4ScaleLevels - 1) / kNf4ScaleLevels);
    scales.real.clear();
    for (std::int64_t s = 0; s < num_scales; ++s) {
      const double level = levels.real[static_cast<std::size_t>(scales.integer[static_cast<std::size_t>(s)])];
      const double of = levels.real[static_cast<std::size_t>(kNf4ScaleLevels + 1 + s / kNf4ScaleLevels)];
      scales.real.push_back(fp32(fp32(level * of) + levels.real[static_cast<std::size_t>(kNf4ScaleLevels)]));
    }
  }
  const Tensor pairs = numbers(planes, 0, TERN_U8, (count + 1) / 2);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t code = pairs.integer[static_cast<std::size_t>(i / 2)] >> (i % 2 == 0 ? 4 : 0) & 15;
    out[static_cast<std::size_t>(i)] = fp32(double{levels4(desc.scheme.packing)[static_cast<std::size_t>(code)]} *
                                            scales.real[static_cast<std::size_t>(i / group)]);
  }
}

void expand_planes(const TensorDesc& desc, Planes planes, std::span<double> out) {
  switch (desc.scheme.packing) {
    case TERN_PACK_AWQ_INT4:
    case TERN_PACK_GPTQ_INT4:
      return expand_across(desc, planes, out);
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return expand_levels4(desc, planes, out);
    default:
      return expand_scaled(desc, planes, out);
  }
}

}  // namespace

bool packing_is_known(const tern_scheme& scheme) {
  switch (scheme.packing) {
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
    case TERN_PACK_AWQ_INT4:
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return true;
    case TERN_PACK_GPTQ_INT4:
      return scheme.bits == 2 || scheme.bits == 3 || scheme.bits == 4 || scheme.bits == 8;
    default:
      return block_is_known(scheme.packing);
  }
}

std::vector<std::int64_t> input_order(const TensorDesc& desc, Planes planes) {
  const bool other = desc.scheme.packing == TERN_PACK_GPTQ_INT4 && (desc.scheme.flags & TERN_SCHEME_IN_ORDER) == 0;
  if (!other || num_elements(desc) == 0) return {};
  return numbers(planes, 3, TERN_I32, desc.shape[1]).integer;
}

void expand_packing(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes, std::span<double> out,
                    std::span<double> parts) {
  if (!packing_is_known(desc.scheme)) {
    throw std::invalid_argument(cat("no expansion for packing ", packing_name(desc.scheme.packing)));
  }
  const BlockSize block = packing_block(desc.scheme.packing);
  if (out.empty()) return;
  if (block.elements == 0) {
    expand_planes(desc, planes, out);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = std::fabs(out[i]);
    return;
  }
  if (desc.shape[desc.rank - 1] % block.elements != 0) {
    throw std::invalid_argument(cat("rows of ", to_string(desc), " are no whole blocks of ", block.elements));
  }
  const std::byte* at = planes[0].data();
  std::vector<ElementParts> elements(static_cast<std::size_t>(block.elements));
  for (std::size_t i = 0; i < out.size(); at += block.bytes) {
    expand_block(desc.scheme.packing, at, elements);
    for (const ElementParts& element : elements) {
      if (!parts.empty()) parts[i] = std::fabs(element.scaled) + std::fabs(element.minimum);
      out[i++] = fp32(element.scaled + element.minimum);
    }
  }
}

}  // namespace tern::ops::ref
