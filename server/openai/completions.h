// POST /v1/completions: texts that the model goes on with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat_request.h"
#include "server/chat_sink.h"
#include "server/openai/chat_completions.h"

namespace tern::server::openai {

struct CompletionBatch {
  std::vector<CompletionRequest> requests;  // one a prompt, of the same wishes
  StreamOptions stream;
  bool logprobs = false;
  std::int64_t n = 1;              // answers to each prompt that are told, the best of those that are drawn
  std::string suffix;              // what follows the gap that is to be filled; "": none
  bool prompt_alone = false;       // echoed, with nothing behind it
  bool add_special_tokens = true;  // around a prompt that is a text
  bool tokens_as_ids = false;
};
// Throws Failure (data) for a body that is none.
[[nodiscard]] CompletionBatch parse_completion(std::string_view body);

// One sink a prompt of the batch, in order: they write one answer together, whose choices count the answers to the
// first prompt, then those to the second. `echoes`: the prompts' texts, where they come before the answers; else empty.
[[nodiscard]] std::vector<std::shared_ptr<AnswerSink>> completion_writers(WriterOptions options, std::size_t prompts,
                                                                          std::vector<std::string> echoes,
                                                                          std::shared_ptr<HttpExchange> exchange);

}  // namespace tern::server::openai
