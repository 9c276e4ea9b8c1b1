#include "ops/kv_write.h"

#include "base/dtype.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

// Floats are rounded, everything else is copied.
std::string check_dtypes(std::string_view name, const TensorDesc& rows, const TensorDesc& cache) {
  const bool floats = dtype_info(rows.dtype).floating && dtype_info(cache.dtype).floating;
  return require(!is_present(rows) || floats || rows.dtype == cache.dtype,
                 cat(name, ": expected ", dtype_name(rows.dtype), " as the rows are, found ", dtype_name(cache.dtype)));
}

std::string check(Args args, AttrBytes) {
  const TensorDesc &v = args[TERN_KV_WRITE_V], &v_cache = args[TERN_KV_WRITE_V_CACHE];
  return first_problem(
      require(is_present(v) == is_present(v_cache), "v_cache: expected one if v is given, and none otherwise"),
      check_dtypes("k_cache", args[TERN_KV_WRITE_K], args[TERN_KV_WRITE_K_CACHE]), check_dtypes("v_cache", v, v_cache));
}

// Of the caches, the rows that are written.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  if (arg == TERN_KV_WRITE_K_CACHE) return whole_bytes(call, TERN_KV_WRITE_K);
  if (arg == TERN_KV_WRITE_V_CACHE) return whole_bytes(call, TERN_KV_WRITE_V);
  return each_argument_once(call, arg, lengths);
}

Indices indices(const CallDesc& call) {
  const TensorDesc& cache = call[TERN_KV_WRITE_K_CACHE];
  return {.ranges = {{TERN_KV_WRITE_SLOTS, 0, cache.shape[0] * cache.shape[1] - 1}}};
}

}  // namespace

KvCache kv_write(Emitter& emitter, Value k, Value v, Value slots, const KvCache& cache, std::uint32_t needs) {
  CallBuilder builder(TERN_OP_KV_WRITE, needs);
  builder.in(TERN_KV_WRITE_K, k)
      .in(TERN_KV_WRITE_V, v)
      .in(TERN_KV_WRITE_SLOTS, slots)
      .state(emitter, TERN_KV_WRITE_K_CACHE, cache.k);
  if (cache.v.present()) builder.state(emitter, TERN_KV_WRITE_V_CACHE, cache.v);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_KV_WRITE_K_CACHE], out[TERN_KV_WRITE_V_CACHE]};
}

const OpRules kv_write_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::kv_write,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kInfer | kServe,
};

}  // namespace tern::ops
