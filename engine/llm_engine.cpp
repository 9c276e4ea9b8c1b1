#include "engine/llm_engine.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::engine {
namespace {

EngineOptions completed(EngineOptions options) {
  if (options.kv_cache_tokens == 0) options.kv_cache_tokens = options.max_model_len * options.max_num_seqs;
  options.max_num_batched_tokens = std::max(options.max_num_batched_tokens, options.max_num_seqs);
  return options;
}

std::int64_t kv_block(const models::LoadedModel& model) {
  return std::max<std::int64_t>(1, model.store->device()->info().preferred_kv_block);
}

std::int64_t num_blocks(const EngineOptions& options, std::int64_t block) {
  const std::int64_t per_sequence = (options.max_model_len + block - 1) / block;
  return std::max((options.kv_cache_tokens + block - 1) / block, per_sequence);
}

// How many of the last characters of `text` could begin one of the stop texts.
std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = std::min(stop.empty() ? 0 : stop.size() - 1, text.size()); n > longest; --n) {
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) longest = n;
    }
  }
  return longest;
}

}  // namespace

LLMEngine::LLMEngine(models::LoadedModel& model, tokenizer::Tokenizer tokenizer, const EngineOptions& options,
                     session::Runtime& runtime)
    : options_(completed(options)),
      tokenizer_(std::move(tokenizer)),
      end_ids_(options.end_token_ids),
      cache_(num_blocks(options_, kv_block(model)), kv_block(model)),
      scheduler_({options_.max_num_seqs, options_.max_num_batched_tokens}, cache_) {
  end_ids_.insert(end_ids_.end(), model.config.eos_token_ids.begin(), model.config.eos_token_ids.end());
  RunnerOptions runner;
  runner.max_num_seqs = options_.max_num_seqs;
  runner.max_num_batched_tokens = options_.max_num_batched_tokens;
  runner.max_model_len = options_.max_model_len;
  runner.num_blocks = cache_.num_blocks();
  runner.block_size = cache_.block_size();
  runner.compute = options_.compute;
  runner.cache_dtype = options_.cache_dtype;
  runner.adapters = options_.adapters;
  runner_ = std::make_unique<ModelRunner>(model, runner, runtime);
}

Result<SequenceId> LLMEngine::add_request(std::vector<std::int32_t> prompt, SamplingParams params) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (prompt.empty()) return data_error("prompt", "at least one token", "none", "give it some text");
  if (length >= options_.max_model_len) {
    return data_error("prompt", cat("fewer than ", options_.max_model_len, " tokens"), cat(length, " tokens"),
                      "shorten it or raise --max_model_len");
  }
  for (const std::string& stop : params.stop) {
    const auto id = tokenizer_.piece_to_id(stop);
    if (id && tokenizer_.is_special(*id)) params.stop_token_ids.push_back(*id);
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->id = next_id_++;
  sequence->tokens = std::move(prompt);
  sequence->prompt_length = length;
  sequence->params = std::move(params);
  auto [place, is_new] = decodings_.emplace(sequence->id, Decoding(tokenizer_));
  place->second.sequence = sequence.get();
  const SequenceId id = sequence->id;
  scheduler_.add(std::move(sequence));
  return id;
}

void LLMEngine::abort(SequenceId id) {
  const auto found = decodings_.find(id);
  if (found != decodings_.end()) found->second.aborted = true;
}

bool LLMEngine::is_end(const Sequence& sequence, std::int32_t token) const {
  const auto& stops = sequence.params.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return true;
  return !sequence.params.ignore_eos && std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
}

void LLMEngine::accept(Sequence& sequence, Decoding& decoding, std::int32_t token, RequestOutput& output) {
  sequence.tokens.push_back(token);
  const bool ended = is_end(sequence, token);
  if (!ended) decoding.held += decoding.decoder.push(token);
  const bool full =
      sequence.generated() >= sequence.params.max_new_tokens || sequence.length() >= options_.max_model_len;
  if (ended)
    sequence.finish = FinishReason::stop;
  else if (full)
    sequence.finish = FinishReason::length;
  if (decoding.aborted) sequence.finish = FinishReason::aborted;
  if (sequence.finish != FinishReason::none) decoding.held += decoding.decoder.flush();
  for (const std::string& stop : sequence.params.stop) {
    const auto at = stop.empty() ? std::string::npos : decoding.held.find(stop);
    if (at == std::string::npos) continue;
    decoding.held.resize(at);
    sequence.finish = FinishReason::stop;
  }
  const std::size_t keep =
      sequence.finish == FinishReason::none ? possible_stop(decoding.held, sequence.params.stop) : 0;
  output.text = decoding.held.substr(0, decoding.held.size() - keep);
  decoding.held.erase(0, output.text.size());
}

std::vector<RequestOutput> LLMEngine::step() {
  const std::vector<ScheduledSequence> batch = scheduler_.schedule();
  std::vector<RequestOutput> outputs;
  if (batch.empty()) return outputs;
  const std::vector<SampledToken> sampled = runner_->run(batch);
  std::size_t next = 0;
  for (const ScheduledSequence& part : batch) {
    Sequence& sequence = *part.sequence;
    sequence.computed = part.begin + part.count;
    if (!part.samples) continue;
    RequestOutput output;
    output.id = sequence.id;
    const SampledToken& drawn = sampled[next++];
    output.token = drawn.id;
    output.logprob = drawn.logprob;
    accept(sequence, decodings_.at(sequence.id), drawn.id, output);
    output.finished = sequence.finish != FinishReason::none;
    output.reason = sequence.finish;
    output.prompt_tokens = sequence.prompt_length;
    output.generated_tokens = sequence.generated();
    outputs.push_back(std::move(output));
  }
  for (const auto& sequence : scheduler_.collect_finished()) decodings_.erase(sequence->id);
  return outputs;
}

}  // namespace tern::engine
