#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.that(desc.present(TERN_KV_WRITE_V) == desc.present(TERN_KV_WRITE_V_CACHE), "v comes with v_cache");
  check.dtype(TERN_KV_WRITE_SLOTS, TERN_I32).dim(TERN_KV_WRITE_SLOTS, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
  for (const auto& [rows, cache] :
       {std::pair{TERN_KV_WRITE_K, TERN_KV_WRITE_K_CACHE}, std::pair{TERN_KV_WRITE_V, TERN_KV_WRITE_V_CACHE}}) {
    check.rank(rows, 3).rank(cache, 4);
    if (is_small_float(desc.arg(rows).dtype)) {
      check.floats({cache});
    } else {
      check.dtype(cache, desc.arg(rows).dtype);
    }
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

void write_row(const TileIo& io, const TensorView& from, std::int64_t row, const TensorView& cache, std::int64_t slot) {
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
  const TileIo io(args);
  const std::int64_t width = k.dim(1) * (k.dim(2) + (v.present() ? v.dim(2) : 0));
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, width));
  args.pool->parallel_for(k.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t slot = slots.data<const std::int32_t>()[row * slots.stride(0)];
      require_index(slot, k_cache.dim(0) * k_cache.dim(1), "kv_write: slots");
      if (slot < k_cache.dim(1)) continue;  // nobody's block, of which several rows may share a slot
      write_row(io, k, row, k_cache, slot);
      if (v.present()) write_row(io, v, row, v_cache, slot);
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_KV_WRITE, "kv_write", supports, nullptr, nullptr, run}};

}  // namespace

KernelList kv_write_kernels() { return kKernels; }

}  // namespace tern::cpu
