// The tokens that end an answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/sampling_params.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

// Each once: the request's own, its stop texts that are one special token, as special tokens are no part of the text,
// and the model's (`models`) unless they are to be passed over. A mask's answer ends at these anyhow: nothing else may
// follow.
[[nodiscard]] std::vector<std::int32_t> end_ids_of(const tokenizer::Tokenizer& tokenizer,
                                                   std::span<const std::int32_t> models, const SamplingParams& params);

// The request's stop text that is the token `id`; "": none.
[[nodiscard]] std::string stop_text_of(const tokenizer::Tokenizer& tokenizer, std::int32_t id,
                                       const SamplingParams& params);

}  // namespace tern::engine
