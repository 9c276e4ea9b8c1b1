// Requests in, text out as it comes: continuous batching over one model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/adapter_registry.h"
#include "engine/cache_engine.h"
#include "engine/image_encoder.h"
#include "engine/model_runner.h"
#include "engine/prompt_budget.h"
#include "engine/scheduler.h"
#include "engine/speculation.h"
#include "engine/state_replay.h"
#include "engine/swap_space.h"
#include "session/runtime.h"
#include "tokenizer/tokenizer.h"

namespace tern::models {
class SpeculativeHead;
}

namespace tern::engine {

struct EngineOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 512;
  double target_inter_token_latency = 0;  // seconds that an answer's next token may take beside prompts; 0: any
  std::int64_t max_model_len = 2048;      // tokens of a prompt and its answer
  bool shorten = false;  // fewer, with a line that says so, where the cache's memory does not hold them
  nn::Numerics numerics;
  std::optional<tern_dtype> cache_dtype;  // none: the model's, f32 where the device can't store it
  std::uint64_t kv_cache_memory = 0;      // bytes; 0: a share of what the device has free
  double kv_cache_share = 0.8;
  std::map<std::string, nn::LoraLayer> adapters;  // of all requests
  LoraOptions lora;                               // of those that choose
  std::int64_t top_logprobs = 0;                  // the most that a request may ask for (SamplingParams::top_logprobs)
  SpeculativeOptions speculation;
  models::LoadedModel* draft = nullptr;  // guesses tokens in the place of prompt lookup (check_draft_model)
  nn::Numerics draft_numerics;
  // Or a head that guesses from the model's hidden states, loaded into the model's store; it outlives the engine.
  const models::SpeculativeHead* head = nullptr;
  std::int64_t max_image_patches = 16384;  // of one image, where the model has a vision tower
  // Reads the tower's weights where the first image comes (models::load_vision); empty: they are there, or no request
  // has images.
  std::function<Status()> load_vision;
  std::vector<std::int32_t> end_token_ids;  // beside those of the model's config (session/end_tokens.h)
  // Requests begin behind the longest run of full blocks that earlier ones computed of the same tokens. Where layers
  // keep states, which are of all tokens so far, they begin where a copy of these was taken (state_snapshots.h).
  bool enable_prefix_caching = false;
  SwapOptions swap;  // where blocks are kept that the device gives out
};

// What a request asks of the engine, beside how its tokens are drawn.
struct RequestOptions {
  std::string cache_salt;                  // only requests with the same one find each other's blocks and answers
  std::int64_t priority = 0;               // the lowest goes first, and keeps its blocks the longest
  AdapterRef adapter;                      // null: the model alone
  bool skip_reading_prefix_cache = false;  // all of its prompt is computed, as who asks for logits of it needs
};

// The prefix cache, and what it was good for.
struct CacheStatistics {
  std::int64_t query_tokens = 0;       // of requests that were admitted
  std::int64_t hit_tokens = 0;         // of them, tokens that had been computed already
  std::int64_t swap_query_tokens = 0;  // of them, tokens that were looked for in the second tier
  std::int64_t swap_hit_tokens = 0;    // and found there
  std::int64_t used_blocks = 0;        // that requests hold
  std::int64_t cached_blocks = 0;      // that nobody holds, and that can be found
  std::int64_t total_blocks = 0;
  std::int64_t swapped_blocks = 0;  // in the second tier
};

// What one step added to a request.
struct RequestOutput {
  SequenceId id = 0;
  std::string text;               // new characters, none of a stop text unless the request wants it
  std::int32_t token = -1;        // that was drawn; -1: none, the request was aborted or failed
  float logprob = 0;              // of it, under the distribution before temperature and filters
  std::vector<TokenLogprob> top;  // the likeliest tokens in its place, as many as the request asks for
  // Of the prompt's next tokens, from its second on: outputs without a token, one for each step that computes some.
  std::vector<PromptLogprob> prompt_logprobs;
  bool finished = false;
  FinishReason reason = FinishReason::none;
  std::string stop_text;                      // the request's own that ended it; "": none did
  std::optional<std::int32_t> stop_token_id;  // the same of its own tokens
  std::optional<Error> error;  // failed: which numbers were not finite, and where; why no token was allowed, or an
                               // image was not read
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, which were not computed for this request
  std::optional<std::chrono::steady_clock::time_point> begun;  // when its first step began; before, it waited
};

// The cache of an engine with these options.
[[nodiscard]] CacheOptions cache_options(const EngineOptions& options, const models::LoadedModel& model);

class LLMEngine {
 public:
  // Any number of engines may stand over one model: each has a cache of its own. Throws what CacheEngine and
  // ModelRunner throw. A vision tower takes memory where the first image comes; the cache leaves it that, and a line
  // says how much.
  LLMEngine(models::LoadedModel& model, tokenizer::Tokenizer tokenizer, const EngineOptions& options,
            session::Runtime& runtime);

  // A stop text of one special token stops by its id, as special tokens are no part of the text. Errors (data): a
  // prompt that is empty, leaves no room for an answer or has a token that the model lacks; what no sampler can do
  // (impossible_sampling); an adapter that there is no room for; images that the model can't see, or that aren't where
  // the prompt has image tokens.
  [[nodiscard]] Result<SequenceId> add_request(std::vector<std::int32_t> prompt, SamplingParams params,
                                               std::vector<session::ImagePatches> images = {},
                                               const RequestOptions& request = {});
  // Computes one step and gives what it added, for every request that it touched: an output a token, of which guesses
  // that were right make several. They may be moved from, and are valid
  // until the next step. While the device computes, the host prepares the step after it, which holds unless a request
  // comes, ends or is aborted: then that step is scheduled when it is its turn, with the same result.
  [[nodiscard]] std::span<RequestOutput> step();
  [[nodiscard]] bool idle() const { return scheduler_.idle(); }
  // Ends a request at the next step, before anything is computed, whether it waits or runs. What was held back of its
  // text comes with that step.
  void abort(SequenceId id);

  [[nodiscard]] const std::vector<std::int32_t>& end_token_ids() const { return end_ids_; }
  [[nodiscard]] std::int64_t max_num_seqs() const { return options_.max_num_seqs; }
  [[nodiscard]] std::int64_t max_model_len() const { return cache_.max_model_len(); }
  [[nodiscard]] const CacheEngine& cache() const { return cache_; }
  [[nodiscard]] const SwapSpace* swap_space() const { return swap_.get(); }  // null: there is none
  [[nodiscard]] const ModelRunner& runner() const { return *runner_; }
  [[nodiscard]] const ImageEncoder* images() const { return images_.get(); }  // null: it takes none
  [[nodiscard]] std::int64_t num_running() const { return scheduler_.num_running(); }
  [[nodiscard]] std::int64_t num_waiting() const { return scheduler_.num_waiting(); }
  [[nodiscard]] std::int64_t num_preemptions() const { return scheduler_.num_preemptions(); }
  [[nodiscard]] std::int64_t num_computed_tokens() const { return computed_tokens_; }  // in all steps so far
  [[nodiscard]] std::set<std::string> running_adapters() const { return scheduler_.running_adapters(); }
  [[nodiscard]] std::set<std::string> waiting_adapters() const { return scheduler_.waiting_adapters(); }
  [[nodiscard]] const AdapterSlots& adapters() const { return scheduler_.adapters(); }
  [[nodiscard]] bool caches_prefixes() const { return caches_prefixes_; }
  [[nodiscard]] CacheStatistics cache_statistics() const;
  // Nobody finds what has been computed so far.
  void reset_prefix_cache() { scheduler_.reset_prefix_cache(); }
  // Weights have changed: nobody finds it, and who runs computes its tokens again.
  void forget_computed() {
    scheduler_.preempt_all();
    scheduler_.reset_prefix_cache();
    if (swap_ && swap_->files() != nullptr) swap_->files()->end_writing();
  }
  [[nodiscard]] const Guesses& guesses() const { return speculation_.guesses(); }
  [[nodiscard]] std::int64_t draft_tokens() const {
    return speculation_.draft_tokens();
  }  // that a draft model computed

 private:
  // A request's text so far: decoded, and held back while it may still become a stop text.
  struct Decoding {
    Decoding(const tokenizer::Tokenizer& tokenizer, bool skip_special_tokens)
        : decoder(tokenizer, skip_special_tokens) {}
    tokenizer::IncrementalDecoder decoder;
    std::string held;
    std::int64_t scored = 0;  // tokens of the prompt whose successor's log-probability was told
    bool aborted = false;
  };
  // An output of this step, in memory of an earlier one.
  [[nodiscard]] RequestOutput& next_output();
  void end_aborted();
  [[nodiscard]] RequestImages place_images(std::vector<session::ImagePatches> images,
                                           std::span<const std::int32_t> prompt) const;
  [[nodiscard]] PrefixHashes prefix_hashes(const RequestImages& images, const RequestOptions& request,
                                           std::int64_t tokens) const;
  void swap_blocks();
  [[nodiscard]] std::unique_ptr<Proposer> proposer(session::Runtime& runtime);
  [[nodiscard]] std::unique_ptr<Proposer> head_proposer(session::Runtime& runtime);
  void leave_states(RunnerOptions& runner);
  [[nodiscard]] std::unique_ptr<StateReplay> state_replay(std::int64_t drafts, session::Runtime& runtime);
  void copy_states(const Batch& batch);
  void fill_adapter_slots();
  [[nodiscard]] bool encode_images(const Batch& batch);
  void seat_found_blocks(const Batch& batch);
  void refuse_image(SequenceId id, const RequestImage& image, const Error& why);
  void tell_prompt(const ScheduledSequence& part, std::int64_t at);
  void accept_drawn(const Batch& batch, const std::vector<SampledToken>& drawn);
  void accept(Sequence& sequence, const SampledToken& drawn, RequestOutput& output);
  void accept_rows(const ScheduledSequence& part, std::span<const SampledToken> rows);
  void prepare_next();
  void end_at(const Sequence& sequence, std::int32_t token, Decoding& decoding, RequestOutput& output) const;

  EngineOptions options_;
  const models::LoadedModel& model_;
  tokenizer::Tokenizer tokenizer_;
  std::int64_t vocab_size_;
  std::vector<std::int32_t> end_ids_;
  std::unique_ptr<ImageEncoder> images_;
  std::unique_ptr<models::LoraSlots> lora_;  // null: requests choose no adapters
  CacheEngine cache_;
  bool caches_prefixes_;
  std::unique_ptr<SwapSpace> swap_;            // null: there is none
  std::unique_ptr<StateSnapshots> snapshots_;  // null: layers keep no states, or nobody finds prefixes
  std::optional<graph::TensorScope> states_;   // what the head guesses from
  std::unique_ptr<StateReplay> replay_;        // null: nobody guesses, or layers keep no states
  Scheduler scheduler_;
  PromptBudget prompt_budget_;
  std::unique_ptr<ModelRunner> runner_;
  Speculation speculation_;
  std::map<SequenceId, Decoding> decodings_;
  accel::Trace* trace_;  // the runtime's; null: no step is traced
  std::int64_t steps_ = 0;
  std::int64_t computed_tokens_ = 0;
  SequenceId next_id_ = 0;
  std::vector<RequestOutput> outputs_;
  std::size_t num_outputs_ = 0;  // of this step
};

}  // namespace tern::engine
