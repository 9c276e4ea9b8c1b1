// Tokens that the model knows. A tokenizer may have more: that of another model, or one that was given tokens while the
// embedding was left as it was.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

// The first of `ids` that is no row of an embedding of `vocab_size` rows, as an error (data); none where all are.
[[nodiscard]] std::optional<Error> unknown_token(std::span<const std::int32_t> ids, std::int64_t vocab_size,
                                                 const tokenizer::Tokenizer& tokenizer);

}  // namespace tern::engine
