// Log-probabilities of given tokens.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct ScorerOptions {
  std::int64_t max_tokens = 2048;  // of one text
  nn::Numerics numerics;
  std::map<std::string, nn::LoraLayer> adapters;
};

class Scorer {
 public:
  Scorer(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime);

  // Log-probability of each token but the first, given all before it: ids.size() - 1 numbers. At most max_tokens.
  // Throws Failure (failed) where one of them is not finite, and names its token.
  std::vector<double> score(std::span<const std::int32_t> ids);

 private:
  std::unique_ptr<graph::Program> program_;
};

}  // namespace tern::engine
