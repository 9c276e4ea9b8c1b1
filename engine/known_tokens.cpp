#include "engine/known_tokens.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::engine {

std::optional<Error> unknown_token(std::span<const std::int32_t> ids, std::int64_t vocab_size,
                                   const tokenizer::Tokenizer& tokenizer) {
  const auto is_unknown = [&](std::int32_t id) { return id < 0 || id >= vocab_size; };
  const auto found = std::find_if(ids.begin(), ids.end(), is_unknown);
  if (found == ids.end()) return std::nullopt;
  const bool has_name = *found >= 0 && *found < tokenizer.vocab_size();
  return data_error(cat("token ", found - ids.begin()),
                    cat("an id from 0 to ", vocab_size - 1, ", as the model has them"),
                    has_name ? cat(*found, ", \"", tokenizer.id_to_piece(*found), "\"") : cat(*found),
                    "take the tokenizer and the weights from the same model, or leave that token out");
}

}  // namespace tern::engine
