#include "ops/ref/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/dtype.h"
#include "base/half.h"
#include "base/strings.h"
#include "ops/ref/packing.h"

namespace tern::ops::ref {
namespace {

struct Format {
  int precision;     // bits of significand, the hidden one included
  int min_exponent;  // of the smallest normal number
  double largest;    // finite
};

Format format_of(tern_dtype dtype) {
  switch (dtype) {
    case TERN_F16:
      return {11, -14, 65504.0};
    case TERN_BF16:
      return {8, -126, 0x1.fep127};
    case TERN_F8_E4M3:
      return {4, -6, 448.0};
    case TERN_F8_E5M2:
      return {3, -14, 57344.0};
    default:
      return {24, -126, static_cast<double>(std::numeric_limits<float>::max())};
  }
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Bits of a value that the format holds exactly.
std::uint8_t f8_bits(double value, int mantissa_bits, int min_exponent, std::uint8_t nan, std::uint8_t inf) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | nan);
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | inf);
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), min_exponent);
  const auto scaled = static_cast<int>(std::ldexp(magnitude, mantissa_bits - exponent));
  const int biased = (exponent - min_exponent) << mantissa_bits;
  return static_cast<std::uint8_t>(sign | (biased + scaled));
}

double f8_value(std::uint8_t bits, int mantissa_bits, int min_exponent) {
  const int exponent = (bits & 0x7f) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  const double magnitude =
      std::ldexp(significand, (exponent == 0 ? min_exponent : exponent - 1 + min_exponent) - mantissa_bits);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

double load_real(tern_dtype dtype, const std::byte* at) {
  switch (dtype) {
    case TERN_F32:
      return load<float>(at);
    case TERN_F16:
      return fp16_to_float(load<std::uint16_t>(at));
    case TERN_BF16:
      return bf16_to_float(load<std::uint16_t>(at));
    case TERN_F64:
      return load<double>(at);
    case TERN_F8_E4M3: {
      const auto bits = load<std::uint8_t>(at);
      return (bits & 0x7f) == 0x7f ? std::numeric_limits<double>::quiet_NaN() : f8_value(bits, 3, -6);
    }
    case TERN_F8_E5M2: {
      const auto bits = load<std::uint8_t>(at);
      if ((bits & 0x7f) > 0x7c) return std::numeric_limits<double>::quiet_NaN();
      if ((bits & 0x7f) == 0x7c) {
        return (bits & 0x80) != 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
      }
      return f8_value(bits, 2, -14);
    }
    default:
      throw std::invalid_argument("not a floating dtype");
  }
}

std::int64_t load_integer(tern_dtype dtype, const std::byte* at) {
  switch (dtype) {
    case TERN_I8:
      return load<std::int8_t>(at);
    case TERN_U8:
      return load<std::uint8_t>(at);
    case TERN_I16:
      return load<std::int16_t>(at);
    case TERN_U16:
      return load<std::uint16_t>(at);
    case TERN_I32:
      return load<std::int32_t>(at);
    case TERN_U32:
      return load<std::uint32_t>(at);
    case TERN_BOOL:
      return load<std::uint8_t>(at) != 0 ? 1 : 0;
    default:
      return load<std::int64_t>(at);
  }
}

void store_real(tern_dtype dtype, std::byte* at, double value) {
  const double rounded = round_to(dtype, value);
  switch (dtype) {
    case TERN_F32:
      return store(at, static_cast<float>(rounded));
    case TERN_F16:
      return store(at, float_to_fp16(static_cast<float>(rounded)));
    case TERN_BF16:
      return store(at, float_to_bf16(static_cast<float>(rounded)));
    case TERN_F64:
      return store(at, rounded);
    case TERN_F8_E4M3:
      return store(at, f8_bits(rounded, 3, -6, 0x7f, 0x7f));
    default:
      return store(at, f8_bits(rounded, 2, -14, 0x7e, 0x7c));
  }
}

void store_integer(tern_dtype dtype, std::byte* at, std::int64_t value) {
  switch (dtype_bytes(dtype)) {
    case 1:
      return store(at, static_cast<std::uint8_t>(dtype == TERN_BOOL ? (value != 0 ? 1 : 0) : value));
    case 2:
      return store(at, static_cast<std::uint16_t>(value));
    case 4:
      return store(at, static_cast<std::uint32_t>(value));
    default:
      return store(at, value);
  }
}

// Calls visit(logical index, byte offset) in row-major order.
template <typename Visit>
void for_each_element(const TensorDesc& desc, Visit&& visit) {
  const std::int64_t count = num_elements(desc);
  const std::int64_t bytes = dtype_bytes(desc.dtype);
  std::int64_t index[TERN_MAX_RANK] = {};
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(offset * bytes));
    for (int d = desc.rank - 1; d >= 0; --d) {
      offset += desc.strides[d];
      if (++index[d] < desc.shape[d]) break;
      offset -= desc.strides[d] * desc.shape[d];
      index[d] = 0;
    }
  }
}

void require_bytes(const TensorDesc& desc, int plane, std::size_t have) {
  const std::uint64_t need = plane_bytes(desc).bytes[plane];
  if (have < need) {
    throw std::invalid_argument(cat("plane ", plane, " of ", to_string(desc), " has ", have, " bytes of ", need));
  }
}

}  // namespace

double round_to(tern_dtype dtype, double value) {
  if (dtype == TERN_F64 || value == 0.0 || !std::isfinite(value)) {
    return dtype == TERN_F8_E4M3 && std::isinf(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  }
  if (dtype == TERN_F32) return static_cast<float>(value);
  const Format format = format_of(dtype);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  double rounded;
  if (exponent >= format.min_exponent) {
    const int drop = 53 - format.precision;
    const std::uint64_t half = (std::uint64_t{1} << (drop - 1)) - 1 + ((bits >> drop) & 1);
    rounded = std::bit_cast<double>(((bits + half) >> drop) << drop);
  } else {
    const int quantum = format.min_exponent - format.precision + 1;
    rounded = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  }
  if (std::fabs(rounded) <= format.largest) return rounded;
  const double overflow =
      dtype == TERN_F8_E4M3 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  return std::copysign(overflow, value);
}

double half_ulp(tern_dtype dtype, double value) {
  if (dtype == TERN_F64) return std::fabs(value) * 0x1p-53;
  const Format format = format_of(dtype);
  const double magnitude = std::fabs(value);
  const int exponent = magnitude > 0.0 && std::isfinite(magnitude)
                           ? std::max(std::ilogb(magnitude), format.min_exponent)
                           : format.min_exponent;
  return std::ldexp(1.0, exponent - format.precision);
}

double largest_finite(tern_dtype dtype) {
  return dtype == TERN_F64 ? std::numeric_limits<double>::max() : format_of(dtype).largest;
}

double unit_roundoff(tern_dtype dtype) {
  return dtype == TERN_F64 ? 0x1p-53 : std::ldexp(1.0, -format_of(dtype).precision);
}

Tensor decode(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes) {
  Tensor out;
  out.desc = desc;
  if (!is_present(desc)) return out;
  if (desc.layout != 0) throw std::invalid_argument(cat("layout ", desc.layout, " is private to its device"));
  for (std::size_t plane = 0; plane < TERN_MAX_PLANES; ++plane) {
    require_bytes(desc, static_cast<int>(plane), plane < planes.size() ? planes[plane].size() : 0);
  }
  const auto count = static_cast<std::size_t>(num_elements(desc));
  if (is_quantised(desc)) {
    out.real.resize(count);
    out.parts.resize(count);
    expand_packing(desc, planes, out.real, out.parts);
    out.order = input_order(desc, planes);
    return out;
  }
  const std::byte* base = planes.empty() ? nullptr : planes[0].data();
  if (dtype_info(desc.dtype).floating) {
    out.real.resize(count);
    for_each_element(desc, [&](std::size_t i, std::size_t at) { out.real[i] = load_real(desc.dtype, base + at); });
  } else {
    out.integer.resize(count);
    for_each_element(desc,
                     [&](std::size_t i, std::size_t at) { out.integer[i] = load_integer(desc.dtype, base + at); });
  }
  return out;
}

void encode(const Tensor& tensor, const TensorDesc& desc, std::span<std::byte> plane) {
  if (!is_present(desc)) return;
  if (desc.layout != 0 || is_quantised(desc)) throw std::invalid_argument("only strided, unquantised tensors encode");
  require_bytes(desc, 0, plane.size());
  const auto count = static_cast<std::size_t>(num_elements(desc));
  if (dtype_info(desc.dtype).floating) {
    if (tensor.real.size() != count) throw std::invalid_argument("the tensor's elements do not fill its description");
    for_each_element(desc,
                     [&](std::size_t i, std::size_t at) { store_real(desc.dtype, plane.data() + at, tensor.real[i]); });
  } else {
    if (tensor.integer.size() != count)
      throw std::invalid_argument("the tensor's elements do not fill its description");
    for_each_element(
        desc, [&](std::size_t i, std::size_t at) { store_integer(desc.dtype, plane.data() + at, tensor.integer[i]); });
  }
}

}  // namespace tern::ops::ref
