#include <algorithm>
#include <limits>

#include "base/dtype.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

struct Range {
  std::int64_t low;
  std::int64_t high;
};

Range range_of(tern_dtype dtype) {
  const int bits = dtype_bytes(dtype) * 8;
  switch (dtype) {
    case TERN_BOOL:
      return {0, 1};
    case TERN_U8:
    case TERN_U16:
    case TERN_U32:
      return {0, (std::int64_t{1} << bits) - 1};
    case TERN_I8:
    case TERN_I16:
    case TERN_I32:
      return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
    default:
      return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  }
}

std::int64_t to_integer(tern_dtype dtype, double value) {
  if (dtype == TERN_BOOL) return value != 0.0 ? 1 : 0;  // NaN is not zero
  if (std::isnan(value)) return 0;
  if (dtype == TERN_U64) {
    if (value >= 0x1p64) return -1;  // all bits set
    return value <= 0.0 ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(value));
  }
  const Range range = range_of(dtype);
  if (value >= static_cast<double>(range.high)) return range.high;
  if (value <= static_cast<double>(range.low)) return range.low;
  return static_cast<std::int64_t>(value);
}

double to_real(tern_dtype from, std::int64_t value) {
  return from == TERN_U64 ? static_cast<double>(static_cast<std::uint64_t>(value)) : static_cast<double>(value);
}

}  // namespace

void cast_copy(Call& call) {
  const Tensor& x = input(call, TERN_CAST_COPY_X);
  Tensor& y = call.args[TERN_CAST_COPY_Y];
  const bool from_real = dtype_info(x.desc.dtype).floating;
  const auto count = static_cast<std::size_t>(num_elements(x.desc));
  if (dtype_info(y.desc.dtype).floating) {
    Output out(call, TERN_CAST_COPY_Y, Output::Kind::copies);
    for (std::size_t i = 0; i < count; ++i) {
      out.add(static_cast<std::int64_t>(i), from_real ? x.real[i] : to_real(x.desc.dtype, x.integer[i]));
    }
    return;
  }
  y.integer.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (from_real) {
      y.integer[i] = to_integer(y.desc.dtype, x.real[i]);
    } else if (y.desc.dtype == TERN_BOOL) {
      y.integer[i] = x.integer[i] != 0 ? 1 : 0;
    } else {
      y.integer[i] = x.integer[i];  // encoding keeps the low bits, as C does
    }
  }
}

}  // namespace tern::ops::ref
