// Where a model's answer ends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chat/model_text.h"
#include "models/config.h"
#include "session/generation_config.h"

namespace tern::session {

// The token that the model's chat template writes right after an assistant's text (white space aside), where that is a
// special one: the end of a turn. None: the model has no template, or its template marks no end.
[[nodiscard]] std::optional<std::int32_t> end_of_turn(const chat::ModelText& text);

// Every token that the model's authors name as an end, ascending, each once: the model's own (`eos_token_id` of
// config.json, a number or a list; a GGUF's eos, eot and eom ids), those of generation_config.json and of the
// tokenizer, and the template's end of turn.
[[nodiscard]] std::vector<std::int32_t> end_token_ids(const models::ModelConfig& config,
                                                      const GenerationConfig& generation, const chat::ModelText& text);

}  // namespace tern::session
