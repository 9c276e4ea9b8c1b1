// One step of the model over a batch of prefill chunks and decodes, with the next tokens drawn on the device.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache_engine.h"
#include "engine/image_step_inputs.h"
#include "engine/prompt_scorer.h"
#include "engine/scheduler.h"
#include "engine/step_inputs.h"
#include "engine/token_logprob.h"
#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"
#include "session/runtime.h"

namespace tern::engine {

struct RunnerOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 512;
  nn::Numerics numerics;
  std::map<std::string, nn::LoraLayer> adapters;         // of all sequences
  std::map<std::string, nn::LoraSlotsLayer> lora_slots;  // of those that have an adapter_slot
  std::int64_t num_lora_slots = 0;
  bool return_logits = false;       // copies the logits of each drawn token to the host
  std::int64_t top_logprobs = 0;    // how many of the likeliest tokens a request may ask for beside a drawn one
  std::int64_t max_drafts = 0;      // guesses that a step checks, of all sequences together
  bool images = false;              // steps may have images; the model has a vision tower (see prepare_images)
  std::int64_t max_programs = 128;  // that are kept, 2 at least
  // What a head guesses from (models/speculative_head.h): of each step's tokens these streams of the model side by
  // side, or its hidden states where there is none, are left in the store's tensor `states`, [max_num_batched_tokens,
  // width]; "": they aren't.
  std::string states;
  std::vector<std::int64_t> streams;
  // A step with guesses leaves what states are advanced by in tensors of so many rows (state_replay.h); 0: it doesn't.
  std::int64_t replay_rows = 0;
};

struct SampledToken {
  std::int32_t id = 0;
  float logprob = 0;
  float logit_sum = 0;                     // of the row it was drawn from: finite where every logit is
  std::span<const TokenLogprob> top = {};  // the likeliest first, where some row asks for any; until the next run
};

// Keeps a program for each size that occurs, in doubling buckets: a step pays for what it computes, not for the largest
// step that there may be. Once a size has run, a further step of it allocates nothing on the host. Of more sizes than
// `max_programs` the one that was used longest ago goes.
class ModelRunner {
 public:
  // The largest step that a program is for.
  struct Bucket {
    std::int64_t tokens = 0;
    std::int64_t sequences = 0;
    std::int64_t max_seqlen = 0;  // tokens of one sequence; 1: decoding alone, which attention is told
    SamplingFeatures sampling;    // that some row asks for
    std::int64_t drafts = 0;      // guesses of all sequences: rows that are drawn beside one a sequence
    bool images = false;          // of some token: a program of its own, so that others cost what they did
    bool lora = false;            // of some token: an adapter of its own; as above
    bool hidden = false;          // states of all tokens come back, as some prompt's log-probabilities are asked for
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison for a null pointer
    friend auto operator<=>(const Bucket&, const Bucket&) = default;
  };

  // `cache` is over the model's store and outlives the runner. Throws Failure (device) where memory does not suffice.
  ModelRunner(models::LoadedModel& model, const CacheEngine& cache, const RunnerOptions& options,
              session::Runtime& runtime);

  // Computes the batch; gives a token for each row that its entries draw, in order, until the next run.
  const std::vector<SampledToken>& run(const Batch& batch);

  // The same in parts. Between launch() and wait() the host may prepare() the next batch, of which tokens that the
  // launched one draws are missing; its launch puts them in, if it `is_prepared`. A size that did not occur yet is not
  // prepared: to build its program needs the device. Nor is a step with images, whose features are yet to be computed.
  void launch(const Batch& batch, bool is_prepared = false);
  void prepare(const Batch& next);
  const std::vector<SampledToken>& wait();

  // The log-probabilities that a part of the last run asks for, those of its tokens' successors in the prompt: from the
  // `from`-th token of the sequence on, whose successor is the first. The part's first token was the step's `at`-th.
  // Throws Failure (device) where memory does not suffice.
  [[nodiscard]] std::vector<PromptLogprob> score_prompt(const ScheduledSequence& part, std::int64_t at,
                                                        std::int64_t from);

  // Before the first step with images, where the options have none: takes what the largest of them takes. Throws
  // Failure (device) where memory does not suffice.
  void prepare_images();

  // Of the last run, where asked for: [sampled, vocab_size].
  [[nodiscard]] std::span<const float> logits() const { return logits_; }
  // Of the program of the largest step.
  [[nodiscard]] const graph::MemoryReport& memory() const { return program().memory(); }
  [[nodiscard]] const graph::Program& program() const { return *buckets_.rbegin()->second.step->program; }
  [[nodiscard]] std::vector<Bucket> buckets() const;  // that occurred so far, and the largest

 private:
  struct Step {
    Step(std::unique_ptr<graph::Program> built, const nn::PagedCapacity& cache, const SamplingFeatures& sampling,
         std::int64_t num_lora_slots);
    void fill(const Batch& batch);
    std::unique_ptr<graph::Program> program;
    StepInputs inputs;
    std::optional<ImageStepInputs> images;
    std::int32_t ids, logprobs, logit_sums, logits, top_ids, top_logprobs, hidden;  // outputs
  };

  [[nodiscard]] SamplingFeatures features_for(const ScheduledSequence& part) const;
  [[nodiscard]] graph::Graph build_graph(const Bucket& capacity) const;
  void keep_states(nn::Context& context, ops::Value hidden) const;
  [[nodiscard]] std::shared_ptr<Step> build_step(const Bucket& capacity);
  [[nodiscard]] std::shared_ptr<Step> larger_step(const Bucket& bucket) const;  // null: none was built
  [[nodiscard]] Bucket bucket_for(const Batch& batch) const;                    // the smallest that holds it
  [[nodiscard]] Step* known_step(const Bucket& bucket);                         // which is used now; null: none is kept
  [[nodiscard]] Step& step_for(const Bucket& bucket);
  void drop_old_steps();
  void keep_drawn(const Step& step);
  void tell_processed(const Batch& batch);
  void keep_top(std::span<const std::byte> ids, std::span<const std::byte> logprobs);

  models::LoadedModel& model_;
  RunnerOptions options_;
  nn::PagedCapacity cache_;
  session::Runtime& runtime_;
  std::shared_ptr<graph::Arena> arena_;  // of all buckets, which take turns
  struct Kept {
    std::shared_ptr<Step> step;
    std::uint64_t used = 0;  // of uses_, when last
  };
  std::map<Bucket, Kept> buckets_;
  std::uint64_t uses_ = 0;
  Bucket largest_;            // of steps without images
  Step* prepared_ = nullptr;  // whose inputs hold the next batch
  Step* launched_ = nullptr;
  const Batch* batch_ = nullptr;  // of the launched step
  std::vector<SampledToken> drawn_;
  std::vector<TokenLogprob> top_;  // of all drawn tokens
  std::vector<float> logits_;
  std::deque<std::vector<TokenLogprob>> processed_;  // the likeliest of rows after penalties and filters
  std::vector<std::byte> hidden_;                    // [tokens, hidden_size] of the last run, where a part asks for it
  std::unique_ptr<PromptScorer> prompt_scorer_;
};

}  // namespace tern::engine
