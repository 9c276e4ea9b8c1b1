// The parts of an answer that OpenAI's routes share.
#pragma once

#include "io/json.h"
#include "server/chat_sink.h"

namespace tern::server::openai {

// The token's text, or where `as_id` "token_id:5".
[[nodiscard]] std::string token_name(const TokenText& token, bool as_id);
// {"token", "logprob", "bytes", "top_logprobs"}
[[nodiscard]] io::Json token_json(const TokenText& token, bool as_id = false);
// vLLM's prompt_logprobs: null for the first token, then objects by token id: {"logprob", "rank", "decoded_token"}.
[[nodiscard]] io::Json prompt_logprobs_json(const std::vector<TokenText>& tokens);
[[nodiscard]] io::Json usage_json(const TokenUsage& usage);
// "stop", "length", "tool_calls", "abort"
[[nodiscard]] io::Json finish_reason(const AnswerEnd& end);
// vLLM's: the stop text or token id of the request's own that ended it, else null.
[[nodiscard]] io::Json stop_reason(const AnswerEnd& end);

}  // namespace tern::server::openai
