#include "engine/cache_dtype.h"

#include <algorithm>
#include <array>

#include "accel/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "nn/cache_spec.h"
#include "ops/attention_paged.h"
#include "ops/check.h"

namespace tern::engine {
namespace {

// A step over a small cache with such heads: blocks of the size that the device prefers.
std::array<accel::OpDesc, 2> calls_over(const accel::Device& device, const nn::CacheSpec& spec, tern_dtype dtype) {
  const tern_dtype activations = device.info().activation_dtype;
  const std::int64_t block = std::max(1, device.info().preferred_kv_block), heads = spec.kv_heads;
  const TensorDesc keys = nn::cache_desc(dtype, 2, block, heads, spec.key_dim);
  const TensorDesc values = nn::cache_desc(dtype, 2, block, heads, spec.value_dim);
  const TensorDesc scales = nn::scale_desc(2, block, heads);
  accel::OpDesc write;
  write.op = TERN_OP_KV_WRITE;
  write.args.assign(TERN_KV_WRITE_NUM_ARGS, absent_desc());
  write.args[TERN_KV_WRITE_K] = make_desc(activations, {1, heads, spec.key_dim});
  write.args[TERN_KV_WRITE_V] = make_desc(activations, {1, heads, spec.value_dim});
  write.args[TERN_KV_WRITE_SLOTS] = make_desc(TERN_I32, {1});
  write.args[TERN_KV_WRITE_K_CACHE] = keys;
  write.args[TERN_KV_WRITE_V_CACHE] = values;
  write.args[TERN_KV_WRITE_K_SCALE] = write.args[TERN_KV_WRITE_V_SCALE] = scales;
  accel::OpDesc read;
  read.op = TERN_OP_ATTENTION_PAGED;
  read.args.assign(TERN_ATTENTION_PAGED_NUM_ARGS, absent_desc());
  read.args[TERN_ATTENTION_PAGED_Q] = make_desc(activations, {1, heads, spec.key_dim});
  read.args[TERN_ATTENTION_PAGED_K_CACHE] = keys;
  read.args[TERN_ATTENTION_PAGED_V_CACHE] = values;
  read.args[TERN_ATTENTION_PAGED_BLOCK_TABLE] = make_desc(TERN_I32, {1, 1});
  read.args[TERN_ATTENTION_PAGED_CU_SEQLENS_Q] = make_desc(TERN_I32, {2});
  read.args[TERN_ATTENTION_PAGED_KV_LENS] = make_desc(TERN_I32, {1});
  read.args[TERN_ATTENTION_PAGED_K_SCALE] = read.args[TERN_ATTENTION_PAGED_V_SCALE] = scales;
  read.args[TERN_ATTENTION_PAGED_OUT] = make_desc(activations, {1, heads, spec.value_dim});
  tern_attention_paged_attrs attrs{};
  attrs.scale = 1.0F;
  attrs.causal = 1;
  attrs.max_seqlen_q = 1;
  attrs.max_seqlen_k = static_cast<std::int32_t>(block);
  read.attrs = ops::pack_attrs(attrs);
  return {write, read};
}

}  // namespace

std::optional<tern_dtype> cache_dtype_from_name(std::string_view name) {
  if (name == "fp8" || name == "fp8_e4m3") return TERN_F8_E4M3;
  if (name == "int8") return TERN_I8;
  return dtype_from_name(name);
}

std::string_view cache_dtype_name(tern_dtype dtype) {
  if (dtype == TERN_F8_E4M3) return "fp8";
  return dtype == TERN_I8 ? "int8" : dtype_info(dtype).torch;
}

Status check_cache_dtype(const accel::Device& device, const models::ModelConfig& config, tern_dtype dtype) {
  if (!ops::has_scales(dtype)) return Unit{};
  const std::vector<nn::CacheSpec> specs = models::find_architecture(config.architecture)->cache_specs(config);
  const nn::CacheSpec* keeps = nullptr;
  for (const nn::CacheSpec& spec : specs) {
    if (spec.kind == nn::CacheKind::latent) {
      return usage_error(cat("--kv_cache_dtype ", cache_dtype_name(dtype), " is not for ", config.architecture,
                             ", whose layer ", spec.module, " keeps a latent vector of each token, no keys and values"),
                         "leave the flag out");
    }
    if (spec.kind == nn::CacheKind::full || spec.kind == nn::CacheKind::window) keeps = &spec;
  }
  if (keeps == nullptr) {
    return usage_error(cat("--kv_cache_dtype ", cache_dtype_name(dtype), " is not for ", config.architecture,
                           ", whose layers keep states and no keys and values"),
                       "leave the flag out");
  }
  for (const accel::OpDesc& call : calls_over(device, *keeps, dtype)) {
    if (accel::supports(device, call).native) continue;
    return usage_error(cat("--kv_cache_dtype is ", cache_dtype_name(dtype), ", and ", device.info().name,
                           " has no attention over a cache in 8 bits"),
                       "leave the flag out, or give bfloat16");
  }
  return Unit{};
}

}  // namespace tern::engine
