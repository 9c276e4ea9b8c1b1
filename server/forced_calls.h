// A request that demands calls of tools: what its answer must be (JSON, as vLLM has it), and how that is read as calls.
#pragma once

#include <memory>
#include <string>

#include "chat/answer_parser.h"
#include "server/chat_request.h"

namespace tern::server {

[[nodiscard]] inline bool is_forced(const ToolChoice& choice) {
  return choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
}

// Of ToolChoice named the arguments alone, of required a list of {"name", "parameters"}; `tools_json` are the request's
// tools. Error (data): no tool of that name.
[[nodiscard]] Result<Constraint> forced_constraint(const ToolChoice& choice, const std::string& tools_json,
                                                   bool parallel_calls);

// Reads such an answer, whose thoughts `inner` takes out first. `whole`: calls are told at its end, and one that was
// cut off is content; else each as it comes, its arguments in pieces, and one that was cut off is a call that breaks
// off.
[[nodiscard]] std::unique_ptr<chat::AnswerParser> forced_parser(const ToolChoice& choice, bool whole,
                                                                std::unique_ptr<chat::AnswerParser> inner);

}  // namespace tern::server
