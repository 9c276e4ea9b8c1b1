#include "backends/opencl/rows.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {
namespace {

// The struct WriteSizes of cl/kv_write.cl.
struct Sizes {
  std::int64_t rows, heads, width, blocks, block_size;
  std::int64_t from[3], to[4], scale[3];
};

// k into k_cache and v into v_cache: a launch each.
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

bool supports(const PlanDesc& desc, std::string& reason) {
  Check check(desc, reason);
  check.that(desc.present(TERN_KV_WRITE_V) == desc.present(TERN_KV_WRITE_V_CACHE), "v comes with v_cache");
  check.dtype(TERN_KV_WRITE_SLOTS, TERN_I32).dim(TERN_KV_WRITE_SLOTS, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
  const auto& first = desc.arg(TERN_KV_WRITE_K_CACHE);
  for (const Pair& pair : kPairs) {
    const auto& [rows, cache, scale] = pair;
    if (!desc.present(rows)) continue;
    const bool codes = has_codes(desc.op, pair);
    check.rank(rows, 3).rank(cache, 4);
    if (!is_small_float(desc.arg(rows).dtype)) {
      check.dtype(cache, desc.arg(rows).dtype);
    } else if (!codes) {
      check.floats({cache});
    }
    check.that(desc.present(scale) == codes, "scales come with floats in a cache of 8 bits");
    check.that(!codes || desc.arg(cache).dtype != TERN_I8 || desc.device.exact_division,
               "this device's driver doesn't round quotients to the nearest, as codes of i8 are");
    check.dtype(scale, TERN_F32).rank(scale, 3);
    for (int d = 0; d < 3; ++d) check.dim(scale, d, desc.arg(cache).shape[d]);
    check.dim(rows, 0, desc.arg(TERN_KV_WRITE_K).shape[0]);
    check.dim(cache, 2, desc.arg(rows).shape[1]).dim(cache, 3, desc.arg(rows).shape[2]);
    check.dim(cache, 0, first.shape[0]).dim(cache, 1, first.shape[1]);
  }
  return check.ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  std::vector<Function> list;
  for (const Pair& pair : kPairs) {
    const auto& [from, to, scale] = pair;
    if (!desc.present(from)) continue;
    const bool rounds = is_small_float(desc.arg(from).dtype);
    Defines defines;
    defines.set("W", row_tile(desc.device).width).set("GROUP", 1);
    defines.set("COPIED_BYTES", rounds ? 0 : static_cast<std::int64_t>(tern_plugin_dtype_bytes(desc.arg(from).dtype)));
    if (rounds) defines.tensor("from", desc, from).tensor("to", desc, to);
    const bool codes = has_codes(desc.op, pair);
    defines.set("CODES", codes ? 1 : 0);
    list.push_back({"kv_write", codes ? "kv_write_codes" : "kv_write", defines.text()});
  }
  return list;
}

void run(const Launch& launch) {
  std::size_t next = 0;
  for (const Pair& pair : kPairs) {
    const auto& [from, to, scale] = pair;
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
    take_strides(launch[scale], sizes.scale);
    if (has_codes(launch.planned(), pair)) {
      Call call = launch.call(next++);
      call.arg(rows).arg(launch[TERN_KV_WRITE_SLOTS]).arg(cache).arg(launch[scale]).arg(sizes);
      call.run(sizes.rows * sizes.heads, launch.device().cpu ? 4 : 64);
      continue;
    }
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
