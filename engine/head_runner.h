// Steps of a head that guesses from the model's hidden states (models/speculative_head.h).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache_engine.h"
#include "engine/model_runner.h"
#include "engine/sequence.h"
#include "graph/program.h"
#include "graph/tensor_scope.h"
#include "models/speculative_head.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct HeadRunnerOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 512;
  nn::Numerics numerics;
  bool return_logits = false;  // copies those of each guess to the host
};

// Pairs [begin, begin + count) of a sequence: pair i is the state of its token i and the token behind that, a guess
// where the sequence has no token there.
struct HeadPart {
  Sequence* sequence = nullptr;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t state = 0;  // the row of states that the first pair's lies in; the others' follow
  bool draws = false;      // a token is guessed behind the last pair, token begin + count + 1 of the sequence
};

class HeadRunner {
 public:
  // Whose states a step reads: those that the model left of its last step (RunnerOptions::states), or those that the
  // head's own last step gave of the parts that drew, in their order.
  enum class States : std::uint8_t { of_model, of_head };

  // `head` has been loaded, `cache` has its layer, and `states` is the tensor of the model's: all outlive the runner.
  // Throws Failure (device) where memory does not suffice for the largest steps.
  HeadRunner(const models::LoadedModel& model, const models::SpeculativeHead& head, const CacheEngine& cache,
             std::string states, const HeadRunnerOptions& options, session::Runtime& runtime);

  // Computes the pairs; gives a guess, an id of the model's, for each part that draws, in order, until the next run.
  // Drawn as the request asks, with the number that the model will draw the token with, but for penalties and biases.
  std::span<const SampledToken> run(std::span<const HeadPart> parts, States from);
  [[nodiscard]] std::int64_t max_num_seqs() const { return options_.max_num_seqs; }
  [[nodiscard]] std::int64_t block_size() const { return cache_.block_size; }
  // Of the last run, where asked for: [parts that draw, the head's vocabulary].
  [[nodiscard]] std::span<const float> logits() const { return logits_; }

 private:
  struct Bucket {
    std::int64_t tokens = 0;
    std::int64_t sequences = 0;
    std::int64_t max_seqlen = 0;
    bool draws = false;  // rows go through the head's own output projection
    States from = States::of_model;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison for a null pointer
    friend auto operator<=>(const Bucket&, const Bucket&) = default;
  };
  [[nodiscard]] Bucket bucket_for(std::span<const HeadPart> parts, States from) const;
  [[nodiscard]] graph::Graph build_graph(const Bucket& capacity) const;
  [[nodiscard]] std::shared_ptr<graph::Program> build(const Bucket& bucket);
  [[nodiscard]] graph::Program& program_for(const Bucket& bucket);
  void keep_drawn(const graph::Program& program);

  const models::LoadedModel& model_;
  const models::SpeculativeHead& head_;
  std::string model_states_, own_states_;
  HeadRunnerOptions options_;
  nn::PagedCapacity cache_;
  session::Runtime& runtime_;
  std::optional<graph::TensorScope> tensors_;
  std::shared_ptr<graph::Arena> arena_;  // of all buckets, which take turns
  std::map<Bucket, std::shared_ptr<graph::Program>> programs_;
  std::vector<SampledToken> drawn_;
  std::vector<float> logits_;
};

}  // namespace tern::engine
