#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {
namespace {

bool is_code(tern_dtype dtype) { return dtype == TERN_I8 || dtype == TERN_F8_E4M3; }

// Rows of floats in a cache of 8 bits have scales beside, nothing else has.
void check_scale(const PlanDesc& desc, int rows, int cache, int scale, Check& check) {
  const auto& of = desc.arg(cache);
  const bool has_codes = desc.present(rows) && is_small_float(desc.arg(rows).dtype) && is_code(of.dtype);
  check.that(desc.present(scale) == has_codes, "scales come with floats in a cache of 8 bits");
  check.dtype(scale, TERN_F32).rank(scale, 3);
  for (int d = 0; d < 3; ++d) check.dim(scale, d, of.shape[d]);
  if (!has_codes && is_small_float(desc.arg(rows).dtype)) check.floats({cache});
}

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.that(desc.present(TERN_KV_WRITE_V) == desc.present(TERN_KV_WRITE_V_CACHE), "v comes with v_cache");
  check.dtype(TERN_KV_WRITE_SLOTS, TERN_I32).dim(TERN_KV_WRITE_SLOTS, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
  for (const auto& [rows, cache] :
       {std::pair{TERN_KV_WRITE_K, TERN_KV_WRITE_K_CACHE}, std::pair{TERN_KV_WRITE_V, TERN_KV_WRITE_V_CACHE}}) {
    check.rank(rows, 3).rank(cache, 4);
    if (!is_small_float(desc.arg(rows).dtype)) check.dtype(cache, desc.arg(rows).dtype);
    check_scale(desc, rows, cache, rows == TERN_KV_WRITE_K ? TERN_KV_WRITE_K_SCALE : TERN_KV_WRITE_V_SCALE, check);
    check.dim(rows, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
    check.dim(cache, 2, desc.arg(rows).shape[1]).dim(cache, 3, desc.arg(rows).shape[2]);
    check.dim(cache, 0, desc.arg(TERN_KV_WRITE_K_CACHE).shape[0])
        .dim(cache, 1, desc.arg(TERN_KV_WRITE_K_CACHE).shape[1]);
  }
  return check.ok();
}

void copy_row(const TensorView& from, std::int64_t row, const TensorView& cache, std::int64_t block,
              std::int64_t offset) {
  const std::int64_t size = dtype_bytes(from.dtype());
  for (std::int64_t head = 0; head < from.dim(1); ++head) {
    for (std::int64_t i = 0; i < from.dim(2); ++i) {
      const std::int64_t at = row * from.stride(0) + head * from.stride(1) + i * from.stride(2);
      const std::int64_t to =
          block * cache.stride(0) + offset * cache.stride(1) + head * cache.stride(2) + i * cache.stride(3);
      std::memcpy(cache.data<std::byte>() + to * size, from.data<const std::byte>() + at * size,
                  static_cast<std::size_t>(size));
    }
  }
}

// What a row's codes are times (ops/kv_write.h).
float scale_of(tern_dtype dtype, float largest) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  if (dtype == TERN_I8) return std::max(largest / 127.0F, kLeast);
  if (largest == 0) return kLeast;
  int exponent = 0;
  const float fraction = std::frexp(largest, &exponent);  // 448 = 0.875 * 2^9
  return std::max(std::ldexp(1.0F, exponent - (fraction <= 0.875F ? 9 : 8)), kLeast);
}

// Rows in 8 bits: where they lie, and their scales.
struct CodedCache {
  const RowKernels& kernels;
  const TensorView& cache;
  const TensorView& scales;
};

// fn(values, first, n) for the tiles of a row of a head.
template <typename Fn>
void for_tiles(const TileIo& io, const TensorView& from, std::int64_t row, std::int64_t head, const Fn& fn) {
  alignas(64) TileBuffer buffer;
  for (std::int64_t first = 0; first < from.dim(2); first += kTile) {
    const std::int64_t n = std::min(kTile, from.dim(2) - first);
    const std::int64_t at = row * from.stride(0) + head * from.stride(1) + first * from.stride(2);
    fn(io.load(from, at, from.stride(2), n, buffer.data()), first, n);
  }
}

void put_codes(const CodedCache& to, std::int64_t at, const float* values, float scale, std::int64_t n) {
  const std::int64_t stride = to.cache.stride(3);
  auto* data = to.cache.data<std::byte>() + at;
  if (stride == 1 && std::isfinite(scale)) return to.kernels.encode(to.cache.dtype(), values, scale, n, data);
  std::array<std::byte, kTile> codes{};  // of a row that isn't finite: 0
  if (std::isfinite(scale)) to.kernels.encode(to.cache.dtype(), values, scale, n, codes.data());
  for (std::int64_t i = 0; i < n; ++i) data[i * stride] = codes[static_cast<std::size_t>(i)];
}

void write_coded_row(const TileIo& io, const TensorView& from, std::int64_t row, const CodedCache& to,
                     std::int64_t slot) {
  const std::int64_t block = slot / to.cache.dim(1), offset = slot % to.cache.dim(1);
  for (std::int64_t head = 0; head < from.dim(1); ++head) {
    float largest = 0;
    bool finite = true;
    for_tiles(io, from, row, head, [&](const float* values, std::int64_t, std::int64_t n) {
      largest = std::max(largest, to.kernels.largest(values, n));
      finite = finite && to.kernels.finite(values, n);
    });
    const float scale = finite ? scale_of(to.cache.dtype(), largest) : std::numeric_limits<float>::quiet_NaN();
    to.scales.data<float>()[block * to.scales.stride(0) + offset * to.scales.stride(1) + head * to.scales.stride(2)] =
        scale;
    const std::int64_t at = block * to.cache.stride(0) + offset * to.cache.stride(1) + head * to.cache.stride(2);
    for_tiles(io, from, row, head, [&](const float* values, std::int64_t first, std::int64_t n) {
      put_codes(to, at + first * to.cache.stride(3), values, scale, n);
    });
  }
}

void write_row(const TileIo& io, const TensorView& from, std::int64_t row, const CodedCache& to, std::int64_t slot) {
  if (to.scales.present()) return write_coded_row(io, from, row, to, slot);
  const TensorView& cache = to.cache;
  alignas(64) TileBuffer buffer;
  const std::int64_t block = slot / cache.dim(1), offset = slot % cache.dim(1);
  if (!is_small_float(from.dtype())) return copy_row(from, row, cache, block, offset);
  for (std::int64_t head = 0; head < from.dim(1); ++head) {
    for (std::int64_t first = 0; first < from.dim(2); first += kTile) {
      const std::int64_t n = std::min(kTile, from.dim(2) - first);
      const std::int64_t at = row * from.stride(0) + head * from.stride(1) + first * from.stride(2);
      const float* values = io.load(from, at, from.stride(2), n, buffer.data());
      if (values != buffer.data()) std::copy(values, values + n, buffer.data());
      const std::int64_t to =
          block * cache.stride(0) + offset * cache.stride(1) + head * cache.stride(2) + first * cache.stride(3);
      io.store(cache, to, cache.stride(3), n, false, buffer.data());
    }
  }
}

void run(const KernelArgs& args) {
  const TensorView &k = args[TERN_KV_WRITE_K], &v = args[TERN_KV_WRITE_V], &slots = args[TERN_KV_WRITE_SLOTS];
  const TensorView &k_cache = args[TERN_KV_WRITE_K_CACHE], &v_cache = args[TERN_KV_WRITE_V_CACHE];
  const RowKernels& kernels = row_kernels(args.target);
  const TileIo io(args);
  const std::int64_t width = k.dim(1) * (k.dim(2) + (v.present() ? v.dim(2) : 0));
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, width));
  args.pool->parallel_for(k.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t slot = slots.data<const std::int32_t>()[row * slots.stride(0)];
      require_index(slot, k_cache.dim(0) * k_cache.dim(1), "kv_write: slots");
      if (slot < k_cache.dim(1)) continue;  // nobody's block, of which several rows may share a slot
      write_row(io, k, row, {kernels, k_cache, args[TERN_KV_WRITE_K_SCALE]}, slot);
      if (v.present()) write_row(io, v, row, {kernels, v_cache, args[TERN_KV_WRITE_V_SCALE]}, slot);
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_KV_WRITE, "kv_write", supports, nullptr, nullptr, run}};

}  // namespace

KernelList kv_write_kernels() { return kKernels; }

}  // namespace tern::cpu
