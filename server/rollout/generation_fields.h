// What trainers' clients ask of the sampler, translated to what every protocol's requests are.
#pragma once

#include "server/chat_request.h"
#include "server/json_body.h"

namespace tern::server::rollout {

struct GenerationFields {
  SamplingWishes sampling;
  Constraint constraint;
  std::int64_t n = 1;
  // Log-probabilities as TRL's server has written them since its clients ask for a number of them: a list a token. Of
  // clients before that, which send `truncate_prompt_tokens` or `guided_decoding_regex`, one number a token.
  bool lists = true;
};

// TRL's: n repetition_penalty temperature top_p top_k min_p max_tokens logprobs structured_outputs_regex
// guided_decoding_regex, and `generation_kwargs`, whose members replace them: vLLM's SamplingParams. Absent ones are as
// TRL's server has them, not as the model's authors advise. Throws Failure (data).
[[nodiscard]] GenerationFields trl_fields(JsonBody& body);

// ms-swift's RequestConfig; what is null there is the server's. Throws Failure (data) also for what it can't be asked
// for: num_beams, stream, best_of, length_penalty.
[[nodiscard]] GenerationFields swift_fields(JsonBody config);

}  // namespace tern::server::rollout
