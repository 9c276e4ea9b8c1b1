// Takes guesses that were wrong back from states: copies of the states are made before a step that checks guesses, and
// where some were wrong they're put back and advanced again by the rows of those that were right, which the step left
// (nn/recurrent_state.h). Nothing else is computed twice. vLLM keeps the states behind each guess instead, which takes
// as many copies of them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/cache_engine.h"
#include "engine/scheduler.h"
#include "graph/program.h"
#include "graph/tensor_scope.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct StateReplayOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t rows = 1;  // that a step draws from, at most
  nn::Numerics numerics;
};

class StateReplay {
 public:
  // `cache` has room for the copies (CacheOptions::guesses) and outlives it. Throws Failure (device) where memory does
  // not suffice.
  StateReplay(const models::LoadedModel& model, CacheEngine& cache, const StateReplayOptions& options,
              session::Runtime& runtime);

  // Before the step runs.
  void keep(const Batch& step);
  // Behind it, when its sequences say how many of their tokens count as computed.
  void take_back(const Batch& step);
  [[nodiscard]] std::int64_t rows() const { return options_.rows; }
  [[nodiscard]] std::int64_t num_replays() const { return replays_; }  // sequences whose states were put back so far

 private:
  struct Bucket {
    std::int64_t tokens = 0;
    std::int64_t sequences = 0;
    std::int64_t max_seqlen = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison for a null pointer
    friend auto operator<=>(const Bucket&, const Bucket&) = default;
  };
  // A sequence whose states are advanced again.
  struct Part {
    std::int32_t seat = 0;
    std::int64_t row = 0;  // of the step's rows, the first
    std::int64_t count = 0;
    std::int64_t kv_len = 0;
  };
  [[nodiscard]] Bucket largest() const { return {options_.rows, options_.max_num_seqs, options_.rows}; }
  [[nodiscard]] std::unique_ptr<graph::Program> build(const Bucket& bucket) const;
  [[nodiscard]] graph::Program& program_for(const Bucket& bucket);
  void run();

  const models::LoadedModel& model_;
  CacheEngine& cache_;
  StateReplayOptions options_;
  session::Runtime& runtime_;
  std::optional<graph::TensorScope> tensors_;  // where steps leave rows
  std::shared_ptr<graph::Arena> arena_;
  std::map<Bucket, std::unique_ptr<graph::Program>> programs_;
  std::vector<StateCopy> copies_;
  std::vector<Part> parts_;
  std::int64_t replays_ = 0;
};

}  // namespace tern::engine
