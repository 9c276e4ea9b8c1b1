// Ollama's requests: POST /api/chat and /api/generate.
#pragma once

#include <optional>
#include <string_view>
#include <variant>

#include "server/chat_request.h"
#include "server/json_body.h"

namespace tern::server::ollama {

struct OllamaRequest {
  std::variant<ChatRequest, CompletionRequest> asked;  // the latter of /api/generate with "raw"
  std::string model;                                   // as the client named it
  bool stream = true;
  bool logprobs = false;
  bool load = false;                    // without a prompt: asks that the model be loaded, and for nothing else
  std::optional<std::int64_t> num_ctx;  // tokens that a prompt and its answer take at most
};

// Throw Failure (data) for a body that is none: a field of another type, an unknown one.
[[nodiscard]] OllamaRequest parse_chat(std::string_view body);
[[nodiscard]] OllamaRequest parse_generate(std::string_view body);

// The name without ":latest", which Ollama's clients put behind one without a tag.
[[nodiscard]] std::string served_name(const std::string& model);

// Takes what says how Ollama's own runner computes, which makes no difference to an answer.
void take_runner_options(JsonBody& options);

}  // namespace tern::server::ollama
