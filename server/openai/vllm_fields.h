// What vLLM adds to OpenAI's requests beside its fields of sampling.
#pragma once

#include "server/chat_request.h"
#include "server/json_body.h"

namespace tern::server::openai {

// bad_words allowed_token_ids truncate_prompt_tokens truncation_side return_token_ids thinking_token_budget. Those that
// make no difference here are taken, and those that aren't served are taken where they ask for nothing. Throws Failure
// (data) for all else.
void vllm_fields(JsonBody& body, SamplingWishes& wishes);

}  // namespace tern::server::openai
