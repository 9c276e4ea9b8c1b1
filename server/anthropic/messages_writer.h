// Anthropic's answers: one message whole, or its events.
#pragma once

#include <memory>
#include <string>

#include "server/chat_sink.h"
#include "server/http.h"

namespace tern::server::anthropic {

// How an answer is written; tests fix what changes from one to the next.
struct WriterOptions {
  std::string id;     // "msg_..."
  std::string model;  // as the client named it
  bool stream = false;
};
[[nodiscard]] std::shared_ptr<AnswerSink> messages_writer(WriterOptions options,
                                                          std::shared_ptr<HttpExchange> exchange);

// {"type": "error", "error": {"type", "message"}}
[[nodiscard]] std::string error_body(const Error& error, int status);
// The whole answer, with Retry-After where the status asks for one.
void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers = {});

}  // namespace tern::server::anthropic
