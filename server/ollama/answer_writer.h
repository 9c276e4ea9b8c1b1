// Ollama's answers: one object whole, or one a line as they come.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "io/json.h"
#include "server/chat_sink.h"
#include "server/http.h"

namespace tern::server::ollama {

// How an answer is written; tests fix what changes from one to the next.
struct WriterOptions {
  std::string model;       // as the client named it
  std::string created_at;  // "2026-01-31T12:00:00Z"
  bool stream = true;
  bool chat = true;  // /api/chat's "message"; else /api/generate's "response"
  bool logprobs = false;
  std::function<std::chrono::nanoseconds()> clock;  // since any moment; asked first where the writer is made
};
[[nodiscard]] std::shared_ptr<AnswerSink> answer_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange);

// The whole answer to a request without a prompt.
void answer_load(const WriterOptions& options, HttpExchange& exchange);

// {"error": "..."}, with Retry-After where the status asks for one.
void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers = {});

}  // namespace tern::server::ollama
