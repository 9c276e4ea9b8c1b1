// What an encoder is beside other architectures: each token sees every other of its text, nothing is kept of the tokens
// that were seen, and no language model's head stands upon it. It makes vectors of texts, or names their labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/parameters.h"
#include "nn/context.h"

namespace tern::models {

// Which tokens' hidden states a text's vector is made of: the first one's, the last one's, or the mean of all. `each`:
// there is one of every token.
enum class Pooling { cls, last, mean, each };

struct Encoder {
  std::string prefix;                    // before its modules' names where a class has a head, too: "roberta."
  std::vector<std::string> other_heads;  // what begins the names of tensors of heads that are not served: "lm_head."
  // How many types a token may have, nn::TokenInputs::token_types; none: the model reads none.
  std::int64_t (*token_types)(const ModelConfig& config) = nullptr;
  bool second_has_type = false;  // tokens have the types that the tokenizer gives them in a pair; else all are 0
  // The positions of a text's tokens; none: 0, 1 and so on.
  std::vector<std::int32_t> (*positions)(const ModelConfig& config, std::span<const std::int32_t> ids) = nullptr;
  // The head of a classification: its parameters, which tokens it reads, and what it makes of them,
  // [texts, hidden] -> [texts, labels] f32.
  std::vector<ParameterSpec> (*label_parameters)(const ModelConfig& config);
  Pooling (*label_pooling)(const ModelConfig& config);
  ops::Value (*label_logits)(nn::Context& context, const ModelConfig& config, ops::Value rows);
};

}  // namespace tern::models
