#include "engine/llm_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/cache_dtype.h"
#include "engine/draft_model.h"
#include "engine/end_ids.h"
#include "engine/known_tokens.h"
#include "engine/non_finite_logit.h"
#include "engine/stop_texts.h"
#include "models/speculative_head.h"
#include "models/vision.h"
#include "session/model_dtype.h"
#include "session/whole_numbers.h"

namespace tern::engine {
namespace {

EngineOptions completed(EngineOptions options) {
  options.max_num_batched_tokens = std::max(options.max_num_batched_tokens, options.max_num_seqs);
  if (options.speculation.num_speculative_tokens == 0) options.head = nullptr;
  return options;
}

// Few tokens and many don't round alike then: the run says so (session.cpp tells the rest).
void tell_x15(const EngineOptions& options, const models::LoadedModel& model) {
  const std::int32_t rows = model.store->device()->info().x15_rows;
  if (!options.numerics.x15 || rows == 0) return;
  if (session::multiplies_some_in(TERN_COMPUTE_X15, model, 1))
    log_info(cat("steps of up to ", rows, " tokens multiply quantised weights in x15"));
}

bool caches_prefixes(const EngineOptions& options, const models::LoadedModel& model, const CacheEngine& cache) {
  if (!options.enable_prefix_caching) return false;
  if (cache.num_state_snapshots() > 0 || !has_states(model.architecture->cache_specs(model.config))) return true;
  log_info(
      cat("no prefix cache for ", model.config.architecture,
          ": a copy of the states that its layers keep takes more than an eighth of the cache's memory, or than one "
          "sequence leaves"));
  return false;
}

// States stay on the device, and without them nothing is found: a second tier would have blocks that nobody can use.
std::unique_ptr<SwapSpace> swap_space_of(bool caches_prefixes, const EngineOptions& options,
                                         const models::LoadedModel& model, CacheEngine& cache) {
  if (!caches_prefixes || options.swap.bytes == 0) return nullptr;
  if (cache.num_state_snapshots() == 0) return make_swap_space(cache, options.swap);
  log_info(cat("nothing to keep in --swap_space for ", model.config.architecture,
               ": the states that its layers keep stay on the device"));
  return nullptr;
}

std::unique_ptr<ImageEncoder> image_encoder(models::LoadedModel& model, const EngineOptions& options,
                                            session::Runtime& runtime) {
  const bool reads = options.load_vision && model.config.vision != nullptr;
  if (!reads && !models::has_vision_weights(model)) return nullptr;
  ImageEncoderOptions encoder;
  encoder.numerics = options.numerics;
  encoder.max_patches = options.max_image_patches;
  encoder.load = options.load_vision;
  return std::make_unique<ImageEncoder>(model, std::move(encoder), runtime);
}

// What the cache leaves to the tower: nothing where that could not have it anyhow.
std::uint64_t reserved_for(const ImageEncoder* images, const accel::Device& device) {
  if (images == nullptr) return 0;
  const ImageMemory memory = images->memory_needed();
  const std::uint64_t free = device.memory().free;
  std::string line =
      cat("images: the vision tower takes at least ", human_bytes(memory.total()), " where the first one comes, ",
          human_bytes(memory.intermediates), " of them for the largest, of ", images->max_patches(), " patches");
  if (memory.total() < free) {
    log_info(line);
    return memory.total();
  }
  log_warn(cat(line, "; ", human_bytes(free), " are free, so large ones will be refused"));
  return memory.weights < free ? memory.weights : 0;
}

bool is_one_of(std::int32_t token, const std::vector<std::int32_t>& ids) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

// What a step says of every request that it touched.
void describe(const Sequence& sequence, RequestOutput& output) {
  output.id = sequence.id;
  output.finished = sequence.finish != FinishReason::none;
  output.reason = sequence.finish;
  output.prompt_tokens = sequence.prompt_length;
  output.generated_tokens = sequence.generated();
  output.cached_tokens = sequence.cached;
  output.begun = sequence.begun;
}

void begin(const Batch& batch) {
  const auto now = std::chrono::steady_clock::now();
  for (const ScheduledSequence& part : batch) {
    if (!part.sequence->begun) part.sequence->begun = now;
  }
}

// Nothing can be drawn from logits that are not finite, or where no token is allowed: the request ends, the others go
// on.
void fail(Sequence& sequence, const SampledToken& drawn, RequestOutput& output) {
  sequence.finish = FinishReason::failed;
  const std::string where = cat("request ", sequence.id, ", token ", sequence.length());
  output.error =
      std::isfinite(drawn.logit_sum)
          ? failed_error(cat(where, ": no token is allowed"),
                         "ban fewer tokens by logit_bias, or take a grammar that the model's tokens can write")
          : non_finite_logit(where, drawn.logit_sum);
}

// Of the model's layers, and of the head's behind them.
std::vector<nn::CacheSpec> cache_specs(const EngineOptions& options, const models::LoadedModel& model) {
  std::vector<nn::CacheSpec> specs = model.architecture->cache_specs(model.config);
  if (options.head == nullptr) return specs;
  for (nn::CacheSpec& spec : options.head->cache_specs()) specs.push_back(std::move(spec));
  return specs;
}

// Some of the memory is for the tower, which comes with the first image, and some for a draft model's own cache.
CacheOptions cache_beside(const ImageEncoder* images, const EngineOptions& options, const models::LoadedModel& model) {
  CacheOptions cache = cache_options(options, model);
  cache.reserved = reserved_for(images, *model.store->device());
  if (options.draft != nullptr) {
    cache.beside = options.draft->architecture->cache_specs(options.draft->config);
    cache.beside_dtype = draft_cache_dtype(*options.draft, options.cache_dtype);
  }
  return cache;
}

}  // namespace

CacheOptions cache_options(const EngineOptions& options, const models::LoadedModel& model) {
  CacheOptions cache;
  cache.dtype = options.cache_dtype.value_or(session::storable_dtype(model.store->device()->info(), model.dtype));
  check_cache_dtype(*model.store->device(), model.config, cache.dtype).value();
  cache.max_model_len = options.max_model_len;
  cache.max_num_seqs = options.max_num_seqs;
  cache.shorten = options.shorten;
  cache.memory = options.kv_cache_memory;
  cache.share = options.kv_cache_share;
  constexpr std::int64_t kSnapshotsPerSeat = 4;
  if (options.enable_prefix_caching && has_states(model.architecture->cache_specs(model.config)))
    cache.state_snapshots = kSnapshotsPerSeat * options.max_num_seqs;
  cache.guesses = options.speculation.num_speculative_tokens > 0;
  return cache;
}

LLMEngine::LLMEngine(models::LoadedModel& model, tokenizer::Tokenizer tokenizer, const EngineOptions& options,
                     session::Runtime& runtime)
    : options_(completed(options)),
      model_(model),
      tokenizer_(std::move(tokenizer)),
      vocab_size_(model.config.vocab_size),
      end_ids_(options.end_token_ids),
      images_(image_encoder(model, options_, runtime)),
      lora_(lora_slots(model, options_.lora)),
      cache_(model.store, cache_specs(options_, model), cache_beside(images_.get(), options_, model)),
      caches_prefixes_(engine::caches_prefixes(options_, model, cache_)),
      swap_(swap_space_of(caches_prefixes_, options_, model, cache_)),
      snapshots_(cache_.num_state_snapshots() > 0 ? std::make_unique<StateSnapshots>(cache_.num_state_snapshots())
                                                  : nullptr),
      scheduler_({options_.max_num_seqs, options_.max_num_batched_tokens, options_.lora.max_loras}, cache_.pool(),
                 swap_ ? &swap_->tier() : nullptr, snapshots_.get()),
      prompt_budget_(options_.target_inter_token_latency, options_.max_num_batched_tokens),
      trace_(runtime.trace()) {
  end_ids_.insert(end_ids_.end(), model.config.eos_token_ids.begin(), model.config.eos_token_ids.end());
  tell_x15(options_, model);
  RunnerOptions runner;
  runner.max_num_seqs = options_.max_num_seqs;
  runner.max_num_batched_tokens = options_.max_num_batched_tokens;
  runner.numerics = options_.numerics;
  runner.adapters = options_.adapters;
  if (lora_ != nullptr) {
    runner.lora_slots = lora_->layers();
    runner.num_lora_slots = lora_->num_slots();
  }
  runner.top_logprobs = options_.top_logprobs;
  if (options_.head != nullptr) leave_states(runner);
  const std::int64_t draft_rows = rows_of_drafts(*model.store->device(), options_.max_num_batched_tokens);
  runner.max_drafts = std::min(options_.max_num_seqs * options_.speculation.num_speculative_tokens, draft_rows - 1);
  replay_ = state_replay(runner.max_drafts, runtime);
  if (replay_) runner.replay_rows = replay_->rows();
  runner_ = std::make_unique<ModelRunner>(model, cache_, runner, runtime);
  speculation_ = Speculation(proposer(runtime), options_.speculation, draft_rows, max_model_len());
}

// The blocks that a sequence found were written to the table of another seat.
void LLMEngine::seat_found_blocks(const Batch& batch) {
  for (const ScheduledSequence& part : batch) {
    Sequence& sequence = *part.sequence;
    if (sequence.found_blocks == 0) continue;
    const std::span<const std::int32_t> blocks = sequence.blocks;
    cache_.seat_blocks(sequence.seat, blocks.first(static_cast<std::size_t>(sequence.found_blocks)));
    sequence.found_blocks = 0;
  }
}

PrefixHashes LLMEngine::prefix_hashes(const RequestImages& images, const RequestOptions& request,
                                      std::int64_t tokens) const {
  if (!caches_prefixes_) return {};
  std::vector<BlockHash> seen;
  for (const RequestImage& image : images.all()) seen.push_back(image_hash(image.image));
  const std::string_view adapter = request.adapter ? std::string_view(request.adapter->digest) : "";
  return {prefix_root(request.cache_salt, adapter), std::move(seen),
          static_cast<std::size_t>(tokens / cache_.block_size()), options_.head != nullptr ? 1 : 0};
}

CacheStatistics LLMEngine::cache_statistics() const {
  const BlockPool& pool = cache_.pool();
  const Scheduler::PrefixQueries& queries = scheduler_.prefix_queries();
  CacheStatistics out;
  out.query_tokens = queries.tokens;
  out.hit_tokens = queries.hits;
  out.swap_query_tokens = queries.swap_tokens;
  out.swap_hit_tokens = queries.swap_hits;
  out.used_blocks = pool.num_blocks() - pool.num_free();
  out.cached_blocks = pool.num_cached();
  out.total_blocks = pool.num_blocks();
  if (swap_) out.swapped_blocks = swap_->tier().num_blocks();
  return out;
}

void LLMEngine::refuse_image(SequenceId id, const RequestImage& image, const Error& why) {
  const Error error = why.inside(cat("an image of ", image.image.tokens, " tokens, which the vision tower can't read"));
  const std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
  sequence->finish = FinishReason::failed;
  speculation_.finish(*sequence);
  RequestOutput& output = next_output();
  output.error = error;
  describe(*sequence, output);
  decodings_.erase(id);
}

Result<SequenceId> LLMEngine::add_request(std::vector<std::int32_t> prompt, SamplingParams params,
                                          std::vector<session::ImagePatches> images, const RequestOptions& request) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (prompt.empty()) return data_error("prompt", "at least one token", "none", "give it some text");
  if (length >= max_model_len()) {
    return data_error("prompt", cat("fewer than ", max_model_len(), " tokens"), cat(length, " tokens"),
                      "shorten it or raise --max_model_len");
  }
  if (auto error = unknown_token(prompt, vocab_size_, tokenizer_)) return *error;
  if (auto error = impossible_sampling(params, vocab_size_, options_.top_logprobs)) return *error;
  if (request.adapter) {
    const Status fits = adapter_fits(options_.lora, request.adapter->pairs, request.adapter->name);
    if (!fits) return fits.error();
  }
  auto placed = catching([&] { return place_images(std::move(images), prompt); });
  if (!placed) return placed.error();
  auto sequence = std::make_unique<Sequence>();
  sequence->images = std::move(*placed);
  sequence->id = next_id_++;
  sequence->tokens = std::move(prompt);
  sequence->prompt_length = length;
  // A step allocates nothing.
  const std::int64_t most = length + std::clamp<std::int64_t>(params.max_new_tokens, 0, max_model_len() - length);
  sequence->tokens.reserve(static_cast<std::size_t>(most));
  sequence->blocks.reserve(static_cast<std::size_t>(cache_.pool().blocks_for(most)));
  sequence->drafts.reserve(static_cast<std::size_t>(options_.speculation.num_speculative_tokens));
  sequence->end_ids = end_ids_of(tokenizer_, end_ids_, params);
  decodings_.emplace(sequence->id, Decoding(tokenizer_, params.skip_special_tokens));
  sequence->hashes = prefix_hashes(sequence->images, request, most);
  sequence->priority = request.priority;
  sequence->cache_salt = request.cache_salt;
  sequence->adapter = request.adapter;
  // What is told of a prompt's tokens is computed, whoever computed them before.
  sequence->skip_reading_prefix_cache = request.skip_reading_prefix_cache || params.prompt_logprobs.has_value();
  sequence->params = std::move(params);
  const SequenceId id = sequence->id;
  scheduler_.add(std::move(sequence));
  return id;
}

void LLMEngine::abort(SequenceId id) {
  const auto found = decodings_.find(id);
  if (found != decodings_.end()) found->second.aborted = true;
}

// What an end token says, where the request had named it, and shows, where the request wants to see it.
void LLMEngine::end_at(const Sequence& sequence, std::int32_t token, Decoding& decoding, RequestOutput& output) const {
  const SamplingParams& params = sequence.params;
  if (is_one_of(token, params.stop_token_ids)) output.stop_token_id = token;
  const std::string piece = stop_text_of(tokenizer_, token, params);
  if (!piece.empty()) output.stop_text = piece;
  if (!params.include_stop_str_in_output) return;
  decoding.held += decoding.decoder.push(token);
  if (!piece.empty() && params.skip_special_tokens) decoding.held += decoding.decoder.flush() + piece;
}

void LLMEngine::accept(Sequence& sequence, const SampledToken& drawn, RequestOutput& output) {
  Decoding& decoding = decodings_.at(sequence.id);
  const SamplingParams& params = sequence.params;
  output.token = drawn.id;
  output.logprob = drawn.logprob;
  const auto tops = std::min(drawn.top.size(), static_cast<std::size_t>(params.top_logprobs));
  output.top.assign(drawn.top.begin(), drawn.top.begin() + static_cast<std::ptrdiff_t>(tops));
  sequence.tokens.push_back(drawn.id);
  if (params.mask != nullptr) params.mask->accept(drawn.id);
  const bool ended = is_one_of(drawn.id, sequence.end_ids);
  if (ended)
    end_at(sequence, drawn.id, decoding, output);
  else
    decoding.held += decoding.decoder.push(drawn.id);
  const bool full = sequence.generated() >= sequence.params.max_new_tokens || sequence.length() >= max_model_len();
  if (ended)
    sequence.finish = FinishReason::stop;
  else if (full)
    sequence.finish = FinishReason::length;
  if (sequence.finish != FinishReason::none) decoding.held += decoding.decoder.flush();
  const bool looks = sequence.generated() >= params.min_tokens;
  if (const FoundStop found = looks ? first_stop(decoding.held, params.stop) : FoundStop{}; found.stop != nullptr) {
    decoding.held.resize(params.include_stop_str_in_output ? found.end : found.begin);
    output.stop_text = *found.stop;
    sequence.finish = FinishReason::stop;
  }
  const std::size_t keep =
      looks && sequence.finish == FinishReason::none ? possible_stop(decoding.held, params.stop) : 0;
  output.text.assign(decoding.held, 0, decoding.held.size() - keep);
  decoding.held.erase(0, output.text.size());
}

RequestOutput& LLMEngine::next_output() {
  if (num_outputs_ == outputs_.size()) outputs_.emplace_back();
  RequestOutput& output = outputs_[num_outputs_++];
  output.text.clear();
  output.token = -1;
  output.logprob = 0;
  output.top.clear();
  output.prompt_logprobs.clear();
  output.stop_text.clear();
  output.stop_token_id.reset();
  output.error.reset();
  return output;
}

void LLMEngine::end_aborted() {
  for (auto entry = decodings_.begin(); entry != decodings_.end();) {
    if (!entry->second.aborted) {
      ++entry;
      continue;
    }
    const std::unique_ptr<Sequence> sequence = scheduler_.remove(entry->first);
    sequence->finish = FinishReason::aborted;
    speculation_.finish(*sequence);
    RequestOutput& output = next_output();
    output.text = entry->second.held + entry->second.decoder.flush();
    describe(*sequence, output);
    entry = decodings_.erase(entry);
  }
}

// Each row's draw is kept while the guess before it was what is drawn there: the very tokens of steps without guesses.
void LLMEngine::accept_rows(const ScheduledSequence& part, std::span<const SampledToken> rows) {
  Sequence& sequence = *part.sequence;
  std::int64_t right = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    RequestOutput& output = next_output();
    const SampledToken& token = rows[row];
    if (std::isfinite(token.logit_sum) && token.id >= 0) {
      accept(sequence, token, output);
    } else {
      fail(sequence, token, output);
    }
    describe(sequence, output);
    if (output.finished || row + 1 == rows.size() || sequence.drafts[row] != token.id) break;
    ++right;
  }
  sequence.computed = part.begin + part.count - part.drafts + right;
  speculation_.learn(part, right, scheduler_.num_running());
}

// A sequence that was thrown out computes its prompt again: each token is told once.
void LLMEngine::tell_prompt(const ScheduledSequence& part, std::int64_t at) {
  Sequence& sequence = *part.sequence;
  Decoding& decoding = decodings_.at(sequence.id);
  auto told = catching([&] { return runner_->score_prompt(part, at, std::max(part.begin, decoding.scored)); });
  if (told && told->empty()) return;
  RequestOutput& output = next_output();
  if (told) {
    decoding.scored = part.begin + part.count;
    output.prompt_logprobs = std::move(*told);
  } else {
    sequence.finish = FinishReason::failed;
    output.error = told.error();
  }
  describe(sequence, output);
}

void LLMEngine::accept_drawn(const Batch& batch, const std::vector<SampledToken>& drawn) {
  std::size_t next = 0;
  std::int64_t at = 0;
  for (const ScheduledSequence& part : batch) {
    part.sequence->computed = part.begin + part.count;
    if (scores_prompt(part)) tell_prompt(part, at);
    at += part.count;
    computed_tokens_ += part.count;
    if (!part.samples) continue;
    const auto rows = static_cast<std::size_t>(part.rows());
    if (part.sequence->finish == FinishReason::none) accept_rows(part, std::span(drawn).subspan(next, rows));
    part.sequence->drafts.clear();
    next += rows;
  }
  if (replay_) replay_->take_back(batch);
}

void LLMEngine::swap_blocks() {
  if (!swap_) return;
  swap_->tidy();
  if (swap_->tier().copies().empty()) return;
  const accel::TraceSpan span(trace_, "swap blocks of the cache");
  swap_->copy();
}

void LLMEngine::copy_states(const Batch& batch) {
  if (replay_) replay_->keep(batch);
  if (!snapshots_ || snapshots_->copies().empty()) return;
  const accel::TraceSpan span(trace_, "copy states");
  cache_.copy_states(snapshots_->copies());
  snapshots_->copied();
}

void LLMEngine::fill_adapter_slots() {
  scheduler_.adapters().fill_new([&](std::int32_t slot, const ServedAdapter& adapter) {
    const accel::TraceSpan span(trace_, "put an adapter on the device");
    lora_->fill(slot, adapter.pairs);
  });
}

void LLMEngine::prepare_next() {
  const accel::TraceSpan span(trace_, "prepare the next step");
  if (const Batch* next = scheduler_.prepare()) runner_->prepare(*next);
}

std::span<RequestOutput> LLMEngine::step() {
  const accel::TraceStep traced(trace_, ++steps_);
  num_outputs_ = 0;
  end_aborted();
  const Batch* scheduled = &scheduler_.schedule();
  while (!encode_images(*scheduled)) scheduled = &scheduler_.schedule();
  const Batch& batch = *scheduled;
  swap_blocks();
  if (batch.empty()) return {outputs_.data(), num_outputs_};
  copy_states(batch);
  seat_found_blocks(batch);
  fill_adapter_slots();
  const std::int64_t beside = prompt_tokens_beside_answers(batch), limit = scheduler_.prompt_limit();
  const auto began = std::chrono::steady_clock::now();
  begin(batch);
  runner_->launch(batch, scheduler_.was_prepared());
  prepare_next();
  accept_drawn(batch, runner_->wait());
  speculation_.guess(batch, scheduler_.num_running());
  for (const auto& sequence : scheduler_.collect_finished()) {
    speculation_.finish(*sequence);
    decodings_.erase(sequence->id);
  }
  swap_blocks();
  prompt_budget_.learn(beside, limit, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  scheduler_.limit_prompts(prompt_budget_.tokens());
  return {outputs_.data(), num_outputs_};
}

}  // namespace tern::engine
