#include "backends/cpu/walk.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/tile_math.h"
#include "base/dtype.h"
#include "base/half.h"

namespace tern::cpu {
namespace {

// Imported memory may lie anywhere: scalars are copied, never dereferenced.
template <typename T>
T read(const TensorView& view, std::int64_t at) {
  T value;
  std::memcpy(&value, view.data<const std::byte>() + at * static_cast<std::int64_t>(sizeof value), sizeof value);
  return value;
}

template <typename T>
void write(const TensorView& view, std::int64_t at, T value) {
  std::memcpy(view.data<std::byte>() + at * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

float get(const TensorView& view, std::int64_t at) {
  switch (view.dtype()) {
    case TERN_F32:
      return read<float>(view, at);
    case TERN_BF16:
      return bf16_to_float(read<std::uint16_t>(view, at));
    default:
      return fp16_to_float(read<std::uint16_t>(view, at));
  }
}

void put(const TensorView& view, std::int64_t at, float value) {
  switch (view.dtype()) {
    case TERN_F32:
      write(view, at, value);
      break;
    case TERN_BF16:
      write(view, at, float_to_bf16(value));
      break;
    default:
      write(view, at, float_to_fp16(value));
      break;
  }
}

std::byte* address(const TensorView& view, std::int64_t at) {
  return view.data<std::byte>() + at * dtype_bytes(view.dtype());
}

}  // namespace

const float* TileIo::load(const TensorView& view, std::int64_t at, std::int64_t stride, std::int64_t n,
                          float* buffer) const {
  if (stride == 1 && view.dtype() == TERN_F32) return view.data<const float>() + at;
  if (stride == 1) {
    kernels_.widen(view.dtype(), address(view, at), buffer, n);
  } else if (stride == 0) {
    std::fill(buffer, buffer + n, get(view, at));
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = get(view, at + i * stride);
  }
  return buffer;
}

float* TileIo::place(const TensorView& view, std::int64_t at, std::int64_t stride, bool accumulate, float* buffer) {
  return stride == 1 && view.dtype() == TERN_F32 && !accumulate ? view.data<float>() + at : buffer;
}

void TileIo::store(const TensorView& view, std::int64_t at, std::int64_t stride, std::int64_t n, bool accumulate,
                   float* values) const {
  if (values == place(view, at, stride, accumulate, nullptr)) return;
  for (std::int64_t done = 0; done < n; done += kTile) {
    const std::int64_t count = std::min(kTile, n - done);
    float* part = values + done;
    const std::int64_t first = at + done * stride;
    if (accumulate) {
      alignas(64) TileBuffer old;
      const float* held = load(view, first, stride, count, old.data());
      math_.add(held, part, static_cast<std::size_t>(count), part);
    }
    if (stride == 1) {
      kernels_.narrow(view.dtype(), part, address(view, first), count);
    } else {
      for (std::int64_t i = 0; i < count; ++i) put(view, first + i * stride, part[i]);
    }
  }
}

}  // namespace tern::cpu
