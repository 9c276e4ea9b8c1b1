// Between f32, bf16 and f16 by vector; between the others element by element through double or 64-bit integers.
#include <cmath>
#include <cstring>
#include <limits>
#include <variant>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/small_float.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {
namespace {

using Number = std::variant<double, std::int64_t, std::uint64_t>;

bool supports(const PlanDesc& desc, std::string& reason) {
  const bool adds = (desc.op.accumulate >> TERN_CAST_COPY_Y & 1U) != 0;
  return Check(desc, reason)
      .same_shape({TERN_CAST_COPY_X, TERN_CAST_COPY_Y})
      .that(!adds || dtype_info(desc.arg(TERN_CAST_COPY_Y).dtype).floating, "only floating outputs accumulate")
      .ok();
}

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

Number load(tern_dtype dtype, const std::byte* at) {
  switch (dtype) {
    case TERN_F64:
      return read<double>(at);
    case TERN_I8:
      return std::int64_t{read<std::int8_t>(at)};
    case TERN_U8:
      return std::int64_t{read<std::uint8_t>(at)};
    case TERN_I16:
      return std::int64_t{read<std::int16_t>(at)};
    case TERN_U16:
      return std::int64_t{read<std::uint16_t>(at)};
    case TERN_I32:
      return std::int64_t{read<std::int32_t>(at)};
    case TERN_U32:
      return std::int64_t{read<std::uint32_t>(at)};
    case TERN_I64:
      return read<std::int64_t>(at);
    case TERN_U64:
      return read<std::uint64_t>(at);
    case TERN_BOOL:
      return std::int64_t{read<std::uint8_t>(at) != 0 ? 1 : 0};
    case TERN_F32:
      return double{read<float>(at)};
    case TERN_F8_E4M3:
    case TERN_F8_E5M2:
      return decode_small_float(small_float_format(dtype), read<std::uint8_t>(at));
    default:
      return decode_small_float(small_float_format(dtype), read<std::uint16_t>(at));
  }
}

// Towards zero, past the ends to the ends, NaN to 0.
template <typename T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  constexpr auto low = std::numeric_limits<T>::min();
  constexpr auto high = std::numeric_limits<T>::max();
  if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return high;
  if (value <= static_cast<double>(low)) return low;
  return static_cast<T>(value);
}

template <typename T>
void store_integer(std::byte* at, const Number& value) {
  if (const auto* real = std::get_if<double>(&value)) return write(at, saturate<T>(*real));
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return write(at, static_cast<T>(*whole));
  write(at, static_cast<T>(std::get<std::uint64_t>(value)));
}

void store(tern_dtype dtype, std::byte* at, const Number& value, bool accumulate) {
  const auto real = [&] { return std::visit([](auto v) { return static_cast<double>(v); }, value); };
  const auto held = [&] { return accumulate ? std::get<double>(load(dtype, at)) : 0.0; };
  switch (dtype) {
    case TERN_F64:
      return write(at, accumulate ? held() + real() : real());
    case TERN_F32:
      return write(at, static_cast<float>(accumulate ? held() + real() : real()));
    case TERN_I8:
      return store_integer<std::int8_t>(at, value);
    case TERN_U8:
      return store_integer<std::uint8_t>(at, value);
    case TERN_I16:
      return store_integer<std::int16_t>(at, value);
    case TERN_U16:
      return store_integer<std::uint16_t>(at, value);
    case TERN_I32:
      return store_integer<std::int32_t>(at, value);
    case TERN_U32:
      return store_integer<std::uint32_t>(at, value);
    case TERN_I64:
      return store_integer<std::int64_t>(at, value);
    case TERN_U64:
      return store_integer<std::uint64_t>(at, value);
    case TERN_BOOL:
      return write(at, static_cast<std::uint8_t>(std::visit([](auto v) { return v != 0; }, value) ? 1 : 0));
    default: {
      const auto bits = encode_small_float(small_float_format(dtype), accumulate ? held() + real() : real());
      if (dtype_bytes(dtype) == 1) return write(at, static_cast<std::uint8_t>(bits));
      return write(at, bits);
    }
  }
}

void run_floats(const KernelArgs& args) {
  const TensorView &x = args[TERN_CAST_COPY_X], &y = args[TERN_CAST_COPY_Y];
  const bool accumulate = args.accumulates(TERN_CAST_COPY_Y);
  const auto walk = make_walk<2>({&y, &x});
  const TileIo io(args);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer values;
    const float* px = io.load(x, at[1], walk.inner_stride[1], n, values.data());
    if (px != values.data()) std::copy(px, px + n, values.data());
    io.store(y, at[0], walk.inner_stride[0], n, accumulate, values.data());
  });
}

// Elements of one size, bits kept.
void run_copy(const KernelArgs& args) {
  const TensorView &x = args[TERN_CAST_COPY_X], &y = args[TERN_CAST_COPY_Y];
  const auto size = static_cast<std::int64_t>(dtype_bytes(x.dtype()));
  const auto walk = make_walk<2>({&y, &x});
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    auto* to = y.data<std::byte>() + at[0] * size;
    const auto* from = x.data<const std::byte>() + at[1] * size;
    if (walk.inner_stride[0] == 1 && walk.inner_stride[1] == 1) {
      std::memmove(to, from, static_cast<std::size_t>(n * size));
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::memmove(to + i * walk.inner_stride[0] * size, from + i * walk.inner_stride[1] * size,
                   static_cast<std::size_t>(size));
    }
  });
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_CAST_COPY_X], &y = args[TERN_CAST_COPY_Y];
  const bool accumulate = args.accumulates(TERN_CAST_COPY_Y);
  if (x.dtype() == y.dtype() && !accumulate && x.dtype() != TERN_BOOL) return run_copy(args);
  if (is_small_float(x.dtype()) && is_small_float(y.dtype())) return run_floats(args);
  const auto walk = make_walk<2>({&y, &x});
  const std::int64_t to_step = walk.inner_stride[0] * dtype_bytes(y.dtype());
  const std::int64_t from_step = walk.inner_stride[1] * dtype_bytes(x.dtype());
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    auto* to = y.data<std::byte>() + at[0] * dtype_bytes(y.dtype());
    const auto* from = x.data<const std::byte>() + at[1] * dtype_bytes(x.dtype());
    for (std::int64_t i = 0; i < n; ++i) {
      store(y.dtype(), to + i * to_step, load(x.dtype(), from + i * from_step), accumulate);
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAST_COPY, "cast_copy", supports, nullptr, nullptr, run}};

}  // namespace

KernelList cast_copy_kernels() { return kKernels; }

}  // namespace tern::cpu
