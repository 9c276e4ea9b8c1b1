// Answers in tensors: KServe's, or as the fields of Triton's generate extension.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/chat_sink.h"
#include "server/http.h"
#include "server/kserve/infer_request.h"

namespace tern::server::kserve {

struct WriterOptions {
  enum class Form { infer, generate, generate_stream };
  Form form = Form::infer;
  std::string model;    // as the client named it
  std::string id;       // the request's; "": none
  std::string prompt;   // that comes before each answer
  bool stream = false;  // of generate_stream: each piece as it comes, else one event with the whole
  std::int64_t n = 1;
  std::vector<OutputWish> outputs;
};
[[nodiscard]] std::shared_ptr<AnswerSink> infer_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange);

inline constexpr const char* kModelVersion = "1";  // a server has one of each model

// {"error": "..."}, with Retry-After where the status asks for one.
void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers = {});

}  // namespace tern::server::kserve
