// What is asked of whole texts, and what is given of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "chat/rerank_prompt.h"
#include "models/pooled_output.h"
#include "session/pooling_config.h"

namespace tern::engine {

using TokenIds = std::vector<std::int32_t>;

struct EmbedOptions {
  session::Pooling pooling = session::Pooling::last;
  bool normalize = true;  // to length 1
  std::string prompt;     // before each text
};

// Numbers of one text: a vector, the logits of labels, or how relevant it is. Of Pooling::each those of each token,
// joined.
struct PooledText {
  std::vector<float> values;
  std::int64_t tokens = 0;     // of the text, with those that the tokenizer adds
  std::optional<Error> error;  // why there are no values: a text that is too long, numbers that are not finite
};

using chat::kRetrieval;
using chat::rerank_prompt;
using chat::RerankPair;
using chat::verdict_ids;
using chat::Verdicts;

// A text that is to be pooled.
struct TextTokens {
  TokenIds ids;
  std::vector<std::int32_t> types;  // which text of a pair each is of; empty: all are of the first
};

// What one caller asks of texts. Jobs that are pooled alike are computed together (LLM::pool).
struct PoolingJob {
  std::vector<Result<TextTokens>> texts;
  session::Pooling pooling = session::Pooling::last;
  models::PooledOutput output = models::PooledOutput::hidden;
  // Makes of the texts' numbers what the caller asked for; empty: they are that. Any thread, once.
  std::function<std::vector<PooledText>(std::vector<PooledText>&& texts)> finish;
};

}  // namespace tern::engine
