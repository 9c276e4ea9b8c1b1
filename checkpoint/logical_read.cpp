// The formulas of the formats: codes, scales and zero points to fp32.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/fp8.h"
#include "checkpoint/logical_tensors.h"
#include "checkpoint/packed_words.h"
#include "io/byte_reader.h"

namespace tern::checkpoint {
namespace {

struct Rows {
  std::int64_t first;
  std::int64_t count;
  std::int64_t columns;
};

float float_at(const SourceTensor& tensor, std::int64_t index) {
  const auto width = static_cast<std::size_t>(dtype_bytes(*tensor.storage.dtype));
  float value = 0;
  to_f32(*tensor.storage.dtype, tensor.bytes.subspan(static_cast<std::size_t>(index) * width, width), {&value, 1})
      .value();
  return value;
}

std::vector<float> all_floats(const SourceTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(dtype_bytes(*tensor.storage.dtype)));
  to_f32(*tensor.storage.dtype, tensor.bytes, values).value();
  return values;
}

void read_plain(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  std::size_t row_bytes = 0;
  if (tensor.data->storage.block) {
    const GgmlTypeInfo& info = ggml_type_info(*tensor.data->storage.block);
    row_bytes = static_cast<std::size_t>(rows.columns / info.block_elements * info.block_bytes);
  } else if (tensor.data->storage.dtype) {
    row_bytes = static_cast<std::size_t>(rows.columns * dtype_bytes(*tensor.data->storage.dtype));
  } else {
    throw Failure(data_error(cat("tensor \"", tensor.name, "\""), "a dtype that can be read as numbers",
                             tensor.data->storage.name, "convert the file to BF16"));
  }
  const auto bytes = tensor.data->bytes.subspan(static_cast<std::size_t>(rows.first) * row_bytes,
                                                static_cast<std::size_t>(rows.count) * row_bytes);
  if (tensor.data->storage.block) {
    dequantize(*tensor.data->storage.block, bytes, values).value();
  } else {
    to_f32(*tensor.data->storage.dtype, bytes, values).value();
  }
}

// Eight bits an element, a scale (and zero point) for each block of rows and columns.
void read_scaled(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  read_plain(tensor, rows, values);
  const std::int64_t group_rows = tensor.scheme.group_rows;
  const std::int64_t group_columns = tensor.scheme.group_cols;
  const std::int64_t across = (rows.columns + group_columns - 1) / group_columns;
  std::vector<float> scales = all_floats(*tensor.scale);
  for (float& scale : scales) scale *= tensor.scale_by;
  const std::vector<float> zeros = tensor.zero != nullptr ? all_floats(*tensor.zero) : std::vector<float>();
  for (std::int64_t r = 0; r < rows.count; ++r) {
    for (std::int64_t c = 0; c < rows.columns; ++c) {
      const auto group = static_cast<std::size_t>((rows.first + r) / group_rows * across + c / group_columns);
      float& value = values[static_cast<std::size_t>(r * rows.columns + c)];
      value = (zeros.empty() ? value : value - zeros[group]) * scales[group];
    }
  }
}

void read_awq(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  // Nibble i of a word holds the column kOrder[i]; this is its inverse.
  static constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  const std::int64_t n = tensor.shape[0];
  const std::int64_t k = tensor.shape[1];
  const std::int64_t group = tensor.scheme.group_cols;
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const std::int64_t out = rows.first + r;
    const std::int64_t position = kNibble[out % 8] * 4;
    float scale = 0;
    float zero = 0;
    for (std::int64_t in = 0; in < k; ++in) {
      if (in % group == 0) {
        scale = float_at(*tensor.scale, in / group * n + out);
        zero = static_cast<float>(packed_field(*tensor.zero, in / group * (n / 8) + out / 8, 1, position, 4));
      }
      const auto code = static_cast<float>(packed_field(*tensor.data, in * (n / 8) + out / 8, 1, position, 4));
      values[static_cast<std::size_t>(r * k + in)] = (code - zero) * scale;
    }
  }
}

void read_gptq(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  const std::int64_t k = tensor.shape[1];
  const int bits = tensor.scheme.bits;
  const std::int64_t groups = k / tensor.scheme.group_cols, stride = tensor.data->shape[1];
  const bool along = tensor.arrangement != Arrangement::usual;
  std::vector<float> scales(static_cast<std::size_t>(groups));
  std::vector<float> zeros(static_cast<std::size_t>(groups));
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const std::int64_t out = rows.first + r;
    for (std::int64_t g = 0; g < groups; ++g) {
      scales[static_cast<std::size_t>(g)] = float_at(*tensor.scale, scale_index(tensor, out, g));
      zeros[static_cast<std::size_t>(g)] = static_cast<float>(zero_point(tensor, out, g));
    }
    for (std::int64_t in = 0; in < k; ++in) {
      std::int64_t g = in / tensor.scheme.group_cols;
      if (tensor.permutation != nullptr) {
        g = io::load_as<std::int32_t>(tensor.permutation->bytes.data() + in * 4);
        if (g < 0 || g >= groups) {
          throw Failure(data_error(cat("tensor \"", tensor.permutation->name, "\""),
                                   cat("groups from 0 to ", groups - 1), cat(g),
                                   "fetch the checkpoint again, or use the unquantised one"));
        }
      }
      const auto code = static_cast<float>(along ? packed_field(*tensor.data, out * stride, 1, in * bits, bits)
                                                 : packed_field(*tensor.data, out, stride, in * bits, bits));
      values[static_cast<std::size_t>(r * k + in)] =
          (code - zeros[static_cast<std::size_t>(g)]) * scales[static_cast<std::size_t>(g)];
    }
  }
}

void read_nf4(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  const std::vector<float> levels = all_floats(*tensor.codebook);
  const std::int64_t begin = rows.first * rows.columns;
  const std::int64_t block = tensor.scheme.group_cols;
  std::vector<float> scale_levels;
  if (tensor.scale_codebook != nullptr) scale_levels = all_floats(*tensor.scale_codebook);
  float scale = 0;
  std::int64_t scale_of = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t e = begin + static_cast<std::int64_t>(i);
    if (e / block != scale_of) {
      scale_of = e / block;
      if (scale_levels.empty()) {
        scale = float_at(*tensor.scale, scale_of);
      } else {
        const auto code = static_cast<std::size_t>(tensor.scale->bytes[static_cast<std::size_t>(scale_of)]);
        scale = scale_levels[code] * float_at(*tensor.zero, scale_of / tensor.scale_block) + tensor.scale_offset;
      }
    }
    const auto byte = static_cast<std::uint8_t>(tensor.data->bytes[static_cast<std::size_t>(e / 2)]);
    values[i] = levels[e % 2 == 0 ? byte >> 4 : byte & 15] * scale;
  }
}

void read_mxfp4(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  static constexpr float kLevels[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                        -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  const std::int64_t begin = rows.first * rows.columns;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t e = begin + static_cast<std::int64_t>(i);
    const auto byte = static_cast<std::uint8_t>(tensor.data->bytes[static_cast<std::size_t>(e / 2)]);
    const auto scale = static_cast<std::uint8_t>(tensor.scale->bytes[static_cast<std::size_t>(e / 32)]);
    values[i] = kLevels[e % 2 == 0 ? byte & 15 : byte >> 4] * e8m0_to_float(scale);
  }
}

void read_rows(const LogicalTensor& tensor, const Rows& rows, std::span<float> values) {
  if (tensor.scale == nullptr) return read_plain(tensor, rows, values);
  switch (tensor.scheme.packing) {
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
      return read_scaled(tensor, rows, values);
    case TERN_PACK_AWQ_INT4:
      return read_awq(tensor, rows, values);
    case TERN_PACK_GPTQ_INT4:
      return read_gptq(tensor, rows, values);
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return read_nf4(tensor, rows, values);
    case TERN_PACK_MXFP4:
      return read_mxfp4(tensor, rows, values);
    default:
      throw std::logic_error(cat("tensor \"", tensor.name, "\": packing ", tensor.scheme.packing));
  }
}

std::int64_t row_count(const LogicalTensor& tensor) {
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  const auto total = static_cast<std::int64_t>(element_count(tensor.shape).value_or(0));
  return columns == 0 ? 0 : total / columns;
}

void require_rows(const LogicalTensor& tensor, std::int64_t first, std::int64_t count) {
  const std::int64_t rows = row_count(tensor);
  if (first >= 0 && count >= 0 && count <= rows - first) return;
  throw std::logic_error(cat("tensor \"", tensor.name, "\": rows ", first, " + ", count, " of ", rows));
}

}  // namespace

Status read_rows_f32(const LogicalTensor& tensor, std::int64_t first, std::int64_t count, std::span<float> values) {
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  require_rows(tensor, first, count);
  if (values.size() != static_cast<std::size_t>(count * columns))
    throw std::logic_error(cat("tensor \"", tensor.name, "\": ", values.size(), " values for ", count, " rows"));
  return catching([&] {
    read_rows(tensor, {first, count, columns}, values);
    return Unit{};
  });
}

void append_mxfp4_blocks(const LogicalTensor& tensor, std::int64_t first, std::int64_t count,
                         std::vector<std::byte>& blocks) {
  require_rows(tensor, first, count);
  constexpr std::size_t kCodes = 16;  // bytes of a block
  const auto per_row = static_cast<std::size_t>(tensor.shape.back()) / (2 * kCodes);
  const auto begin = static_cast<std::size_t>(first) * per_row;
  const auto end = begin + static_cast<std::size_t>(count) * per_row;
  blocks.reserve(blocks.size() + (end - begin) * (kCodes + 1));
  for (std::size_t block = begin; block < end; ++block) {
    const std::byte* pairs = tensor.data->bytes.data() + block * kCodes;  // element 2 i is the low half of byte i
    blocks.push_back(tensor.scale->bytes[block]);
    const auto element = [&](std::size_t i) { return i % 2 == 0 ? pairs[i / 2] & std::byte{15} : pairs[i / 2] >> 4; };
    for (std::size_t i = 0; i < kCodes; ++i) blocks.push_back(element(i) | element(i + kCodes) << 4);
  }
}

}  // namespace tern::checkpoint
