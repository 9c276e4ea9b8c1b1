// Log-probabilities of given tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/scored_rows.h"
#include "graph/program.h"
#include "session/runtime.h"

namespace tern::engine {

class Scorer {
 public:
  Scorer(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime);

  // Log-probability of each token that `window` scores, at most max_tokens in one. Throws Failure (failed) where one of
  // them is not finite, and names its token.
  std::vector<double> score(std::span<const std::int32_t> ids, const ScoreWindow& window);
  // Of each token but the first, given all before it.
  std::vector<double> score(std::span<const std::int32_t> ids) { return score(ids, {0, 1, ids.size()}); }

 private:
  std::unique_ptr<graph::Program> program_;
};

}  // namespace tern::engine
