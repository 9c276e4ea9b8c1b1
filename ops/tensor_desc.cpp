#include "ops/tensor_desc.h"

#include <stdexcept>

#include "base/dtype.h"
#include "base/nf4.h"
#include "base/strings.h"

namespace tern {
namespace {

void set_contiguous(TensorDesc& desc) {
  std::int64_t stride = 1;
  for (int d = desc.rank - 1; d >= 0; --d) {
    desc.strides[d] = stride;
    stride *= desc.shape[d] > 0 ? desc.shape[d] : 1;
  }
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Planes {data, scale, zero, permutation} of the multi-plane packings (accel.h).
PlaneBytes scheme_plane_bytes(const TensorDesc& desc) {
  PlaneBytes out{};
  const std::int64_t rows = desc.shape[0];
  const std::int64_t columns = desc.shape[1];
  const std::int64_t group = desc.scheme.group_cols > 0 ? desc.scheme.group_cols : columns;
  const std::int64_t scale = dtype_bytes(desc.scheme.scale_dtype);
  const std::int64_t groups = ceil_div(columns, group);
  switch (desc.scheme.packing) {
    case TERN_PACK_ROW_INT8:
      return {{static_cast<std::uint64_t>(rows * columns), static_cast<std::uint64_t>(rows * groups * scale)}};
    case TERN_PACK_AWQ_INT4:
    case TERN_PACK_GPTQ_INT4: {
      const bool is_gptq = desc.scheme.packing == TERN_PACK_GPTQ_INT4;
      const std::int64_t bits = is_gptq ? desc.scheme.bits : 4;
      out.bytes[0] = static_cast<std::uint64_t>(rows * columns * bits / 8);
      out.bytes[1] = static_cast<std::uint64_t>(rows * groups * scale);
      out.bytes[2] = static_cast<std::uint64_t>(rows * groups * bits / 8);
      if (is_gptq && (desc.scheme.flags & TERN_SCHEME_IN_ORDER) == 0)
        out.bytes[3] = static_cast<std::uint64_t>(columns * 4);
      return out;
    }
    case TERN_PACK_F8_BLOCK: {
      const std::int64_t group_rows = desc.scheme.group_rows > 0 ? desc.scheme.group_rows : 1;
      return {{static_cast<std::uint64_t>(rows * columns),
               static_cast<std::uint64_t>(ceil_div(rows, group_rows) * groups * scale)}};
    }
    case TERN_PACK_NF4:
    case TERN_PACK_FP4: {  // groups are of all elements
      const std::int64_t scales = ceil_div(rows * columns, group);
      out.bytes[0] = static_cast<std::uint64_t>(ceil_div(rows * columns, 2));
      out.bytes[1] = static_cast<std::uint64_t>(scales * scale);
      if ((desc.scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0)
        out.bytes[2] = static_cast<std::uint64_t>((kNf4ScaleLevels + 1 + ceil_div(scales, kNf4ScaleLevels)) * 4);
      return out;
    }
    case TERN_PACK_MXFP4:
      return {{static_cast<std::uint64_t>(rows * columns / 2), static_cast<std::uint64_t>(rows * columns / 32)}};
    default:
      throw std::invalid_argument(cat("no plane sizes for packing ", desc.scheme.packing));
  }
}

}  // namespace

TensorDesc make_desc(tern_dtype dtype, std::span<const std::int64_t> shape) {
  if (shape.empty() || shape.size() > TERN_MAX_RANK) throw std::invalid_argument("a tensor has 1 to 6 dimensions");
  TensorDesc desc{};
  desc.dtype = dtype;
  desc.rank = static_cast<std::int32_t>(shape.size());
  desc.dynamic_dim = -1;
  for (std::size_t d = 0; d < shape.size(); ++d) desc.shape[d] = shape[d];
  set_contiguous(desc);
  return desc;
}

TensorDesc make_desc(tern_dtype dtype, std::initializer_list<std::int64_t> shape) {
  return make_desc(dtype, std::span(shape.begin(), shape.size()));
}

TensorDesc make_quantised_desc(tern_dtype dtype, tern_scheme scheme, std::int64_t rows, std::int64_t columns) {
  TensorDesc desc = make_desc(dtype, {rows, columns});
  desc.scheme = scheme;
  return desc;
}

TensorDesc absent_desc() {
  TensorDesc desc{};
  desc.dynamic_dim = -1;
  return desc;
}

TensorDesc with_dynamic(TensorDesc desc, int dim, int slot) {
  desc.dynamic_dim = static_cast<std::int8_t>(dim);
  desc.count_slot = static_cast<std::uint8_t>(slot);
  return desc;
}

tern_scheme gguf_scheme(tern_packing packing) {
  const BlockSize block = packing_block(packing);
  if (block.elements == 0) throw std::invalid_argument("not a one-plane GGUF packing");
  return {packing, block.bytes * 8 / block.elements, 1, block.elements, TERN_F16, 0};
}

std::int64_t num_elements(const TensorDesc& desc) {
  std::int64_t count = desc.rank > 0 ? 1 : 0;
  for (int d = 0; d < desc.rank; ++d) count *= desc.shape[d];
  return count;
}

bool is_contiguous(const TensorDesc& desc) {
  std::int64_t stride = 1;
  for (int d = desc.rank - 1; d >= 0; --d) {
    if (desc.shape[d] != 1 && desc.strides[d] != stride) return false;
    stride *= desc.shape[d];
  }
  return true;
}

bool same_shape(const TensorDesc& a, const TensorDesc& b) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.shape[d] != b.shape[d]) return false;
  }
  return true;
}

PlaneBytes plane_bytes(const TensorDesc& desc) {
  PlaneBytes out{};
  if (num_elements(desc) == 0) return out;
  if (is_quantised(desc)) {
    const BlockSize block = packing_block(desc.scheme.packing);
    if (block.elements == 0) return scheme_plane_bytes(desc);
    out.bytes[0] = static_cast<std::uint64_t>(num_elements(desc) / block.elements * block.bytes);
    return out;
  }
  std::int64_t last = 0;
  for (int d = 0; d < desc.rank; ++d) last += (desc.shape[d] - 1) * desc.strides[d];
  out.bytes[0] = static_cast<std::uint64_t>((last + 1) * dtype_bytes(desc.dtype));
  return out;
}

std::uint64_t total_bytes(const TensorDesc& desc) {
  const PlaneBytes planes = plane_bytes(desc);
  std::uint64_t total = 0;
  for (std::uint64_t bytes : planes.bytes) total += bytes;
  return total;
}

std::string to_string(const TensorDesc& desc) {
  if (!is_present(desc)) return "absent";
  std::string out(is_quantised(desc) ? packing_name(desc.scheme.packing) : dtype_name(desc.dtype));
  out += '[';
  for (int d = 0; d < desc.rank; ++d) out += cat(d == 0 ? "" : ",", desc.shape[d]);
  out += ']';
  if (desc.layout != 0) out += cat("@", desc.layout);
  if (desc.layout == 0 && !is_quantised(desc) && !is_contiguous(desc)) {
    out += '/';
    for (int d = 0; d < desc.rank; ++d) out += cat(d == 0 ? "" : ",", desc.strides[d]);
  }
  return out;
}

}  // namespace tern
