// Mamba-2 in place of attention (Dao and Gu, "Transformers are SSMs", ICML 2024): a state of a fixed size for each
// head, which forgets at a rate that the token says, and a short causal convolution before it.
#pragma once

#include <array>
#include <string>

#include "nn/cache_spec.h"
#include "nn/context.h"

namespace tern::nn {

struct Mamba2Config {
  std::int64_t heads = 0;  // a multiple of groups
  std::int64_t head_dim = 0;
  std::int64_t groups = 0;  // of heads that share B and C
  std::int64_t state_size = 0;
  std::int64_t kernel = 4;  // rows that the convolution sees
  enum class Norm { none, after_gate, before_gate };
  Norm norm = Norm::after_gate;                    // of what each group gives
  double eps = 1e-5;                               // of that
  double in_scale = 1.0;                           // of x
  std::array<double, 5> scales = {1, 1, 1, 1, 1};  // of what in_proj gives: gate, x, B, C and the steps of time

  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  // Features of x, B and C together, which the convolution goes over.
  [[nodiscard]] std::int64_t channels() const { return inner() + 2 * groups * state_size; }
};

// x [tokens, hidden] -> [tokens, hidden]. Under `module`: the linear layers in_proj [inner + channels + heads, hidden],
// which gives a gate, x with B and C, and the steps of time, and out_proj [hidden, inner]; conv1d.weight [channels,
// kernel] and, where the model has one, its bias; A_log, dt_bias and D [heads], and, with a norm, norm.weight [inner].
// With a paged cache the layer goes on from the states that `mamba2_cache` describes, and leaves them for the next
// step.
Value mamba2(Context& context, const std::string& module, const Mamba2Config& config, const TokenInputs& inputs,
             Value x);

[[nodiscard]] CacheSpec mamba2_cache(const std::string& module, const Mamba2Config& config);

}  // namespace tern::nn
