// One step of the model over a batch of prefill chunks and decodes, with the next tokens drawn on the device.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/cache_engine.h"
#include "engine/scheduler.h"
#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct RunnerOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 512;
  nn::Numerics numerics;
  std::map<std::string, nn::LoraLayer> adapters;
  bool return_logits = false;  // copies the logits of each drawn token to the host
};

struct SampledToken {
  std::int32_t id = 0;
  float logprob = 0;
  float logit_sum = 0;  // of the row it was drawn from: finite where every logit is
};

// Keeps a program for each size that occurs, in doubling buckets: a step pays for what it computes, not for the largest
// step that there may be.
class ModelRunner {
 public:
  // The largest step that a program is for.
  struct Bucket {
    std::int64_t tokens = 0;
    std::int64_t sequences = 0;
    std::int64_t max_seqlen = 0;  // tokens of one sequence; 1: decoding alone, which attention is told
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison for a null pointer
    friend auto operator<=>(const Bucket&, const Bucket&) = default;
  };

  // `cache` is over the model's store and outlives the runner. Throws Failure (device) where memory does not suffice.
  ModelRunner(models::LoadedModel& model, const CacheEngine& cache, const RunnerOptions& options,
              session::Runtime& runtime);

  // Computes the batch; gives a token for each entry that samples, in order.
  std::vector<SampledToken> run(const std::vector<ScheduledSequence>& batch);
  // Of the last run, where asked for: [sampled, vocab_size].
  [[nodiscard]] std::span<const float> logits() const { return logits_; }
  // Of the program of the largest step.
  [[nodiscard]] const graph::MemoryReport& memory() const { return largest().memory(); }
  [[nodiscard]] const graph::Program& program() const { return largest(); }
  [[nodiscard]] std::vector<Bucket> buckets() const;  // that occurred so far, and the largest

 private:
  [[nodiscard]] graph::Graph build_graph(const Bucket& capacity) const;
  void append_sequence(nn::TokenColumns& columns, const ScheduledSequence& part) const;
  graph::Program& program_for(const Bucket& needed);
  [[nodiscard]] const graph::Program& largest() const { return *programs_.rbegin()->second; }

  models::LoadedModel& model_;
  RunnerOptions options_;
  nn::PagedCapacity cache_;
  session::Runtime& runtime_;
  std::map<Bucket, std::unique_ptr<graph::Program>> programs_;
  std::vector<float> logits_;
};

}  // namespace tern::engine
