// What a model makes of whole texts, as a part of a graph: vectors of them, the logits of its labels, or those of some
// next tokens. Serving and training read the same.
#pragma once

#include <cstdint>
#include <span>

#include "models/encoder.h"
#include "models/loader.h"
#include "nn/context.h"
#include "nn/token_inputs.h"

namespace tern::models {

// What is given of the hidden states that are pooled.
enum class PooledOutput {
  hidden,   // themselves, [hidden]
  labels,   // the logits of a classification's labels, [labels]
  tokens,   // a language model's logits of the next token, [vocab]
  verdict,  // by how much the logit of one next token is above that of another, [1]
};

struct PooledOutputOptions {
  Pooling pooling = Pooling::last;
  PooledOutput output = PooledOutput::hidden;
  std::int64_t max_tokens = 0;  // of one run
  std::int64_t max_texts = 0;   // of one run
  bool host_divides = false;    // a mean is the sum over the tokens, which the host divides by their number
  std::int32_t yes = 0;         // tokens of a verdict: the one that agrees,
  std::int32_t no = 0;          // and the other
  std::uint32_t needs = 0;
};

// [max_texts, width] f32, of Pooling::each [max_tokens, width]. Reads inputs.rows, one row a text (takes_rows), but for
// a mean: that declares the inputs `texts` [tokens] i32, which text each token is of, and, where the graph divides,
// `shares` [texts] f32, 1 / their number.
[[nodiscard]] ops::Value pooled_output(nn::Context& context, const LoadedModel& model,
                                       const PooledOutputOptions& options, const nn::TokenInputs& inputs,
                                       ops::Value hidden);

[[nodiscard]] constexpr bool takes_rows(Pooling pooling) { return pooling == Pooling::cls || pooling == Pooling::last; }

// The token of a text that is pooled, where takes_rows says that there is one. `Pooling::last` of labels is the last
// token that isn't padding (transformers: the rightmost one that is not pad_token_id), else the text's last.
[[nodiscard]] std::int32_t pooled_row(const ModelConfig& config, const PooledOutputOptions& options,
                                      std::span<const std::int32_t> text);

}  // namespace tern::models
