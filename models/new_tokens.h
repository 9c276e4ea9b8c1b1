// Special tokens that a model's tokenizer gets beside its own, as ms-swift's new_special_tokens has it: where the
// embedding has no row for one, embedding and head get as many more as make their number a multiple of 128.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/config.h"
#include "models/parameters.h"

namespace tern::models {

// `tokenizer_size`: tokens that the tokenizer has, with these. Errors (usage): a model whose rows are no tokens' alone.
[[nodiscard]] Status add_new_tokens(ModelConfig& config, const std::vector<std::string>& tokens,
                                    std::int64_t tokenizer_size);

// Rows [first, first + count) of the parameter as a checkpoint has it, [count, columns].
using ReadRows = std::function<void(std::int64_t first, std::int64_t count, std::span<float> values)>;
// The rows behind those, [added_rows, columns]: near the mean of all, as transformers' resize_token_embeddings draws
// them (Hewitt, "Initializing New Word Embeddings for Pretrained Language Models", 2021), with 1e-9 of each column's
// variance where that has 1e-9 of their covariance. The same whenever they are made.
[[nodiscard]] std::vector<float> rows_of_new_tokens(const ParameterSpec& spec, const ReadRows& stored);

}  // namespace tern::models
