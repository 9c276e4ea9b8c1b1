// POST /infill: what is missing in the middle of a text, as llama.cpp's server is asked it (llama.vim, llama.vscode).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat_service.h"
#include "server/fim_prompt.h"
#include "server/router.h"

namespace tern::server::llamacpp {

struct InfillRequest {
  FimRequest gap;
  CompletionRequest completion;  // without its prompt
  bool stream = false;
  bool silent = false;                             // nothing is to be drawn: the prompt is put into the cache
  std::int64_t n_indent = 0;                       // the answer ends before a line of less blanks
  std::int64_t most_ms = 0;                        // and behind so many, once it has a second line; 0: no limit
  std::optional<std::vector<std::string>> fields;  // of the answer, "timings/prompt_n" for one below; absent: all
};
// Throws Failure (data) for a body that is none.
[[nodiscard]] InfillRequest parse_infill(std::string_view body);

struct WriterOptions {
  std::string model;
  bool stream = false;
  bool silent = false;
  std::int64_t n_indent = 0;
  std::int64_t most_ms = 0;
  std::optional<std::vector<std::string>> fields;
  std::function<std::chrono::nanoseconds()> clock;  // since any moment; asked first where the writer is made
};

class InfillWriter : public AnswerSink {
 public:
  // How the request is ended, where the answer is over before the model says so. Any thread.
  virtual void ends_by(std::function<void()> stop) = 0;
};
[[nodiscard]] std::shared_ptr<InfillWriter> infill_writer(WriterOptions options,
                                                          std::shared_ptr<HttpExchange> exchange);

// `service` outlives the router.
void add_routes(Router& router, ChatService& service);

}  // namespace tern::server::llamacpp
