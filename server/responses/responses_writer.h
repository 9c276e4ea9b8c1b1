// OpenAI's Responses: one response whole, or its events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/json.h"
#include "server/chat_sink.h"
#include "server/http.h"

namespace tern::server::responses {

// How an answer is written; tests fix what changes from one to the next.
struct WriterOptions {
  std::string id;            // "resp_...", whose end names the items too
  std::string model;         // as the client named it
  std::int64_t created = 0;  // seconds since 1970
  bool stream = false;
  bool logprobs = false;
  io::Json echoed;                                          // ResponsesRequest::echoed
  std::function<void(const io::Json& response)> completed;  // before it is sent: to store it; may be empty
};
[[nodiscard]] std::shared_ptr<AnswerSink> responses_writer(WriterOptions options,
                                                           std::shared_ptr<HttpExchange> exchange);

}  // namespace tern::server::responses
