// Who guesses tokens for an engine.
#include "base/log.h"
#include "base/strings.h"
#include "engine/draft_model.h"
#include "engine/head_proposer.h"
#include "engine/llm_engine.h"
#include "engine/prompt_lookup.h"
#include "engine/suffix_decoding.h"
#include "engine/weight_bytes.h"
#include "models/speculative_head.h"

namespace tern::engine {
namespace {

std::string states_name(const CacheEngine& cache) { return cache.capacity().scope + "model_states"; }

}  // namespace

// Null: nobody guesses.
std::unique_ptr<Proposer> LLMEngine::proposer(session::Runtime& runtime) {
  if (options_.speculation.num_speculative_tokens == 0) return nullptr;
  if (options_.head != nullptr) return head_proposer(runtime);
  if (options_.speculation.suffix) return std::make_unique<SuffixDecoding>(options_.speculation);
  if (options_.draft == nullptr) return std::make_unique<PromptLookup>(options_.speculation);
  DraftModelOptions draft;
  draft.max_num_seqs = options_.max_num_seqs;
  draft.max_num_batched_tokens = options_.max_num_batched_tokens;
  draft.numerics = options_.draft_numerics;
  draft.step_cost = options_.speculation.draft_step_cost;
  const tern_dtype dtype = draft_cache_dtype(*options_.draft, options_.cache_dtype);
  return std::make_unique<DraftModel>(*options_.draft, model_, cache_, dtype, scheduler_, draft, runtime);
}

// A step leaves what the head guesses from.
void LLMEngine::leave_states(RunnerOptions& runner) {
  runner.states = states_name(cache_);
  runner.streams = options_.head->streams();
  states_.emplace(model_.store, "states of the speculative head");
  states_->create(runner.states, make_desc(options_.numerics.activations,
                                           {options_.max_num_batched_tokens, options_.head->state_width()}));
}

// A step draws from a row of each sequence, and from one for each guess.
std::unique_ptr<StateReplay> LLMEngine::state_replay(std::int64_t drafts, session::Runtime& runtime) {
  if (drafts <= 0 || !has_states(model_.architecture->cache_specs(model_.config))) return nullptr;
  const StateReplayOptions options{options_.max_num_seqs, options_.max_num_seqs + drafts, options_.numerics};
  return std::make_unique<StateReplay>(model_, cache_, options, runtime);
}

std::unique_ptr<Proposer> LLMEngine::head_proposer(session::Runtime& runtime) {
  const models::SpeculativeHead& head = *options_.head;
  HeadRunnerOptions options;
  options.max_num_seqs = options_.max_num_seqs;
  options.max_num_batched_tokens = options_.max_num_batched_tokens;
  options.numerics = options_.numerics;
  auto runner = std::make_unique<HeadRunner>(model_, head, cache_, states_name(cache_), options, runtime);
  const double bytes = head.bytes(*model_.store);
  const double cost = options_.speculation.draft_step_cost;
  const double step_cost = cost > 0 ? cost : bytes / weight_bytes(model_);
  log_info(cat("speculative head: a guess reads ", human_bytes(static_cast<std::uint64_t>(bytes)),
               " of weights, and is reckoned at ", fixed(step_cost, 2), " of a token"));
  return std::make_unique<HeadProposer>(std::move(runner), scheduler_, vocab_size_, step_cost,
                                        [this] { swap_blocks(); });
}

}  // namespace tern::engine
