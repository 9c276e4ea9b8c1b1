// Gated delta networks in place of attention (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", ICLR 2025), as
// Qwen3.5 has them: a state of a fixed size for each head, and a short causal convolution before it.
#pragma once

#include <string>

#include "nn/cache_spec.h"
#include "nn/context.h"

namespace tern::nn {

struct GatedDeltaNetConfig {
  std::int64_t k_heads = 0;
  std::int64_t heads = 0;  // of values, a multiple of k_heads
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t kernel = 4;  // rows that the convolution sees
  double eps = 1e-6;        // of the norm of what each head gives
  bool is_joined = false;   // in_proj_qkvz and in_proj_ba in place of four projections: one's rows, then the other's

  // Features of queries, keys and values together, which the convolution goes over.
  [[nodiscard]] std::int64_t channels() const { return 2 * k_heads * key_dim + heads * value_dim; }
};

// x [tokens, hidden] -> [tokens, hidden]. Under `module`: the linear layers in_proj_qkv [channels, hidden], in_proj_z
// [heads * value_dim, hidden], in_proj_b and in_proj_a [heads, hidden], and out_proj; conv1d.weight [channels, kernel],
// A_log [heads], dt_bias [heads] and norm.weight [value_dim]. With a paged cache the layer goes on from the
// states that `delta_net_cache` describes, and leaves them for the next step.
Value gated_delta_net(Context& context, const std::string& module, const GatedDeltaNetConfig& config,
                      const TokenInputs& inputs, Value x);

[[nodiscard]] CacheSpec delta_net_cache(const std::string& module, const GatedDeltaNetConfig& config);

}  // namespace tern::nn
