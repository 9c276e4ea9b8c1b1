// Engines with and without a prefix cache, and what requests got of them.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/llm_engine.h"
#include "tiny.h"

namespace tern::engine {

inline EngineOptions cached_engine(const accel::Device& device, bool caches) {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.max_model_len = std::max<std::int64_t>(256, 3 * device.info().preferred_kv_block + 64);
  options.enable_prefix_caching = caches;
  options.numerics.needs = TERN_NEED_ROW_INVARIANT;
  return options;
}

// Shortens the cache to what one sequence takes.
inline EngineOptions tight_engine(models::LoadedModel& model, EngineOptions options) {
  session::Runtime runtime;
  const std::uint64_t swap_space = std::exchange(options.swap.bytes, 0);
  LLMEngine roomy(model, any_tokenizer(), options, runtime);
  const auto all = static_cast<std::uint64_t>(roomy.cache().num_blocks() + 1);
  const std::uint64_t of_blocks = roomy.cache().block_bytes() * all;
  const std::uint64_t of_seats = roomy.cache().bytes() - of_blocks;
  const std::int64_t one = options.max_model_len / roomy.cache().block_size();
  options.kv_cache_memory = of_seats + roomy.cache().block_bytes() * static_cast<std::uint64_t>(one + 1);
  options.swap.bytes = swap_space;
  return options;
}

// What one request got.
struct CachedAnswer {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::int64_t cached = 0;
  friend bool operator==(const CachedAnswer& a, const CachedAnswer& b) {
    return a.tokens == b.tokens && a.logprobs == b.logprobs;
  }
};

inline std::map<SequenceId, CachedAnswer> answers_of(LLMEngine& engine) {
  std::map<SequenceId, CachedAnswer> answers;
  while (!engine.idle()) {
    for (const RequestOutput& output : engine.step()) {
      CachedAnswer& answer = answers[output.id];
      answer.tokens.push_back(output.token);
      answer.logprobs.push_back(output.logprob);
      answer.cached = output.cached_tokens;
    }
  }
  return answers;
}
inline CachedAnswer ask(LLMEngine& engine, const std::vector<std::int32_t>& prompt, const SamplingParams& params,
                        const RequestOptions& request = {}) {
  const SequenceId id = engine.add_request(prompt, params, {}, request).value();
  return answers_of(engine).at(id);
}

inline SamplingParams penalised(std::int64_t tokens) {
  SamplingParams params = greedy(tokens);
  params.repetition_penalty = 1.4F;
  params.presence_penalty = 0.3F;
  params.frequency_penalty = 0.5F;
  return params;
}

}  // namespace tern::engine
