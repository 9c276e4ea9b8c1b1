// POST /v1/chat/completions: OpenAI's request and answer, with what vLLM adds to them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/chat_request.h"
#include "server/chat_sink.h"
#include "server/http.h"
#include "server/openai/sampling_fields.h"

namespace tern::server::openai {

struct ChatCompletionRequest {
  ChatRequest chat;
  StreamOptions stream;
  bool logprobs = false;
};
// Throws Failure (data) for a body that is none: a field of another type, an unknown one.
[[nodiscard]] ChatCompletionRequest parse_chat_completion(std::string_view body);

// How an answer is written; tests fix what changes from one to the next.
struct WriterOptions {
  std::string id;            // "chatcmpl-..."
  std::string model;         // as the client named it
  std::int64_t created = 0;  // seconds since 1970
  StreamOptions stream;
  bool logprobs = false;
  std::int64_t n = 1;
};
[[nodiscard]] std::shared_ptr<AnswerSink> chat_completion_writer(WriterOptions options,
                                                                 std::shared_ptr<HttpExchange> exchange);

}  // namespace tern::server::openai
