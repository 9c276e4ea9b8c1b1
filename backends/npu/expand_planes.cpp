// Codes in one plane, scales (and zero points, and an order of the inputs) in others.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/npu/expand.h"

namespace tern::npu {
namespace {

std::int64_t group_columns(const tern_tensor_desc& desc) {
  return desc.scheme.group_cols > 0 ? desc.scheme.group_cols : desc.shape[1];
}

std::int64_t pieces(std::int64_t length, std::int64_t of) { return (length + of - 1) / of; }

// data *= scales, where a scale serves group_rows x group_cols; the last groups may be cut off.
void scale_groups(Composer& c, const View& data, const View& scales, std::int64_t group_rows, std::int64_t group_cols) {
  const std::int64_t rows = data.dim(0);
  const std::int64_t columns = data.dim(1);
  const std::int64_t row_parts[2] = {rows / group_rows * group_rows, rows % group_rows};
  const std::int64_t column_parts[2] = {columns / group_cols * group_cols, columns % group_cols};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (row_parts[i] == 0 || column_parts[j] == 0) continue;
      const std::int64_t height = i == 0 ? group_rows : row_parts[1];
      const std::int64_t width = j == 0 ? group_cols : column_parts[1];
      const View part = data.slice(0, i == 0 ? 0 : row_parts[0], row_parts[i])
                            .slice(1, j == 0 ? 0 : column_parts[0], column_parts[j]);
      const Dims shape = {row_parts[i] / height, height, column_parts[j] / width, width};
      const View grouped = part.reshaped(shape);
      const View own = scales.slice(0, i == 0 ? 0 : row_parts[0] / group_rows, shape[0])
                           .slice(1, j == 0 ? 0 : column_parts[0] / group_cols, shape[2]);
      c.mul(grouped, own.unsqueezed(1).unsqueezed(3), grouped);
    }
  }
}

// E4M3: 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, NaN 0x7f.
std::vector<float> e4m3_table() {
  std::vector<float> table;
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    if ((code & 127) == 127) value = std::nan("");
    table.push_back(static_cast<float>(code < 128 ? value : -value));
  }
  return table;
}

View expand_scaled(Composer& c, int arg, std::int64_t from, std::int64_t count) {
  const tern_tensor_desc& desc = c.desc(arg);
  const std::int64_t columns = desc.shape[1];
  const std::int64_t group_cols = group_columns(desc);
  const std::int64_t group_rows = std::max(desc.scheme.group_rows, 1);
  const View out = c.temp(ACL_FLOAT, {count, columns});
  const bool integer = desc.scheme.packing == TERN_PACK_ROW_INT8;
  const View data = c.plane(arg, 0, integer ? ACL_INT8 : ACL_UINT8, {desc.shape[0], columns}).slice(0, from, count);
  if (integer) {
    c.copy(out, data);
  } else {
    look_up(c, c.f32(data), "e4m3", e4m3_table(), out);
  }
  const View scales = c.f32(c.plane(arg, 1, acl_dtype(desc.scheme.scale_dtype),
                                    {pieces(desc.shape[0], group_rows), pieces(columns, group_cols)}));
  if (group_rows > 1 && from % group_rows != 0) c.refuse("its rows are no whole groups");
  scale_groups(c, out, scales.slice(0, from / group_rows, pieces(count, group_rows)), group_rows, group_cols);
  return out;
}

// A plane of 32-bit words along `words`' last dimension but one as codes: `per` codes in each `period` words.
struct Words {
  int bits;
  std::int64_t period;  // words after which codes begin at a word again
  [[nodiscard]] std::int64_t per() const { return 32 * period / bits; }
};

// out = code j of each period; bytes [..., period, 4] at the end of `bytes`, whose other dimensions are out's.
void take_code(Composer& c, const View& bytes, const Words& words, std::int64_t j, const View& out) {
  const std::int64_t bit = j * words.bits;
  const auto byte = [&](std::int64_t at) {
    View view = bytes.slice(bytes.rank() - 2, at / 4, 1).slice(bytes.rank() - 1, at % 4, 1);
    view.shape.rank -= 2;
    view.strides.rank -= 2;
    return view;
  };
  const int shift = static_cast<int>(bit % 8);
  const int low = std::min(words.bits, 8 - shift);
  const std::int64_t mark = c.mark();
  extract_bits(c, byte(bit / 8), shift, low, out);
  if (low < words.bits) {
    const View high = c.temp(ACL_FLOAT, out.shape);
    extract_bits(c, byte(bit / 8 + 1), 0, words.bits - low, high);
    c.add(out, high, out, std::ldexp(1.0, low));
  }
  c.rewind(mark);
}

// Words along the outputs, [rows, n bits / 32], as codes [rows, n].
View codes_along(Composer& c, int arg, int plane, std::int64_t rows, std::int64_t n, const Words& words, bool awq) {
  static constexpr std::array<std::int64_t, 8> kNibble = {0, 4, 1, 5, 2, 6, 3, 7};
  const std::int64_t per = words.per();
  if (n % per != 0) c.refuse("its outputs fill no whole words");
  const View bytes = c.plane(arg, plane, ACL_UINT8, {rows, n / per, words.period, 4});
  const View out = c.temp(ACL_FLOAT, {rows, n});
  for (std::int64_t j = 0; j < per; ++j) {
    take_code(c, bytes, words, awq ? kNibble[static_cast<std::size_t>(j)] : j, out.slice(1, j, n / per, per));
  }
  return out;
}

// GPTQ's data: words along the inputs, [k bits / 32, n], as codes [k, n].
View codes_across(Composer& c, int arg, std::int64_t k, std::int64_t n, const Words& words) {
  const std::int64_t per = words.per();
  if (k % per != 0) c.refuse("its inputs fill no whole words");
  const View stored = c.plane(arg, 0, ACL_UINT8, {k / per, words.period, n, 4});
  const View bytes = stored.transposed(1, 2);  // [k / per, n, period, 4]
  const View out = c.temp(ACL_FLOAT, {k, n});
  for (std::int64_t j = 0; j < per; ++j) take_code(c, bytes, words, j, out.slice(0, j, k / per, per));
  return out;
}

// (code - zero) scale.
View expand_words(Composer& c, int arg) {
  const tern_tensor_desc& desc = c.desc(arg);
  const bool awq = desc.scheme.packing == TERN_PACK_AWQ_INT4;
  const std::int64_t n = desc.shape[0];
  const std::int64_t k = desc.shape[1];
  const std::int64_t group = group_columns(desc);
  if (k % group != 0) c.refuse("its inputs are no whole groups");
  const int bits = awq ? 4 : desc.scheme.bits;
  const Words words{bits, bits == 3 ? 3 : 1};
  const View codes = awq ? codes_along(c, arg, 0, k, n, words, true) : codes_across(c, arg, k, n, words);
  const View zeros = codes_along(c, arg, 2, k / group, n, words, awq);
  if ((desc.scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0) c.adds(zeros, 1.0, zeros);
  const View scales = c.f32(c.plane(arg, 1, acl_dtype(desc.scheme.scale_dtype), {k / group, n}));
  const View grouped = codes.reshaped({k / group, group, n});
  c.add(grouped, zeros.unsqueezed(1), grouped, -1.0);
  c.mul(grouped, scales.unsqueezed(1), grouped);
  View inputs = codes;
  if (!awq && (desc.scheme.flags & TERN_SCHEME_IN_ORDER) == 0) {
    inputs = c.temp(ACL_FLOAT, {k, n});
    c.call(TERN_NPU_OP(GatherV2), codes, std::int64_t{0}, c.plane(arg, 3, ACL_INT32, {k}), inputs);
  }
  return c.dense(inputs.transposed(0, 1));
}

constexpr std::int64_t kScaleLevels = 256;  // of scales that are quantised themselves

// One of 16 levels times the scale of a group of all elements; the first of two codes is in the high half.
View expand_levels(Composer& c, int arg) {
  static const std::vector<float> kNf4 = {-1.0F,
                                          -0.6961928009986877F,
                                          -0.5250730514526367F,
                                          -0.39491748809814453F,
                                          -0.28444138169288635F,
                                          -0.18477343022823334F,
                                          -0.09105003625154495F,
                                          0.0F,
                                          0.07958029955625534F,
                                          0.16093020141124725F,
                                          0.24611230194568634F,
                                          0.33791524171829224F,
                                          0.44070982933044434F,
                                          0.5626170039176941F,
                                          0.7229568362236023F,
                                          1.0F};
  static const std::vector<float> kFp4 = {
      0.0F, 0.0625F / 12.0F,  8.0F / 12.0F,  1.0F,  4.0F / 12.0F,  6.0F / 12.0F,  2.0F / 12.0F,  3.0F / 12.0F,
      0.0F, -0.0625F / 12.0F, -8.0F / 12.0F, -1.0F, -4.0F / 12.0F, -6.0F / 12.0F, -2.0F / 12.0F, -3.0F / 12.0F};
  const tern_tensor_desc& desc = c.desc(arg);
  const std::int64_t count = desc.shape[0] * desc.shape[1];
  const std::int64_t group = group_columns(desc);
  if (count % 2 != 0) c.refuse("an odd number of 4-bit codes");
  const std::int64_t num_scales = pieces(count, group);
  const View pairs = c.plane(arg, 0, ACL_UINT8, {count / 2, 1});
  const View out = c.temp(ACL_FLOAT, {count / 2, 2});
  extract_bits(c, pairs, 4, 4, out.slice(1, 0, 1));
  extract_bits(c, pairs, 0, 4, out.slice(1, 1, 1));
  const bool nf4 = desc.scheme.packing == TERN_PACK_NF4;
  look_up(c, out, nf4 ? "nf4" : "fp4", nf4 ? kNf4 : kFp4, out);
  View scales;
  if ((desc.scheme.flags & TERN_SCHEME_DOUBLE_QUANT) == 0) {
    scales = c.f32(c.plane(arg, 1, acl_dtype(desc.scheme.scale_dtype), {1, num_scales}));
  } else {
    const std::int64_t blocks = pieces(num_scales, kScaleLevels);
    const View levels = c.plane(arg, 2, ACL_FLOAT, {kScaleLevels + 1 + blocks});
    const View places = c.temp(ACL_INT32, {num_scales});
    c.copy(places, c.plane(arg, 1, ACL_UINT8, {num_scales}));
    scales = c.temp(ACL_FLOAT, {1, num_scales});
    c.call(TERN_NPU_OP(GatherV2), levels.slice(0, 0, kScaleLevels).unsqueezed(1), std::int64_t{0}, places,
           scales.reshaped({num_scales, 1}));
    scale_groups(c, scales, levels.slice(0, kScaleLevels + 1, blocks).unsqueezed(0), 1, kScaleLevels);
    c.add(scales, levels.slice(0, kScaleLevels, 1), scales);
  }
  scale_groups(c, out.reshaped({1, count}), scales, 1, group);
  return out.reshaped({desc.shape[0], desc.shape[1]});
}

}  // namespace

View expand_planes(Composer& c, int arg, std::int64_t from, std::int64_t count) {
  switch (c.desc(arg).scheme.packing) {
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
      return expand_scaled(c, arg, from, count);
    case TERN_PACK_AWQ_INT4:
    case TERN_PACK_GPTQ_INT4:
      return expand_words(c, arg).slice(0, from, count);
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return expand_levels(c, arg).slice(0, from, count);
    default:
      c.refuse("this device doesn't expand this packing");
  }
}

}  // namespace tern::npu
