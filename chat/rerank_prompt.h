// What a reranker of Qwen3's kind is asked of a query and a document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace tern::chat {

// What Qwen3-Reranker was trained to be told where the user says nothing else.
inline constexpr std::string_view kRetrieval =
    "Given a web search query, retrieve relevant passages that answer the query";

struct RerankPair {
  std::string query;
  std::string document;
  std::optional<std::string> instruction = std::nullopt;  // what makes a document relevant; none: kRetrieval
};

// The ids of a pair in the words that Qwen3-Reranker was trained with (its model card), with the opening of the answer.
// Errors (data): a tokenizer without the tokens of that dialogue.
[[nodiscard]] Result<std::vector<std::int32_t>> rerank_prompt(const tokenizer::Tokenizer& tokenizer, const RerankPair& pair);
// The ids of "yes" and "no", each one token. Errors (data): a tokenizer that has several for one.
struct Verdicts {
  std::int32_t yes = 0;
  std::int32_t no = 0;
};
[[nodiscard]] Result<Verdicts> verdict_ids(const tokenizer::Tokenizer& tokenizer);

}  // namespace tern::chat
