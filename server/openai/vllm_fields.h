// What vLLM adds to OpenAI's requests beside its fields of sampling.
#pragma once

#include "server/chat_request.h"
#include "server/json_body.h"

namespace tern::server::openai {

// bad_words allowed_token_ids truncate_prompt_tokens truncation_side return_token_ids thinking_token_budget
// use_beam_search length_penalty. Those that make no difference here are taken, and those that aren't served are taken
// where they ask for nothing. Throws Failure (data) for all else.
void vllm_fields(JsonBody& body, SamplingWishes& wishes);

// What a request says beside its SamplingWishes.
struct BesideBeams {
  std::int64_t width = 1;  // of beams: best_of, else n
  bool streams = false;
  bool is_held = false;  // to a form, or to calls of tools
};
// Fits wishes.beams, where there are some, to the rest: a beam search draws nothing, holds an answer to nothing and
// knows it at its end. Throws Failure (data) for a field that it can't answer.
void beam_fields(JsonBody& body, SamplingWishes& wishes, const BesideBeams& beside);

}  // namespace tern::server::openai
