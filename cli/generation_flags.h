// From the flags of generation to what the engine takes.
#pragma once

#include <memory>
#include <string>

#include "cli/flags/arguments.h"
#include "engine/llm.h"

namespace tern::cli {

// --load_args: what the training run of the adapter or model was told, where the user says nothing else.
// --load_data_args: its held-out rows. Throws Failure (data) where there are none.
void load_training_arguments(Arguments& arguments);

// --model, else what the adapter says it was trained on. Throws Failure (usage) where neither names one.
[[nodiscard]] std::string generating_model(const Arguments& arguments);

// --adapters, --max_model_len, --max_batch_size (where there are rows to answer), --kv_cache_dtype, --kv_cache_memory,
// --top_logprobs, --speculative_config, --use_chat_template, --enable_thinking and --agent_template.
[[nodiscard]] engine::LLMOptions llm_options(const Arguments& arguments);

// The model that --speculative_config names to guess tokens, beside `session` and before weights are read; null: none.
// Throws Failure: it isn't one for that (check_draft_model), or has no guesses to make (usage).
[[nodiscard]] std::shared_ptr<session::Session> open_draft(const Arguments& arguments, const session::Session& session);

// The head over the model's hidden states that it names, in the same way; null: none. Throws Failure: it's none of this
// model's (models/eagle3.h), or the model has none (models/mtp.h).
[[nodiscard]] std::shared_ptr<models::SpeculativeHead> open_head(const Arguments& arguments,
                                                                 const session::Session& session);

// Whether guesses paid, in a line; none where nothing was guessed.
void tell_guesses(const engine::Guesses& guesses);

// Whether --kv_cache_dtype is for the model and its device: asked before weights are read. Throws Failure (usage).
void require_cache_dtype(const session::Session& session, const engine::EngineOptions& options);

// `advised`, the flags winning over it.
[[nodiscard]] engine::SamplingParams sampling_params(const Arguments& arguments, const engine::SamplingParams& advised);

}  // namespace tern::cli
