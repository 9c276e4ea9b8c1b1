// What is asked of whole texts, and what is given of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/pooling_config.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

using TokenIds = std::vector<std::int32_t>;

struct EmbedOptions {
  session::Pooling pooling = session::Pooling::last;
  bool normalize = true;  // to length 1
  std::string prompt;     // before each text
};

// Numbers of one text: a vector, the logits of labels, or how relevant it is.
struct PooledText {
  std::vector<float> values;
  std::int64_t tokens = 0;     // of the text, with those that the tokenizer adds
  std::optional<Error> error;  // why there are no values: a text that is too long, numbers that are not finite
};

// What Qwen3-Reranker was trained to be told where the user says nothing else.
inline constexpr std::string_view kRetrieval =
    "Given a web search query, retrieve relevant passages that answer the query";

struct RerankPair {
  std::string query;
  std::string document;
  std::optional<std::string> instruction = std::nullopt;  // what makes a document relevant; none: kRetrieval
};

// A text that is to be pooled.
struct TextTokens {
  TokenIds ids;
  std::vector<std::int32_t> types;  // which text of a pair each is of; empty: all are of the first
};

// The ids of a pair in the words that Qwen3-Reranker was trained with (its model card), with the opening of the answer.
// Errors (data): a tokenizer without the tokens of that dialogue.
[[nodiscard]] Result<TokenIds> rerank_prompt(const tokenizer::Tokenizer& tokenizer, const RerankPair& pair);
// The ids of "yes" and "no", each one token. Errors (data): a tokenizer that has several for one.
struct Verdicts {
  std::int32_t yes = 0;
  std::int32_t no = 0;
};
[[nodiscard]] Result<Verdicts> verdict_ids(const tokenizer::Tokenizer& tokenizer);

}  // namespace tern::engine
