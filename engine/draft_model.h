// Guesses of a smaller model with the same vocabulary, which draws each token as the request asks, with the number that
// the large one will draw it with: the two agree wherever their distributions do, greedy or not.
//
// What it keeps of a sequence lies in the blocks that the large model's cache has of it, at the same numbers in a cache
// of its own: who is thrown out, shares blocks or begins behind found ones does so in both. It may be behind, as nobody
// is asked for guesses that don't pay, and catches up where somebody is again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/cache_engine.h"
#include "engine/model_runner.h"
#include "engine/prefix_hash.h"
#include "engine/proposer.h"
#include "engine/scheduler.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

struct DraftModelOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 512;
  nn::Numerics numerics;
  double step_cost = 0;  // of one of the large model's; 0: by the bytes of weights
};

// Errors: (data) other tokens than the model's, which guesses would be in other words of; (usage) layers that keep
// states, which can't take a guess back, or a model that isn't one of language.
[[nodiscard]] Status check_draft_model(const models::ModelConfig& draft, const tokenizer::Tokenizer& draft_tokenizer,
                                       const tokenizer::Tokenizer& tokenizer);

// The dtype of its cache: `wanted` where the model can have it.
[[nodiscard]] tern_dtype draft_cache_dtype(const models::LoadedModel& draft, std::optional<tern_dtype> wanted);

class DraftModel : public Proposer {
 public:
  // `model` is the large one, of whose cache `cache` has the blocks and seats; `scheduler` gives blocks out. All
  // outlive it. Throws what CacheEngine and ModelRunner throw.
  DraftModel(models::LoadedModel& draft, const models::LoadedModel& model, const CacheEngine& cache,
             tern_dtype cache_dtype, Scheduler& scheduler, const DraftModelOptions& options, session::Runtime& runtime);

  [[nodiscard]] DraftCost cost(const Sequence& sequence, std::int64_t running) const override;
  void propose(std::span<const DraftWish> wishes, std::int64_t running) override;

  [[nodiscard]] std::int64_t computed_tokens() const override { return computed_tokens_; }

 private:
  struct Follower {
    DraftWish wish;
    DraftShadow* shadow = nullptr;
  };
  [[nodiscard]] double prompt_cost(std::int64_t tokens) const;
  [[nodiscard]] bool enters(Sequence& sequence);
  [[nodiscard]] std::int64_t learn_tokens(const Sequence& sequence, DraftShadow& shadow) const;
  [[nodiscard]] DraftShadow* follow(DraftWish& wish);
  void catch_up(std::int64_t running);
  void add(Follower& follower, std::int64_t count, bool draws);
  void run(std::int64_t running);
  void mark_full(Follower& follower);

  Scheduler& scheduler_;
  DraftModelOptions options_;
  std::int64_t draft_vocab_, vocab_;
  std::int64_t max_positions_;
  CacheEngine cache_;
  std::unique_ptr<ModelRunner> runner_;
  accel::Trace* trace_;
  // All that guesses earned and cost: it pays for a sequence's prompt, where many may be wrong before one is right.
  DraftBudget earnings_{DraftBudget::kMost};
  std::vector<std::optional<BlockHash>> full_;  // by block: the hash of what it holds, all of it computed
  std::vector<Follower> followers_;
  Batch batch_;
  std::vector<Follower*> drawing_;  // of the batch's parts that draw, in order
  std::int64_t computed_tokens_ = 0;
};

}  // namespace tern::engine
