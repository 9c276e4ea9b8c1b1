// A batch of prompts that is answered as one: what a trainer asks for at a time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/llm.h"
#include "io/json.h"
#include "server/chat_service.h"
#include "server/http.h"
#include "server/rollout/generation_fields.h"

namespace tern::server::rollout {

struct RolledAnswer {
  std::string text;
  std::vector<TokenText> tokens;  // with the one that ended it
  AnswerEnd end;
};

struct RolledPrompt {
  engine::TokenIds ids;
  std::vector<TokenText> logprobs;    // of the prompt's tokens, where they are asked for
  std::vector<RolledAnswer> answers;  // n
  TokenUsage usage;
};

// Told once, when every prompt has all its answers: the body of the response.
using BatchWriter = std::function<io::Json(std::vector<RolledPrompt>&& prompts)>;

// Asks for the answers to all prompts at once. The first that fails ends the others, and its error is the response; a
// client that goes away ends them all.
void answer_batch(ChatService& service, std::vector<engine::TokenIds> prompts, const GenerationFields& fields,
                  BatchWriter write, const std::shared_ptr<HttpExchange>& exchange);

// A number of JSON's: null where it isn't finite.
[[nodiscard]] io::Json number_json(double value);

}  // namespace tern::server::rollout
