#include <algorithm>

#include "backends/cuda/rows.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

// The structs KvSide, CodedSide and KvSizes of cu/kv_write.cu.
struct Side {
  DeviceTensor from, to;
  std::int64_t heads = 0, width = 0, chunks = 0;
  std::int64_t from_stride[3] = {}, to_stride[4] = {};
  std::int64_t bytes = 0;
};
struct CodedSide {
  Side side;
  DeviceTensor scale;
  std::int64_t scale_stride[3] = {};
};
struct Sizes {
  std::int64_t rows, blocks, block_size, slots;
};

// k into k_cache and v into v_cache.
struct Pair {
  int from;
  int to;
  int scale;
};
constexpr Pair kPairs[] = {{TERN_KV_WRITE_K, TERN_KV_WRITE_K_CACHE, TERN_KV_WRITE_K_SCALE},
                           {TERN_KV_WRITE_V, TERN_KV_WRITE_V_CACHE, TERN_KV_WRITE_V_SCALE}};

// Whether floats go into a cache of 8 bits.
bool has_codes(const tern_op_desc& op, const Pair& pair) {
  const tern_dtype cache = op.args[pair.to].dtype;
  return is_small_float(op.args[pair.from].dtype) && (cache == TERN_I8 || cache == TERN_F8_E4M3);
}
bool has_codes(const tern_op_desc& op) { return has_codes(op, kPairs[0]); }

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.that(desc.present(TERN_KV_WRITE_V) == desc.present(TERN_KV_WRITE_V_CACHE), "v comes with v_cache");
  check.dtype(TERN_KV_WRITE_SLOTS, TERN_I32).dim(TERN_KV_WRITE_SLOTS, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
  const auto& first = desc.arg(TERN_KV_WRITE_K_CACHE);
  for (const Pair& pair : kPairs) {
    const auto& [rows, cache, scale] = pair;
    check.rank(rows, 3).rank(cache, 4);
    if (!is_small_float(desc.arg(rows).dtype)) {
      check.dtype(cache, desc.arg(rows).dtype);
    } else if (!has_codes(desc.op, pair)) {
      check.floats({cache});
    }
    if (!desc.present(rows)) continue;
    check.that(has_codes(desc.op, pair) == has_codes(desc.op), "k and v are both kept in 8 bits, or neither");
    check.that(desc.present(scale) == has_codes(desc.op), "scales come with floats in a cache of 8 bits");
    check.dtype(scale, TERN_F32).rank(scale, 3);
    for (int d = 0; d < 3; ++d) check.dim(scale, d, desc.arg(cache).shape[d]);
    check.dim(rows, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
    check.dim(cache, 2, desc.arg(rows).shape[1]).dim(cache, 3, desc.arg(rows).shape[2]);
    check.dim(cache, 0, first.shape[0]).dim(cache, 1, first.shape[1]);
  }
  return check.ok();
}

Functions functions(const PlanDesc& desc) { return {has_codes(desc.op) ? "kv_write_codes" : "kv_write"}; }

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

CodedSide coded(const Side& side, const TensorView& scale) {
  CodedSide out{side, scale.plane(0)};
  take_strides(scale, out.scale_stride);
  return out;
}

void run(const Launch& launch) {
  const TensorView &k = launch[TERN_KV_WRITE_K], &k_cache = launch[TERN_KV_WRITE_K_CACHE];
  const TensorView &v = launch[TERN_KV_WRITE_V], &slots = launch[TERN_KV_WRITE_SLOTS];
  const Side first = side_of(k, k_cache), second = side_of(v, launch[TERN_KV_WRITE_V_CACHE]);
  const Sizes sizes{k.dim(0), k_cache.dim(0), k_cache.dim(1), slots.stride(0)};
  if (has_codes(launch.planned())) {
    const std::int64_t warps = sizes.rows * std::max(first.heads, second.heads);
    Call call = launch.call(0);
    call.arg(slots.planes[0]).arg(coded(first, launch[TERN_KV_WRITE_K_SCALE]));
    call.arg(coded(second, launch[TERN_KV_WRITE_V_SCALE])).arg(sizes);
    call.overlapped().run({parts_of(32 * warps, kPlainThreads), v.present() ? 2 : 1, 1}, {kPlainThreads, 1, 1});
    return;
  }
  const std::int64_t units = sizes.rows * std::max(first.heads * first.chunks, second.heads * second.chunks);
  Call call = launch.call(0);
  call.arg(slots.planes[0]).arg(first).arg(second).arg(sizes);
  call.overlapped().run({parts_of(units, kPlainThreads), v.present() ? 2 : 1, 1}, {kPlainThreads, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_KV_WRITE, "kv_write", supports, nullptr, functions, run}};

}  // namespace

KernelList kv_write_kernels() { return kKernels; }

}  // namespace tern::cuda
