#include "backends/opencl/rows.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {
namespace {

// The struct WriteSizes of cl/kv_write.cl.
struct Sizes {
  std::int64_t rows, heads, width, blocks, block_size;
  std::int64_t from[3], to[4];
};

// k into k_cache and v into v_cache: a launch each.
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

std::vector<Function> functions(const PlanDesc& desc) {
  std::vector<Function> list;
  for (const auto& [from, to] : kPairs) {
    if (!desc.present(from)) continue;
    const bool rounds = is_small_float(desc.arg(from).dtype);
    Defines defines;
    defines.set("W", row_tile(desc.device).width).set("GROUP", 1);
    defines.set("COPIED_BYTES", rounds ? 0 : static_cast<std::int64_t>(tern_plugin_dtype_bytes(desc.arg(from).dtype)));
    if (rounds) defines.tensor("from", desc, from).tensor("to", desc, to);
    list.push_back({"kv_write", "kv_write", defines.text()});
  }
  return list;
}

void run(const Launch& launch) {
  std::size_t next = 0;
  for (const auto& [from, to] : kPairs) {
    const TensorView &rows = launch[from], &cache = launch[to];
    if (!rows.present()) continue;
    Sizes sizes{};
    sizes.rows = rows.dim(0);
    sizes.heads = rows.dim(1);
    sizes.width = rows.dim(2);
    sizes.blocks = cache.dim(0);
    sizes.block_size = cache.dim(1);
    take_strides(rows, sizes.from);
    take_strides(cache, sizes.to);
    const std::int64_t chunks = parts_of(sizes.width, row_tile(launch.device()).width);
    launch.call(next++)
        .arg(rows)
        .arg(launch[TERN_KV_WRITE_SLOTS])
        .arg(cache)
        .arg(sizes)
        .run(sizes.rows * sizes.heads * chunks, launch.device().cpu ? 4 : 64);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_KV_WRITE, "kv_write", supports, nullptr, functions, run}};

}  // namespace

KernelList kv_write_kernels() { return kKernels; }

}  // namespace tern::opencl
