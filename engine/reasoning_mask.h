// Masks around the reasoning of a thinking model.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/token_mask.h"

namespace tern::engine {

struct Reasoning {
  std::vector<std::int32_t> begin_ids;   // the marker that opens it; empty: it's open from the answer's first token on
  std::vector<std::int32_t> end_ids;     // the marker that closes it, "</think>"; at least one token
  std::vector<std::int32_t> end_tokens;  // of answers
  std::int64_t vocab_size = 0;           // rows of the logits
};

// Any token but an end token is allowed until the marker that closes the reasoning was drawn; then `mask` is asked,
// which sees the tokens behind the marker alone. The reasoning is taken to be open from the first token on.
[[nodiscard]] std::shared_ptr<TokenMask> after_reasoning(std::shared_ptr<TokenMask> mask, Reasoning reasoning);

// Closes a reasoning of `budget` tokens: from then on the marker's tokens are the only ones allowed. Everything else is
// `mask`'s business, which sees every token; null: every token is allowed.
[[nodiscard]] std::shared_ptr<TokenMask> thinking_budget(std::shared_ptr<TokenMask> mask, Reasoning reasoning,
                                                         std::int64_t budget);

}  // namespace tern::engine
