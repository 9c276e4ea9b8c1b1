// The fields of sampling that OpenAI's routes share, with those that vLLM adds to them.
#pragma once

#include "server/chat_request.h"
#include "server/json_body.h"

namespace tern::server::openai {

// temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty seed stop stop_token_ids
// min_tokens ignore_eos skip_special_tokens include_stop_str_in_output logit_bias prompt_logprobs priority. Throws
// Failure (data) for a value that is none.
[[nodiscard]] SamplingWishes sampling_fields(JsonBody& body);

// response_format, structured_outputs and vLLM's guided_* of before. Throws Failure (data).
[[nodiscard]] Constraint constraint_fields(JsonBody& body);

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage of all answers
};
[[nodiscard]] StreamOptions stream_fields(JsonBody& body);

}  // namespace tern::server::openai
