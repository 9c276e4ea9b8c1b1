// Block formats as ggml defines them (ggml-common.h, ggml-quants.c of the GGUF format); row formats as in accel.h.
#include "ops/ref/packing.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "base/dtype.h"
#include "base/half.h"
#include "base/strings.h"
#include "ops/ref/tensor.h"

namespace tern::ops::ref {
namespace {

std::uint8_t u8(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }
int i8(const std::byte* at) { return static_cast<std::int8_t>(u8(at)); }
double f16(const std::byte* at) { return fp16_to_float(static_cast<std::uint16_t>(u8(at) | (u8(at + 1) << 8))); }
double fp32(double value) { return static_cast<float>(value); }

// 32 elements: nibble j is element j, the high nibble of byte j is element j + 16. `high`: 4 bytes of fifth bits or
// null.
int nibble(const std::byte* data, const std::byte* high, int j) {
  const int low = j < 16 ? u8(data + j) & 15 : u8(data + j - 16) >> 4;
  return high == nullptr ? low : low | (((u8(high + j / 8) >> (j % 8)) & 1) << 4);
}

void expand_block32(tern_packing packing, const std::byte* block, double* out) {
  const double scale = f16(block);
  for (int j = 0; j < 32; ++j) {
    switch (packing) {
      case TERN_PACK_GGUF_Q4_0:
        out[j] = fp32(scale * (nibble(block + 2, nullptr, j) - 8));
        break;
      case TERN_PACK_GGUF_Q4_1:
        out[j] = fp32(scale * nibble(block + 4, nullptr, j) + f16(block + 2));
        break;
      case TERN_PACK_GGUF_Q5_0:
        out[j] = fp32(scale * (nibble(block + 6, block + 2, j) - 16));
        break;
      case TERN_PACK_GGUF_Q5_1:
        out[j] = fp32(scale * nibble(block + 8, block + 4, j) + f16(block + 2));
        break;
      default:  // Q8_0
        out[j] = fp32(scale * i8(block + 2 + j));
    }
  }
}

// 256 elements in 8 groups of 32: d f16, dmin f16, 8 pairs of 6-bit (scale, min) in 12 bytes, 128 bytes of nibbles.
void expand_q4_k(const std::byte* block, double* out) {
  const double d = f16(block);
  const double dmin = f16(block + 2);
  const std::byte* packed = block + 4;
  for (int group = 0; group < 8; ++group) {
    int scale;
    int minimum;
    if (group < 4) {
      scale = u8(packed + group) & 63;
      minimum = u8(packed + group + 4) & 63;
    } else {
      scale = (u8(packed + group + 4) & 15) | ((u8(packed + group - 4) >> 6) << 4);
      minimum = (u8(packed + group + 4) >> 4) | ((u8(packed + group) >> 6) << 4);
    }
    const std::byte* data = block + 16 + (group / 2) * 32;
    for (int j = 0; j < 32; ++j) {
      const int q = group % 2 == 0 ? u8(data + j) & 15 : u8(data + j) >> 4;
      out[group * 32 + j] = fp32(fp32(d * scale) * q - fp32(dmin * minimum));
    }
  }
}

// 256 elements: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 scales i8, d f16.
void expand_q6_k(const std::byte* block, double* out) {
  const double d = f16(block + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* high = block + 128 + half * 32;
    const std::byte* scales = block + 192 + half * 8;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int j = 0; j < 32; ++j) {
        const int byte = u8(low + (quarter % 2) * 32 + j);
        const int nib = quarter < 2 ? byte & 15 : byte >> 4;
        const int q = (nib | (((u8(high + j) >> (2 * quarter)) & 3) << 4)) - 32;
        out[half * 128 + quarter * 32 + j] = fp32(fp32(d * i8(scales + quarter * 2 + j / 16)) * q);
      }
    }
  }
}

// Data one byte an element, a scale per group_rows x group_cols.
void expand_scaled(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes, std::span<double> out) {
  const std::int64_t rows = desc.shape[0];
  const std::int64_t columns = desc.shape[1];
  const std::int64_t group_cols = desc.scheme.group_cols > 0 ? desc.scheme.group_cols : columns;
  const std::int64_t group_rows = desc.scheme.group_rows > 0 ? desc.scheme.group_rows : 1;
  const std::int64_t groups = (columns + group_cols - 1) / group_cols;
  const std::array<std::int64_t, 2> scale_shape = {(rows + group_rows - 1) / group_rows, groups};
  const std::array<std::span<const std::byte>, 1> scale_plane = {planes[1]};
  const Tensor scales = decode(make_desc(desc.scheme.scale_dtype, scale_shape), scale_plane);
  const std::array<std::int64_t, 2> shape = {rows, columns};
  const std::array<std::span<const std::byte>, 1> data_plane = {planes[0]};
  const bool integer = desc.scheme.packing == TERN_PACK_ROW_INT8;
  const Tensor data = decode(make_desc(integer ? TERN_I8 : TERN_F8_E4M3, shape), data_plane);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<std::size_t>(r * columns + c);
      const double scale = scales.real[static_cast<std::size_t>(r / group_rows * groups + c / group_cols)];
      out[i] = fp32(scale * (integer ? static_cast<double>(data.integer[i]) : data.real[i]));
    }
  }
}

}  // namespace

bool packing_is_known(const tern_scheme& scheme) {
  switch (scheme.packing) {
    case TERN_PACK_GGUF_Q4_0:
    case TERN_PACK_GGUF_Q4_1:
    case TERN_PACK_GGUF_Q5_0:
    case TERN_PACK_GGUF_Q5_1:
    case TERN_PACK_GGUF_Q8_0:
    case TERN_PACK_GGUF_Q4_K:
    case TERN_PACK_GGUF_Q6_K:
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_F8_BLOCK:
      return true;
    default:
      return false;
  }
}

void expand_packing(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes, std::span<double> out) {
  if (!packing_is_known(desc.scheme)) {
    throw std::invalid_argument(cat("no expansion for packing ", packing_name(desc.scheme.packing)));
  }
  const BlockSize block = packing_block(desc.scheme.packing);
  if (block.elements == 0) {
    expand_scaled(desc, planes, out);
    return;
  }
  if (desc.shape[desc.rank - 1] % block.elements != 0) {
    throw std::invalid_argument(cat("rows of ", to_string(desc), " are no whole blocks of ", block.elements));
  }
  const std::byte* at = planes[0].data();
  for (std::size_t i = 0; i < out.size(); i += static_cast<std::size_t>(block.elements), at += block.bytes) {
    if (desc.scheme.packing == TERN_PACK_GGUF_Q4_K) {
      expand_q4_k(at, &out[i]);
    } else if (desc.scheme.packing == TERN_PACK_GGUF_Q6_K) {
      expand_q6_k(at, &out[i]);
    } else {
      expand_block32(desc.scheme.packing, at, &out[i]);
    }
  }
}

}  // namespace tern::ops::ref
