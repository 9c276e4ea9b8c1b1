// Blocks are packing_blocks.cpp's; row formats are as in accel.h.
#include "ops/ref/packing.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/ref/packing_blocks.h"
#include "ops/ref/tensor.h"

namespace tern::ops::ref {
namespace {

double fp32(double value) { return static_cast<float>(value); }

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
  return block_is_known(scheme.packing) || scheme.packing == TERN_PACK_ROW_INT8 || scheme.packing == TERN_PACK_F8_BLOCK;
}

void expand_packing(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes, std::span<double> out,
                    std::span<double> parts) {
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
