#include <algorithm>

#include "backends/cuda/rows.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

// The structs KvSide and KvSizes of cu/kv_write.cu.
struct Side {
  DeviceTensor from, to;
  std::int64_t heads = 0, width = 0, chunks = 0;
  std::int64_t from_stride[3] = {}, to_stride[4] = {};
  std::int64_t bytes = 0;
};
struct Sizes {
  std::int64_t rows, blocks, block_size, slots;
};

// k into k_cache and v into v_cache.
struct Pair {
  int from;
  int to;
};
constexpr Pair kPairs[] = {{TERN_KV_WRITE_K, TERN_KV_WRITE_K_CACHE}, {TERN_KV_WRITE_V, TERN_KV_WRITE_V_CACHE}};

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.that(desc.present(TERN_KV_WRITE_V) == desc.present(TERN_KV_WRITE_V_CACHE), "v comes with v_cache");
  check.dtype(TERN_KV_WRITE_SLOTS, TERN_I32).dim(TERN_KV_WRITE_SLOTS, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
  const auto& first = desc.arg(TERN_KV_WRITE_K_CACHE);
  for (const auto& [rows, cache] : kPairs) {
    check.rank(rows, 3).rank(cache, 4);
    if (is_small_float(desc.arg(rows).dtype)) {
      check.floats({cache});
    } else {
      check.dtype(cache, desc.arg(rows).dtype);
    }
    check.dim(rows, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
    check.dim(cache, 2, desc.arg(rows).shape[1]).dim(cache, 3, desc.arg(rows).shape[2]);
    check.dim(cache, 0, first.shape[0]).dim(cache, 1, first.shape[1]);
  }
  return check.ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"kv_write"}; }

Side side_of(const TensorView& rows, const TensorView& cache) {
  Side side;
  if (!rows.present()) return side;
  side.from = rows.plane(0);
  side.to = cache.plane(0);
  side.heads = rows.dim(1);
  side.width = rows.dim(2);
  side.chunks = std::max<std::int64_t>(1, parts_of(side.width, 8));
  take_strides(rows, side.from_stride);
  take_strides(cache, side.to_stride);
  if (!is_small_float(rows.dtype())) side.bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(rows.dtype()));
  return side;
}

void run(const Launch& launch) {
  const TensorView &k = launch[TERN_KV_WRITE_K], &k_cache = launch[TERN_KV_WRITE_K_CACHE];
  const TensorView &v = launch[TERN_KV_WRITE_V], &slots = launch[TERN_KV_WRITE_SLOTS];
  const Side first = side_of(k, k_cache), second = side_of(v, launch[TERN_KV_WRITE_V_CACHE]);
  const Sizes sizes{k.dim(0), k_cache.dim(0), k_cache.dim(1), slots.stride(0)};
  const std::int64_t units = sizes.rows * std::max(first.heads * first.chunks, second.heads * second.chunks);
  Call call = launch.call(0);
  call.arg(slots.planes[0]).arg(first).arg(second).arg(sizes);
  call.overlapped().run({parts_of(units, kPlainThreads), v.present() ? 2 : 1, 1}, {kPlainThreads, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_KV_WRITE, "kv_write", supports, nullptr, functions, run}};

}  // namespace

KernelList kv_write_kernels() { return kKernels; }

}  // namespace tern::cuda
