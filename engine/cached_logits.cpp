#include "engine/cached_logits.h"

#include <algorithm>
#include <stdexcept>

namespace tern::engine {
namespace {

CacheOptions cache_of_a_window(const ScorerOptions& options) {
  CacheOptions cache = options.cache;
  cache.max_model_len = options.max_tokens;
  cache.max_num_seqs = 1;
  cache.shorten = false;
  cache.state_snapshots = 0;  // nobody begins behind a window
  cache.guesses = false;
  return cache;
}

// Tokens that are known stand where guesses do: a step gives logits behind each.
RunnerOptions runner_options(const ScorerOptions& options) {
  RunnerOptions runner;
  runner.max_num_batched_tokens = options.step_tokens;
  runner.numerics = options.numerics;
  runner.adapters = options.adapters;
  runner.return_logits = true;
  runner.max_drafts = options.step_tokens - 1;
  return runner;
}

}  // namespace

CachedLogits::CachedLogits(models::LoadedModel& model, const ScorerOptions& options, session::Runtime& runtime)
    : step_tokens_(options.step_tokens),
      vocab_size_(static_cast<std::size_t>(model.config.vocab_size)),
      cache_(model.store, model.architecture->cache_specs(model.config), cache_of_a_window(options)),
      runner_(model, cache_, runner_options(options), runtime) {
  sequence_.seat = 1;
}

std::size_t CachedLogits::read(std::span<const std::int32_t> ids, const ScoreWindow& window) {
  const auto tokens = ids.subspan(window.begin, window.end - window.begin);
  sequence_.tokens.assign(tokens.begin(), tokens.end());
  sequence_.prompt_length = sequence_.length();
  sequence_.computed = 0;
  cache_.pool().release(sequence_.blocks);
  if (!cache_.pool().grow(sequence_.blocks, sequence_.length())) throw std::logic_error("a window has no blocks");
  before_ = static_cast<std::int64_t>(window.first - window.begin) - 1;
  return window.end - window.first;
}

std::span<const float> CachedLogits::logits(std::size_t first, std::size_t count) {
  const std::int64_t begin = before_ + static_cast<std::int64_t>(first);
  if (first == 0) compute(begin, false);
  if (begin != sequence_.computed) throw std::logic_error("logits are asked for out of order");
  logits_.clear();
  compute(begin + static_cast<std::int64_t>(count), true);
  return logits_;
}

void CachedLogits::compute(std::int64_t end, bool keep) {
  while (sequence_.computed < end) {
    const std::int64_t count = std::min(step_tokens_, end - sequence_.computed);
    (void)runner_.run({{&sequence_, sequence_.computed, count, keep, keep ? count - 1 : 0}});
    sequence_.computed += count;
    if (keep) logits_.insert(logits_.end(), runner_.logits().begin(), runner_.logits().end());
  }
}

}  // namespace tern::engine
