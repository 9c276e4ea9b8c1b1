#include "backends/npu/view.h"

#include <string>

#include "tern/plugin.h"

namespace tern::npu {

aclDataType acl_dtype(tern_dtype dtype) {
  switch (dtype) {
    case TERN_F32:
      return ACL_FLOAT;
    case TERN_F16:
      return ACL_FLOAT16;
    case TERN_BF16:
      return ACL_BF16;
    case TERN_I8:
      return ACL_INT8;
    case TERN_U8:
      return ACL_UINT8;
    case TERN_I16:
      return ACL_INT16;
    case TERN_I32:
      return ACL_INT32;
    case TERN_U32:
      return ACL_UINT32;
    case TERN_I64:
      return ACL_INT64;
    case TERN_BOOL:
      return ACL_BOOL;
    default:
      break;
  }
  throw tern_plugin::Error(TERN_UNSUPPORTED,
                           std::string("this device has no tensors of ") + tern_plugin_dtype_name(dtype));
}

std::int64_t acl_bytes(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
      return 2;
    case ACL_INT64:
      return 8;
    default:
      return 1;
  }
}

std::int64_t Dims::product() const {
  std::int64_t count = 1;
  for (std::int64_t value : span()) count *= value;
  return count;
}

bool View::contiguous() const {
  if (shape.product() == 0) return true;  // no element has a place
  std::int64_t expected = 1;
  for (int d = rank() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

View View::transposed(int a, int b) const {
  View out = *this;
  std::swap(out.shape[a], out.shape[b]);
  std::swap(out.strides[a], out.strides[b]);
  return out;
}

View View::slice(int dim, std::int64_t from, std::int64_t count, std::int64_t step) const {
  View out = *this;
  out.offset += from * strides[dim] * acl_bytes(dtype);
  out.shape[dim] = count;
  out.strides[dim] *= step;
  return out;
}

View View::unsqueezed(int dim) const {
  View out = *this;
  out.shape = {};
  out.strides = {};
  for (int d = 0; d <= rank(); ++d) {
    if (d == dim) {
      out.shape.push(1);
      out.strides.push(d < rank() ? shape[d] * strides[d] : 1);
    }
    if (d == rank()) break;
    out.shape.push(shape[d]);
    out.strides.push(strides[d]);
  }
  return out;
}

View View::expanded(int dim, std::int64_t count) const {
  View out = *this;
  if (shape[dim] == count) return out;
  out.shape[dim] = count;
  out.strides[dim] = 0;
  return out;
}

View View::reshaped(const Dims& to) const {
  if (contiguous()) {
    View out = contiguous_view(place, offset, dtype, to);
    out.format = format;
    return out;
  }
  // Each dimension of `to` splits one of ours, the last first.
  View out = *this;
  out.shape = to;
  out.strides = to;
  int d = rank() - 1;
  std::int64_t left = rank() > 0 ? shape[d] : 1;
  std::int64_t stride = rank() > 0 ? strides[d] : 1;
  for (int i = to.rank - 1; i >= 0; --i) {
    while (left == 1 && to[i] != 1 && d > 0) {
      left = shape[--d];
      stride = strides[d];
    }
    if (to[i] != 1 && (left % to[i]) != 0) {
      throw tern_plugin::Error(TERN_INTERNAL, "a view whose rows have gaps can't take this shape; report it as a bug");
    }
    out.strides[i] = to[i] == 1 ? (i + 1 < to.rank ? out.strides[i + 1] * to[i + 1] : 1) : stride;
    stride *= to[i];
    left /= to[i] == 0 ? 1 : to[i];
  }
  return out;
}

View View::as(aclDataType other) const {
  View out = *this;
  out.dtype = other;
  return out;
}

View contiguous_view(std::int32_t place, std::int64_t offset, aclDataType dtype, const Dims& shape) {
  View out;
  out.place = place;
  out.offset = offset;
  out.dtype = dtype;
  out.shape = shape;
  out.strides = shape;
  std::int64_t stride = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    out.strides[d] = stride;
    stride *= shape[d] > 0 ? shape[d] : 1;
  }
  return out;
}

}  // namespace tern::npu
