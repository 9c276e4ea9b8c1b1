#include "ops/kv_write.h"

#include "base/dtype.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

// Whether rows of floats become codes with scales.
bool has_codes(const TensorDesc& rows, const TensorDesc& cache) {
  const bool wide = dtype_info(rows.dtype).floating && dtype_bytes(rows.dtype) > 1;
  return is_present(rows) && wide && has_scales(cache.dtype);
}

// Floats are rounded, everything else is copied.
std::string check_dtypes(std::string_view name, const TensorDesc& rows, const TensorDesc& cache) {
  const bool floats = dtype_info(rows.dtype).floating && dtype_info(cache.dtype).floating;
  return require(!is_present(rows) || floats || has_codes(rows, cache) || rows.dtype == cache.dtype,
                 cat(name, ": expected ", dtype_name(rows.dtype), " as the rows are, found ", dtype_name(cache.dtype)));
}

std::string check_scale(std::string_view name, const TensorDesc& scale, bool is_needed) {
  return require(is_present(scale) == is_needed,
                 cat(name, ": expected one if floats are kept in 8 bits, and none otherwise"));
}

std::string check(Args args, AttrBytes) {
  const TensorDesc &v = args[TERN_KV_WRITE_V], &v_cache = args[TERN_KV_WRITE_V_CACHE];
  return first_problem(
      require(is_present(v) == is_present(v_cache), "v_cache: expected one if v is given, and none otherwise"),
      check_dtypes("k_cache", args[TERN_KV_WRITE_K], args[TERN_KV_WRITE_K_CACHE]), check_dtypes("v_cache", v, v_cache),
      check_scale("k_scale", args[TERN_KV_WRITE_K_SCALE],
                  has_codes(args[TERN_KV_WRITE_K], args[TERN_KV_WRITE_K_CACHE])),
      check_scale("v_scale", args[TERN_KV_WRITE_V_SCALE], has_codes(v, v_cache)));
}

// Of the caches, the rows that are written.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  const auto written = [&](int rows) {
    const TensorDesc& of = call[rows];
    if (!is_present(of) || !is_present(call[arg])) return 0.0;
    const double elements = whole_bytes(call, rows) / dtype_bytes(of.dtype);
    const bool is_scale = arg == TERN_KV_WRITE_K_SCALE || arg == TERN_KV_WRITE_V_SCALE;
    return elements * dtype_bytes(call[arg].dtype) / (is_scale ? static_cast<double>(of.shape[2]) : 1.0);
  };
  if (arg == TERN_KV_WRITE_K_CACHE || arg == TERN_KV_WRITE_K_SCALE) return written(TERN_KV_WRITE_K);
  if (arg == TERN_KV_WRITE_V_CACHE || arg == TERN_KV_WRITE_V_SCALE) return written(TERN_KV_WRITE_V);
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
  if (cache.k_scale.present()) builder.state(emitter, TERN_KV_WRITE_K_SCALE, cache.k_scale);
  if (cache.v_scale.present()) builder.state(emitter, TERN_KV_WRITE_V_SCALE, cache.v_scale);
  const std::vector<Value> out = builder.emit(emitter);
  return {out[TERN_KV_WRITE_K_CACHE], out[TERN_KV_WRITE_V_CACHE], out[TERN_KV_WRITE_K_SCALE],
          out[TERN_KV_WRITE_V_SCALE]};
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
