// Requests in, text out as it comes: continuous batching over one model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "engine/scheduler.h"
#include "session/runtime.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

struct EngineOptions {
  std::int64_t max_num_seqs = 1;
  std::int64_t max_num_batched_tokens = 512;
  std::int64_t max_model_len = 2048;
  std::int64_t kv_cache_tokens = 0;  // 0: max_model_len for each seat
  tern_dtype compute = TERN_F32;
  tern_dtype cache_dtype = TERN_F32;
  std::map<std::string, nn::LoraLayer> adapters;
  std::vector<std::int32_t> end_token_ids;  // beside those of the model's config (session/end_tokens.h)
};

// What one step added to a request.
struct RequestOutput {
  SequenceId id = 0;
  std::string text;        // new characters, none of a stop text
  std::int32_t token = 0;  // that was drawn
  float logprob = 0;       // of it, under the distribution before temperature and filters
  bool finished = false;
  FinishReason reason = FinishReason::none;
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
};

class LLMEngine {
 public:
  LLMEngine(models::LoadedModel& model, tokenizer::Tokenizer tokenizer, const EngineOptions& options,
            session::Runtime& runtime);

  // A stop text of one special token stops by its id, as special tokens are no part of the text. Errors (data): a
  // prompt that is empty or leaves no room for an answer.
  [[nodiscard]] Result<SequenceId> add_request(std::vector<std::int32_t> prompt, SamplingParams params);
  // Computes one step and gives what it added, for every request that it touched.
  [[nodiscard]] std::vector<RequestOutput> step();
  [[nodiscard]] bool idle() const { return scheduler_.idle(); }
  // Ends a request at the next step.
  void abort(SequenceId id);

  [[nodiscard]] std::int64_t max_num_seqs() const { return options_.max_num_seqs; }
  [[nodiscard]] std::int64_t max_model_len() const { return options_.max_model_len; }
  [[nodiscard]] const ModelRunner& runner() const { return *runner_; }

 private:
  // A request's text so far: decoded, and held back while it may still become a stop text.
  struct Decoding {
    explicit Decoding(const tokenizer::Tokenizer& tokenizer) : decoder(tokenizer, true) {}
    Sequence* sequence = nullptr;
    tokenizer::IncrementalDecoder decoder;
    std::string held;
    bool aborted = false;
  };
  void accept(Sequence& sequence, Decoding& decoding, std::int32_t token, RequestOutput& output);
  [[nodiscard]] bool is_end(const Sequence& sequence, std::int32_t token) const;

  EngineOptions options_;
  tokenizer::Tokenizer tokenizer_;
  std::vector<std::int32_t> end_ids_;
  CacheEngine cache_;
  Scheduler scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  std::map<SequenceId, Decoding> decodings_;
  SequenceId next_id_ = 0;
};

}  // namespace tern::engine
