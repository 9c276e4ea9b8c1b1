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
  bool tokens_as_ids = false;
  std::string echo;  // the text that the answer goes on with, where it is to be told before it
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
  std::int64_t told = 0;       // of so many answers to a prompt, the best; 0: all of them
  bool tokens_as_ids = false;  // in log-probabilities a token is "token_id:5", as not every one is a text
  std::string echo;            // before each answer of a chat
  bool prompt_alone = false;   // of a completion nothing that was drawn is told
};
[[nodiscard]] std::shared_ptr<AnswerSink> chat_completion_writer(WriterOptions options,
                                                                 std::shared_ptr<HttpExchange> exchange);

}  // namespace tern::server::openai
