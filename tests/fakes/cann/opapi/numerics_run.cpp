// Conversion of runs of elements: the only place that knows how a type lies in memory.
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "numerics_view.h"

namespace fake::numerics {

namespace {

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Truth {
  std::uint8_t bits;
};

// Without a branch on the common path, so that a loop of it is vectorised: the exponent is rebased by a product.
inline float widen_half(std::uint16_t bits) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0f800000U ? 0x7f800000U : 0U;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

template <typename To, typename From>
To decode(From value) {
  if constexpr (std::is_same_v<From, Half>) {
    return static_cast<To>(widen_half(value.bits));
  } else if constexpr (std::is_same_v<From, Brain>) {
    return static_cast<To>(tern::bf16_to_float(value.bits));
  } else if constexpr (std::is_same_v<From, Truth>) {
    return static_cast<To>(value.bits != 0 ? 1 : 0);
  } else {
    return static_cast<To>(value);
  }
}

template <typename Integer, typename From>
Integer saturated(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(value)) return 0;
    if (static_cast<double>(value) <= static_cast<double>(std::numeric_limits<Integer>::min()))
      return std::numeric_limits<Integer>::min();
    if (static_cast<double>(value) >= static_cast<double>(std::numeric_limits<Integer>::max()))
      return std::numeric_limits<Integer>::max();
  }
  return static_cast<Integer>(value);  // integers wrap, as casts between them do
}

// A double goes to a half in one rounding: the float between is rounded to odd, which keeps what was lost visible.
template <typename From>
float to_odd(From value) {
  const auto nearest = static_cast<float>(value);
  if constexpr (std::is_same_v<From, double>) {
    if (std::isfinite(value) && std::isfinite(nearest) && static_cast<double>(nearest) != value) {
      const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
      const auto bits = std::bit_cast<std::uint32_t>(nearest) - (away ? 1U : 0U);
      return std::bit_cast<float>(bits | 1U);
    }
  }
  return nearest;
}

template <typename To, typename From>
To encode(From value) {
  if constexpr (std::is_same_v<To, Half>) {
    return {tern::float_to_fp16(to_odd(value))};
  } else if constexpr (std::is_same_v<To, Brain>) {
    return {tern::float_to_bf16(to_odd(value))};
  } else if constexpr (std::is_same_v<To, Truth>) {
    return {static_cast<std::uint8_t>(value != From{} ? 1 : 0)};
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    return saturated<To>(value);
  }
}

template <typename Stored, typename To>
void load_as(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, To* to) {
  const Stored* from = static_cast<const Stored*>(view.data) + offset;
  if (stride == 1) {
    for (std::int64_t i = 0; i < length; ++i) to[i] = decode<To>(from[i]);
  } else if (stride == 0 && length > 0) {
    std::fill_n(to, length, decode<To>(from[0]));
  } else {
    for (std::int64_t i = 0; i < length; ++i) to[i] = decode<To>(from[i * stride]);
  }
}

template <typename Stored, typename From>
void store_as(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const From* from) {
  Stored* to = static_cast<Stored*>(view.data) + offset;
  for (std::int64_t i = 0; i < length; ++i) to[i * stride] = encode<Stored>(from[i]);
}

template <typename To>
void load_int4(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, To* to) {
  const auto* bytes = static_cast<const std::uint8_t*>(view.data);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t at = offset + i * stride;
    const int nibble = (bytes[at / 2] >> (at % 2 == 0 ? 0 : 4)) & 15;
    to[i] = static_cast<To>(nibble < 8 ? nibble : nibble - 16);
  }
}

template <typename From>
void store_int4(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const From* from) {
  auto* bytes = static_cast<std::uint8_t*>(view.data);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t at = offset + i * stride;
    const int value = std::min(7, std::max(-8, static_cast<int>(saturated<std::int8_t>(from[i])))) & 15;
    std::uint8_t& byte = bytes[at / 2];
    byte = static_cast<std::uint8_t>(at % 2 == 0 ? (byte & 0xf0) | value : (byte & 0x0f) | (value << 4));
  }
}

template <typename To>
void load_any(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, To* to) {
  switch (view.element) {
    case Element::kFloat32:
      return load_as<float>(view, offset, stride, length, to);
    case Element::kFloat16:
      return load_as<Half>(view, offset, stride, length, to);
    case Element::kBfloat16:
      return load_as<Brain>(view, offset, stride, length, to);
    case Element::kFloat64:
      return load_as<double>(view, offset, stride, length, to);
    case Element::kInt8:
      return load_as<std::int8_t>(view, offset, stride, length, to);
    case Element::kUint8:
      return load_as<std::uint8_t>(view, offset, stride, length, to);
    case Element::kInt16:
      return load_as<std::int16_t>(view, offset, stride, length, to);
    case Element::kInt32:
      return load_as<std::int32_t>(view, offset, stride, length, to);
    case Element::kInt64:
      return load_as<std::int64_t>(view, offset, stride, length, to);
    case Element::kBool:
      return load_as<Truth>(view, offset, stride, length, to);
    case Element::kInt4:
      return load_int4(view, offset, stride, length, to);
  }
}

template <typename From>
void store_any(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const From* from) {
  switch (view.element) {
    case Element::kFloat32:
      return store_as<float>(view, offset, stride, length, from);
    case Element::kFloat16:
      return store_as<Half>(view, offset, stride, length, from);
    case Element::kBfloat16:
      return store_as<Brain>(view, offset, stride, length, from);
    case Element::kFloat64:
      return store_as<double>(view, offset, stride, length, from);
    case Element::kInt8:
      return store_as<std::int8_t>(view, offset, stride, length, from);
    case Element::kUint8:
      return store_as<std::uint8_t>(view, offset, stride, length, from);
    case Element::kInt16:
      return store_as<std::int16_t>(view, offset, stride, length, from);
    case Element::kInt32:
      return store_as<std::int32_t>(view, offset, stride, length, from);
    case Element::kInt64:
      return store_as<std::int64_t>(view, offset, stride, length, from);
    case Element::kBool:
      return store_as<Truth>(view, offset, stride, length, from);
    case Element::kInt4:
      return store_int4(view, offset, stride, length, from);
  }
}

}  // namespace

void load_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, float* to) {
  load_any(view, offset, stride, length, to);
}
void load_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, double* to) {
  load_any(view, offset, stride, length, to);
}
void load_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, std::int64_t* to) {
  load_any(view, offset, stride, length, to);
}
void store_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const float* from) {
  store_any(view, offset, stride, length, from);
}
void store_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length, const double* from) {
  store_any(view, offset, stride, length, from);
}
void store_run(const View& view, std::int64_t offset, std::int64_t stride, std::int64_t length,
               const std::int64_t* from) {
  store_any(view, offset, stride, length, from);
}

float rounded(float value, Element element) {
  if (element == Element::kFloat16) return tern::fp16_to_float(tern::float_to_fp16(value));
  if (element == Element::kBfloat16) return tern::bf16_to_float(tern::float_to_bf16(value));
  return value;
}

}  // namespace fake::numerics
