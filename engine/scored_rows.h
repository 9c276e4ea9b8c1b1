// The hidden states that the tokens of one text are scored by: what scoring and comparing models compute first.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "engine/cache_engine.h"
#include "engine/score_windows.h"
#include "models/loader.h"
#include "nn/context.h"
#include "nn/token_inputs.h"

namespace tern::engine {

struct ScorerOptions {
  std::int64_t max_tokens = 2048;  // of one run
  nn::Numerics numerics;
  std::map<std::string, nn::LoraLayer> adapters;
  CacheOptions cache;            // of what is scored through one: dtype and memory
  std::int64_t step_tokens = 1;  // ... in steps of so many tokens
};

[[nodiscard]] nn::BuildOptions scoring_build(const ScorerOptions& options);

// [rows, hidden]: row i is the state before the i-th token that is scored. At most max_tokens rows.
[[nodiscard]] nn::Value scored_rows(nn::Context& context, const models::LoadedModel& model, std::int64_t max_tokens);

// One run of it, over a window of the text `ids`.
[[nodiscard]] nn::TokenColumns scored_columns(std::span<const std::int32_t> ids, const ScoreWindow& window);

}  // namespace tern::engine
