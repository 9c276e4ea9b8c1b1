#include "engine/model_runner.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/bucket.h"
#include "engine/output_numbers.h"
#include "engine/processed_logprobs.h"
#include "nn/decoder.h"
#include "nn/head.h"
#include "nn/rope.h"
#include "nn/side_by_side.h"
#include "ops/build.h"
#include "ops/gather_rows.h"
#include "ops/row_sum.h"
#include "ops/sample.h"

namespace tern::engine {
namespace {

using ops::Value;

// The history that penalties are taken of.
void add_history(graph::Graph& graph, const nn::TokenInputs& tokens, const SamplingInputs& in,
                 ops::SampleInputs& sample) {
  if (!in.repetition.present()) return;
  sample.repetition = in.repetition;
  sample.presence = in.presence;
  sample.frequency = in.frequency;
  sample.history = tokens.token_cache;
  sample.history_table = ops::gather_rows(graph, tokens.block_tables, in.row_seats);
  sample.history_len = in.history_len;
  sample.output_begin = in.output_begin;
}

}  // namespace

ModelRunner::Step::Step(std::unique_ptr<graph::Program> built, const nn::PagedCapacity& cache,
                        const SamplingFeatures& sampling, std::int64_t num_lora_slots)
    : program(std::move(built)),
      inputs(*program, cache, sampling, num_lora_slots),
      ids(program->output_id("drawn_ids")),
      logprobs(program->output_id("logprobs")),
      logit_sums(program->output_id("logit_sums")),
      logits(program->output_id("logits")),
      top_ids(program->output_id("top_ids")),
      top_logprobs(program->output_id("top_logprobs")),
      hidden(program->output_id("hidden")) {}

void ModelRunner::Step::fill(const Batch& batch) {
  inputs.fill(batch);
  if (images) images->fill(batch);
}

ModelRunner::ModelRunner(models::LoadedModel& model, const CacheEngine& cache, const RunnerOptions& options,
                         session::Runtime& runtime)
    : model_(model),
      options_(options),
      cache_(cache.capacity()),
      runtime_(runtime),
      arena_(std::make_shared<graph::Arena>(model.store->allocator())) {
  const std::int64_t drafts = options.max_drafts;
  drawn_.reserve(static_cast<std::size_t>(options.max_num_seqs + drafts));
  top_.reserve(static_cast<std::size_t>((options.max_num_seqs + drafts) * options.top_logprobs));
  // A lack of memory shows now. With everything that requests may ask of the sampler a step takes more, and can do all
  // that another does. A device that knows no masks or no penalties serves those who ask for none.
  const std::int64_t tops = options.top_logprobs;
  Bucket largest = {
      options.max_num_batched_tokens, options.max_num_seqs, options.max_num_batched_tokens, {}, drafts, false,
      !options.lora_slots.empty()};
  for (const SamplingFeatures& sampling :
       {SamplingFeatures{true, kMostBiases, true, tops}, SamplingFeatures{true, 0, false, tops}}) {
    largest.sampling = sampling;
    const Status built = catching([&] {
      (void)step_for(largest);
      return Unit{};
    });
    if (built) break;
    largest.sampling = {.tops = tops};
  }
  (void)step_for(largest);
  largest_ = largest;
  if (options.images) prepare_images();
}

void ModelRunner::prepare_images() {
  Bucket largest = largest_;
  largest.images = true;
  (void)step_for(largest);
}

// Every row of a program pays for its widest columns, so those come in few sizes.
SamplingFeatures ModelRunner::features_for(const ScheduledSequence& part) const {
  constexpr std::int64_t kFewBiases = 16;
  SamplingFeatures features;
  if (!part.samples) return features;
  const SamplingParams& params = part.sequence->params;
  features.penalties = has_penalties(params);
  if (const auto biases = static_cast<std::int64_t>(params.logit_bias.size()); biases > 0) {
    features.biases = bucket_of(std::max(biases, kFewBiases), kMostBiases);
  }
  features.mask = !is_unmasked(*part.sequence, part.begin + part.count - part.drafts);
  features.tops = params.top_logprobs > 0 ? options_.top_logprobs : 0;
  features.logits = params.processed_logprobs && processes_logits(part);
  return features;
}

ModelRunner::Bucket ModelRunner::bucket_for(const Batch& batch) const {
  Bucket bucket{0, static_cast<std::int64_t>(batch.size()), 1};
  for (const ScheduledSequence& part : batch) {
    bucket.tokens += part.count;
    bucket.max_seqlen = std::max(bucket.max_seqlen, part.count);
    bucket.sampling.include(features_for(part));
    bucket.drafts += part.drafts;
    bucket.images = bucket.images || has_images(part);
    bucket.lora = bucket.lora || part.sequence->adapter_slot >= 0;
    bucket.hidden = bucket.hidden || scores_prompt(part);
  }
  if (bucket.drafts > 0) bucket.drafts = bucket_of(bucket.drafts, options_.max_drafts);
  bucket.tokens = bucket_of(bucket.tokens, options_.max_num_batched_tokens);
  bucket.sequences = bucket_of(bucket.sequences, options_.max_num_seqs);
  if (bucket.max_seqlen > 1) bucket.max_seqlen = bucket.tokens;
  return bucket;
}

ModelRunner::Step* ModelRunner::known_step(const Bucket& bucket) {
  const auto found = buckets_.find(bucket);
  if (found == buckets_.end()) return nullptr;
  found->second.used = ++uses_;
  return found->second.step.get();
}

ModelRunner::Step& ModelRunner::step_for(const Bucket& bucket) {
  if (Step* known = known_step(bucket)) return *known;
  std::shared_ptr<Step> step;
  try {
    step = build_step(bucket);
  } catch (const Failure& failure) {
    step = larger_step(bucket);
    if (step == nullptr) throw;
    log_warn(cat("steps of ", bucket.tokens, " tokens are computed by the program of a larger size: ", failure.what()));
  }
  Kept& kept = buckets_[bucket];
  kept = {std::move(step), ++uses_};
  drop_old_steps();
  return *kept.step;
}

// The kinds of requests multiply into more sizes than memory should hold: what was used longest ago is built again when
// it's asked for. A step is built while none runs and none is prepared.
void ModelRunner::drop_old_steps() {
  while (std::cmp_greater(buckets_.size(), std::max<std::int64_t>(options_.max_programs, 2))) {
    auto oldest = buckets_.end();
    for (auto at = buckets_.begin(); at != buckets_.end(); ++at) {
      if (at->first == largest_) continue;
      if (oldest == buckets_.end() || at->second.used < oldest->second.used) oldest = at;
    }
    buckets_.erase(oldest);
  }
}

// Memory was found for the largest step when the runner was made, so that no later size ends the run for want of it.
// Without hidden states a request for its prompt's log-probabilities fails (score_prompt), and no other.
std::shared_ptr<ModelRunner::Step> ModelRunner::larger_step(const Bucket& bucket) const {
  for (const auto& [known, kept] : buckets_) {
    if (known.tokens >= bucket.tokens && known.sequences >= bucket.sequences && known.max_seqlen >= bucket.max_seqlen &&
        known.sampling.holds(bucket.sampling) && known.drafts >= bucket.drafts && known.images == bucket.images &&
        known.lora >= bucket.lora) {
      return kept.step;
    }
  }
  return nullptr;
}

std::shared_ptr<ModelRunner::Step> ModelRunner::build_step(const Bucket& capacity) {
  graph::ProgramOptions options = runtime_.program;
  options.capture = true;  // where the device can: a step is launched as one
  options.prepare_ahead = true;
  auto step = std::make_shared<Step>(
      graph::Program::build(build_graph(capacity), model_.store, runtime_.choices, options, runtime_.host, arena_),
      cache_, capacity.sampling, options_.num_lora_slots);
  if (capacity.images) step->images.emplace(*step->program, model_);
  return step;
}

std::vector<ModelRunner::Bucket> ModelRunner::buckets() const {
  std::vector<Bucket> out;
  for (const auto& [bucket, kept] : buckets_) out.push_back(bucket);
  return out;
}

graph::Graph ModelRunner::build_graph(const Bucket& capacity) const {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options_.numerics;
  build.adapters = options_.adapters;
  if (capacity.lora) build.lora_slots = options_.lora_slots;
  nn::Context context(graph, *model_.store, build);
  nn::TokenCapacity largest;
  largest.tokens = capacity.tokens;
  largest.sequences = capacity.sequences;
  largest.rows = capacity.sequences + capacity.drafts;
  largest.max_seqlen = capacity.max_seqlen;
  largest.paged = cache_;
  largest.adapter_slots = capacity.lora;
  if (capacity.drafts > 0) largest.replay_rows = options_.replay_rows;
  if (capacity.images) largest.images = image_capacity(model_);
  const nn::TokenInputs inputs = nn::declare_tokens(graph, largest);
  context.adapter_slots = inputs.adapter_slots;
  if (inputs.images && inputs.images->rope_cos.present())
    nn::use_rope_table(context, nn::kDefaultRope, inputs.images->rope_cos, inputs.images->rope_sin);
  for (const std::int64_t layer : options_.streams) nn::want_stream(context, layer);
  const Value hidden = model_.architecture->hidden_states(context, model_.config, inputs);
  if (!options_.states.empty()) keep_states(context, hidden);
  for (const auto& [module, layer] : build.lora_slots) {
    if (!context.uses(layer.lora_a)) throw std::logic_error(cat("no layer asks for the adapters of ", module));
  }
  // Only the rows that a token is drawn for go through the head.
  const Value last = ops::gather_rows(graph, hidden, inputs.rows, build.needs);
  const Value logits = nn::logits(context, model_.architecture->head(model_.config), last);
  const SamplingInputs sampling = declare_sampling(graph, largest.rows, graph.desc(logits).shape[1], capacity.sampling);
  ops::SampleInputs sample = sample_inputs(sampling, logits);
  add_history(graph, inputs, sampling, sample);
  sample.tops = capacity.sampling.tops;
  const ops::SampleOut drawn = ops::sample(graph, sample, build.needs);
  graph.output("drawn_ids", drawn.ids);
  graph.output("logprobs", drawn.logprob);
  graph.output("logit_sums", ops::row_sum(graph, logits, {.needs = build.needs}));
  if (options_.return_logits || capacity.sampling.logits) graph.output("logits", logits);
  if (capacity.hidden) graph.output("hidden", hidden);
  if (sample.tops > 0) {
    graph.output("top_ids", drawn.top_ids);
    graph.output("top_logprobs", drawn.top_logprobs);
  }
  return graph;
}

// For the head, whose program runs after this one.
void ModelRunner::keep_states(nn::Context& context, Value hidden) const {
  graph::Graph& graph = context.graph();
  std::vector<Value> streams;
  for (const std::int64_t layer : options_.streams) streams.push_back(nn::wanted_stream(context, layer));
  if (streams.empty()) streams.push_back(hidden);
  const TensorDesc all = model_.store->at(options_.states).desc;
  const TensorDesc& rows = graph.desc(hidden);
  const Value place = graph.view(graph.resource(options_.states, all),
                                 ops::rows_like(make_desc(all.dtype, {rows.shape[0], all.shape[1]}), rows), 0);
  std::int64_t column = 0;
  for (const Value stream : streams) {
    nn::put_columns(context, stream, place, column);
    column += graph.desc(stream).shape[1];
  }
}

void ModelRunner::launch(const Batch& batch, bool is_prepared) {
  launched_ = is_prepared ? prepared_ : nullptr;
  prepared_ = nullptr;
  if (launched_ == nullptr) {
    launched_ = &step_for(bucket_for(batch));
    launched_->fill(batch);
  }
  batch_ = &batch;
  launched_->inputs.put_drawn();
  launched_->program->launch(launched_->inputs.counts());
}

void ModelRunner::prepare(const Batch& next) {
  const Bucket bucket = bucket_for(next);
  prepared_ = bucket.images ? nullptr : known_step(bucket);
  if (prepared_ != nullptr) prepared_->fill(next);
}

const std::vector<SampledToken>& ModelRunner::wait() {
  launched_->program->wait();
  keep_drawn(*launched_);
  if (launched_->logits >= 0 && batch_ != nullptr) tell_processed(*batch_);
  return drawn_;
}

const std::vector<SampledToken>& ModelRunner::run(const Batch& batch) {
  launch(batch);
  return wait();
}

void ModelRunner::keep_drawn(const Step& step) {
  const auto ids = step.program->output(step.ids);
  const auto logprobs = step.program->output(step.logprobs);
  const auto sums = step.program->output(step.logit_sums);
  drawn_.resize(ids.size() / sizeof(std::int32_t));
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    drawn_[i] = {number_at<std::int32_t>(ids, i), number_at<float>(logprobs, i), number_at<float>(sums, i), {}};
  }
  if (step.top_ids >= 0) keep_top(step.program->output(step.top_ids), step.program->output(step.top_logprobs));
  hidden_.clear();
  if (step.hidden >= 0) {
    const auto states = step.program->output(step.hidden);  // in memory that other programs take turns in
    hidden_.assign(states.begin(), states.end());
  }
  if (step.logits < 0) return;
  const auto bytes = step.program->output(step.logits);
  logits_.resize(bytes.size() / sizeof(float));
  std::memcpy(logits_.data(), bytes.data(), bytes.size());
}

// In the place of those that the device told.
void ModelRunner::tell_processed(const Batch& batch) {
  processed_.clear();
  std::size_t row = 0;
  const std::size_t vocab = drawn_.empty() ? 0 : logits_.size() / drawn_.size();
  for (const ScheduledSequence& part : batch) {
    const bool tells = part.sequence->params.processed_logprobs && part.samples && processes_logits(part);
    for (std::int64_t behind = part.rows() - 1; behind >= 0; --behind, ++row) {
      if (!tells) continue;
      SampledToken& token = drawn_[row];
      ProcessedLogprobs told = processed_logprobs(part, behind, std::span(logits_).subspan(row * vocab, vocab),
                                                  token.id, part.sequence->params.top_logprobs);
      token.logprob = told.logprob;
      token.top = processed_.emplace_back(std::move(told.tops));
    }
  }
}

std::vector<PromptLogprob> ModelRunner::score_prompt(const ScheduledSequence& part, std::int64_t at,
                                                     std::int64_t from) {
  std::vector<PromptLogprob> out;
  const Sequence& sequence = *part.sequence;
  const std::int64_t until = std::min(part.begin + part.count, sequence.prompt_length - 1);
  if (from >= until) return out;
  if (hidden_.empty()) {
    throw Failure(device_error("no memory for the log-probabilities of a prompt", "leave prompt_logprobs out"));
  }
  const graph::Graph& graph = launched_->program->graph();
  const auto output = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                   [](const graph::Output& one) { return one.name == "hidden"; });
  const TensorDesc& states = graph.desc(output->value);
  if (prompt_scorer_ == nullptr) {
    // As many rows as a step draws from, or the few that any device has memory for.
    constexpr std::int64_t kFewRows = 16;
    PromptScorerOptions options{options_.numerics, options_.adapters, states,
                                std::clamp(largest_.sequences + largest_.drafts, kFewRows, 4 * kFewRows),
                                options_.top_logprobs};
    prompt_scorer_ = std::make_unique<PromptScorer>(model_, options, runtime_, arena_);
  }
  const auto row_bytes =
      static_cast<std::size_t>(states.shape[1]) * static_cast<std::size_t>(dtype_bytes(states.dtype));
  const auto rows = static_cast<std::size_t>(until - from);
  const auto first = static_cast<std::size_t>(at + from - part.begin);
  const auto targets = std::span(sequence.tokens).subspan(static_cast<std::size_t>(from) + 1, rows);
  prompt_scorer_->score(std::span(hidden_).subspan(first * row_bytes, rows * row_bytes), targets,
                        sequence.params.prompt_logprobs.value_or(0), out);
  return out;
}

void ModelRunner::keep_top(std::span<const std::byte> ids, std::span<const std::byte> logprobs) {
  top_.resize(ids.size() / sizeof(std::int32_t));
  for (std::size_t i = 0; i < top_.size(); ++i) {
    top_[i] = {number_at<std::int32_t>(ids, i), number_at<float>(logprobs, i)};
  }
  const auto each = static_cast<std::size_t>(options_.top_logprobs);
  for (std::size_t i = 0; i < drawn_.size(); ++i) drawn_[i].top = std::span(top_).subspan(i * each, each);
}

}  // namespace tern::engine
