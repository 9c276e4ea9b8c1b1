// Log-probabilities of a prompt's tokens, each given those before it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/token_logprob.h"
#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct PromptScorerOptions {
  nn::Numerics numerics;
  std::map<std::string, nn::LoraLayer> adapters;
  TensorDesc hidden;       // [tokens, hidden] of the step that computes them
  std::int64_t rows = 16;  // that go through the head at once, which bounds the memory
  std::int64_t tops = 0;
};

class PromptScorer {
 public:
  // Takes turns in `arena` with the steps. Throws Failure (device) where memory does not suffice.
  PromptScorer(models::LoadedModel& model, const PromptScorerOptions& options, session::Runtime& runtime,
               std::shared_ptr<graph::Arena> arena);

  // Row i of `hidden` [targets, hidden] is the state before targets[i]. Adds as many to `out`, each with the likeliest
  // `tops` of them, at most the options'.
  void score(std::span<const std::byte> hidden, std::span<const std::int32_t> targets, std::int64_t tops,
             std::vector<PromptLogprob>& out);

 private:
  void score_piece(std::span<const std::byte> hidden, std::span<const std::int32_t> targets);

  std::int64_t rows_;
  std::int64_t tops_;
  std::unique_ptr<graph::Program> program_;
};

}  // namespace tern::engine
