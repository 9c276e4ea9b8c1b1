// What a layer keeps of the tokens that it has seen. A model says it layer by layer; the engine makes caches from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tensor_desc.h"

namespace tern::nn {

class Context;
struct TokenInputs;

enum class CacheKind {
  full,    // keys and values of every token
  window,  // of the last `window` tokens: the layer reads no others (nor does one whose attention has such a chunk)
  latent,  // one vector a token, of which the values are a part (DeepSeek-V2's multi-head latent attention)
  state,   // of a fixed size, whatever the number of tokens (linear attention)
  shared,  // none of its own: the layer reads that of `shares_with`
};

[[nodiscard]] constexpr const char* cache_kind_name(CacheKind kind) {
  switch (kind) {
    case CacheKind::full:
      return "full";
    case CacheKind::window:
      return "window";
    case CacheKind::latent:
      return "latent";
    case CacheKind::state:
      return "state";
    case CacheKind::shared:
      return "shared";
  }
  return "";
}

// A tensor of fp32 that a layer keeps of each sequence, at its seat: [num_seats, shape...].
struct StateSpec {
  std::string name;  // "recurrent_state", after the module's
  std::vector<std::int64_t> shape;
};

// Rows of tokens that a layer's states were advanced by: [tokens, width]. Where guesses are checked they stay until the
// next step, so that the states can be advanced again by those that were right.
struct ReplaySpec {
  std::string name;  // "qkv", after the module's
  std::int64_t width = 0;
};

struct CacheSpec {
  CacheKind kind = CacheKind::full;
  std::string module;                    // the layer's attention, "model.layers.0.self_attn"
  std::int64_t kv_heads = 0;             // full, window; latent: 1
  std::int64_t key_dim = 0;              // of one head
  std::int64_t value_dim = 0;            // of one head; latent: 0, as the key has them
  std::int64_t window = 0;               // window: tokens, the newest included, or a chunk's; else 0
  std::string shares_with;               // shared: the module that writes the cache
  std::vector<StateSpec> states;         // state
  std::vector<ReplaySpec> replays = {};  // state: all that they are advanced by
  // state: adds to a graph, which has nothing else, that they are advanced by rows that a step left
  // (recurrent_state.h).
  std::function<void(Context& context, const TokenInputs& inputs)> replay = nullptr;
};

// The tensors of a module's cache, within a scope that keeps the caches of several engines apart.
[[nodiscard]] inline std::string key_cache_name(const std::string& scope, const std::string& module) {
  return scope + module + ".k_cache";
}
[[nodiscard]] inline std::string value_cache_name(const std::string& scope, const std::string& module) {
  return scope + module + ".v_cache";
}
// Where the cache is of 8 bits (ops::has_scales): what its rows' codes are times.
[[nodiscard]] inline std::string key_scale_name(const std::string& scope, const std::string& module) {
  return scope + module + ".k_scale";
}
[[nodiscard]] inline std::string value_scale_name(const std::string& scope, const std::string& module) {
  return scope + module + ".v_scale";
}
[[nodiscard]] inline std::string state_name(const std::string& scope, const std::string& module,
                                            const std::string& name) {
  return scope + module + "." + name;
}
// Keys or values: [num_blocks, block_size, heads, dim], where a head's rows of a block lie one after the other: who
// reads one head's then reads runs of a block, not single rows far apart.
[[nodiscard]] inline TensorDesc cache_desc(tern_dtype dtype, std::int64_t num_blocks, std::int64_t block_size,
                                           std::int64_t heads, std::int64_t dim) {
  TensorDesc desc = make_desc(dtype, {num_blocks, block_size, heads, dim});
  desc.strides[1] = dim;
  desc.strides[2] = block_size * dim;
  return desc;
}
// [num_blocks, block_size, heads] f32, in the same order.
[[nodiscard]] inline TensorDesc scale_desc(std::int64_t num_blocks, std::int64_t block_size, std::int64_t heads) {
  TensorDesc desc = make_desc(TERN_F32, {num_blocks, block_size, heads});
  desc.strides[1] = 1;
  desc.strides[2] = block_size;
  return desc;
}
[[nodiscard]] inline std::string replay_name(const std::string& scope, const std::string& module,
                                             const std::string& name) {
  return scope + module + ".replay." + name;
}
// [num_seats, shape...] f32.
[[nodiscard]] inline TensorDesc state_desc(std::int64_t num_seats, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), num_seats);
  return make_desc(TERN_F32, shape);
}
// And those that all layers share: ids of tokens by block, and the blocks of each seat (nn/token_inputs.h).
[[nodiscard]] inline std::string token_cache_name(const std::string& scope) { return scope + "token_ids"; }
[[nodiscard]] inline std::string block_tables_name(const std::string& scope) { return scope + "block_tables"; }

}  // namespace tern::nn
