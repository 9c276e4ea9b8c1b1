#include "engine/head_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "engine/bucket.h"
#include "engine/head_inputs.h"
#include "engine/output_numbers.h"
#include "engine/step_inputs.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/gather_rows.h"
#include "ops/row_sum.h"
#include "ops/sample.h"

namespace tern::engine {
namespace {

using ops::Value;

constexpr std::size_t kMostPrograms = 64;  // beside the largest; then they're built anew as they come

}  // namespace

HeadRunner::HeadRunner(const models::LoadedModel& model, const models::SpeculativeHead& head, const CacheEngine& cache,
                       std::string states, const HeadRunnerOptions& options, session::Runtime& runtime)
    : model_(model),
      head_(head),
      model_states_(std::move(states)),
      own_states_(cache.capacity().scope + "head_states"),
      options_(options),
      cache_(cache.capacity()),
      runtime_(runtime),
      arena_(std::make_shared<graph::Arena>(model.store->allocator())) {
  tensors_.emplace(model.store, "speculative head");
  tensors_->create(own_states_, make_desc(options.numerics.activations, {options.max_num_seqs, head.hidden_size()}));
  drawn_.reserve(static_cast<std::size_t>(options.max_num_seqs));
  const std::int64_t tokens = options.max_num_batched_tokens, sequences = options.max_num_seqs;
  (void)program_for({tokens, sequences, tokens, true, States::of_model});
  (void)program_for({sequences, sequences, 1, true, States::of_head});
}

HeadRunner::Bucket HeadRunner::bucket_for(std::span<const HeadPart> parts, States from) const {
  Bucket bucket{0, bucket_of(static_cast<std::int64_t>(parts.size()), options_.max_num_seqs), 1, false, from};
  for (const HeadPart& part : parts) {
    bucket.tokens += part.count;
    bucket.max_seqlen = std::max(bucket.max_seqlen, part.count);
    bucket.draws = bucket.draws || part.draws;
  }
  bucket.tokens =
      bucket_of(bucket.tokens, from == States::of_head ? options_.max_num_seqs : options_.max_num_batched_tokens);
  if (bucket.max_seqlen > 1) bucket.max_seqlen = bucket.tokens;
  return bucket;
}

graph::Graph HeadRunner::build_graph(const Bucket& capacity) const {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options_.numerics;
  nn::Context context(graph, *model_.store, build);
  nn::TokenCapacity largest;
  largest.tokens = capacity.tokens;
  largest.sequences = capacity.sequences;
  largest.rows = capacity.draws ? capacity.sequences : 0;
  largest.max_seqlen = capacity.max_seqlen;
  largest.paged = cache_;
  const nn::TokenInputs inputs = nn::declare_tokens(graph, largest);
  const TensorDesc ids = graph.desc(inputs.ids);
  const Value next_ids = graph.input(kNextIds, ids);
  const Value state_rows = graph.input(kStateRows, ids);
  const bool is_first = capacity.from == States::of_model;
  const std::string& given = is_first ? model_states_ : own_states_;
  const Value all = graph.resource(given, model_.store->at(given).desc);
  const Value states = ops::gather_rows(graph, all, state_rows, build.needs);
  const Value after =
      head_.next_states(context, inputs, next_ids, is_first ? head_.first_states(context, states) : states);
  if (!capacity.draws) return graph;
  const Value last = ops::gather_rows(graph, after, inputs.rows, build.needs);
  const Value own = is_first ? graph.resource(own_states_, model_.store->at(own_states_).desc) : graph.latest(all);
  const TensorDesc& rows = graph.desc(last);
  ops::CastCopyOptions copy;
  copy.out = graph.desc(own).dtype;
  copy.at = graph.view(own, ops::rows_like(make_desc(copy.out, {rows.shape[0], rows.shape[1]}), rows), 0);
  copy.needs = build.needs;
  (void)ops::cast_copy(graph, last, copy);
  const Value logits = head_.logits(context, last);
  const SamplingInputs sampling = declare_sampling(graph, largest.rows, graph.desc(logits).shape[1], {});
  const ops::SampleOut drawn = ops::sample(graph, sample_inputs(sampling, logits), build.needs);
  graph.output("drawn_ids", drawn.ids);
  graph.output("logit_sums", ops::row_sum(graph, logits, {.needs = build.needs}));
  if (options_.return_logits) graph.output("logits", logits);
  return graph;
}

std::shared_ptr<graph::Program> HeadRunner::build(const Bucket& bucket) {
  graph::ProgramOptions options = runtime_.program;
  options.capture = true;
  return graph::Program::build(build_graph(bucket), model_.store, runtime_.choices, options, runtime_.host, arena_);
}

// Memory was found for the largest steps when the runner was made, so that no later size ends the run for want of it.
graph::Program& HeadRunner::program_for(const Bucket& bucket) {
  if (const auto found = programs_.find(bucket); found != programs_.end()) return *found->second;
  const std::int64_t tokens = bucket.from == States::of_model ? options_.max_num_batched_tokens : options_.max_num_seqs;
  const Bucket largest{tokens, options_.max_num_seqs, bucket.from == States::of_model ? tokens : 1, true, bucket.from};
  std::shared_ptr<graph::Program> program;
  try {
    program = build(bucket);
  } catch (const Failure& failure) {
    const auto found = programs_.find(largest);
    if (found == programs_.end()) throw;
    log_warn(cat("guesses from ", bucket.tokens,
                 " tokens are computed by the program of the largest step: ", failure.what()));
    program = found->second;
  }
  if (programs_.size() > kMostPrograms + 1) {
    std::erase_if(programs_,
                  [&](const auto& one) { return one.first.sequences < options_.max_num_seqs || !one.first.draws; });
  }
  return *programs_.insert_or_assign(bucket, std::move(program)).first->second;
}

std::span<const SampledToken> HeadRunner::run(std::span<const HeadPart> parts, States from) {
  const Bucket bucket = bucket_for(parts, from);
  graph::Program& program = program_for(bucket);
  program.launch(fill_head_inputs(program, cache_, parts));
  program.wait();
  drawn_.clear();
  if (bucket.draws) keep_drawn(program);
  return drawn_;
}

void HeadRunner::keep_drawn(const graph::Program& program) {
  const auto ids = program.output("drawn_ids");
  const auto sums = program.output("logit_sums");
  const std::vector<std::int32_t>& targets = head_.target_ids();
  for (std::size_t i = 0; i < ids.size() / sizeof(std::int32_t); ++i) {
    const auto id = number_at<std::int32_t>(ids, i);
    const bool is_mapped = id >= 0 && !targets.empty();
    drawn_.push_back({is_mapped ? targets[static_cast<std::size_t>(id)] : id, 0.0F, number_at<float>(sums, i), {}});
  }
  if (!options_.return_logits) return;
  const auto bytes = program.output("logits");
  logits_.resize(bytes.size() / sizeof(float));
  std::memcpy(logits_.data(), bytes.data(), bytes.size());
}

}  // namespace tern::engine
