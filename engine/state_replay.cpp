#include "engine/state_replay.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "accel/trace.h"
#include "engine/bucket.h"
#include "nn/cache_spec.h"

namespace tern::engine {

StateReplay::StateReplay(const models::LoadedModel& model, CacheEngine& cache, const StateReplayOptions& options,
                         session::Runtime& runtime)
    : model_(model),
      cache_(cache),
      options_(options),
      runtime_(runtime),
      arena_(std::make_shared<graph::Arena>(model.store->allocator())) {
  tensors_.emplace(model.store, "rows that states are advanced by");
  const std::string scope = cache.capacity().scope;
  for (const nn::CacheSpec& spec : model.architecture->cache_specs(model.config)) {
    for (const nn::ReplaySpec& replay : spec.replays) {
      tensors_->create(nn::replay_name(scope, spec.module, replay.name),
                       make_desc(options.numerics.activations, {options.rows, replay.width}));
    }
  }
  const auto seats = static_cast<std::size_t>(options.max_num_seqs);
  copies_.reserve(seats);  // a step allocates nothing
  parts_.reserve(seats);
  (void)program_for(largest());
}

std::unique_ptr<graph::Program> StateReplay::build(const Bucket& bucket) const {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options_.numerics;
  nn::Context context(graph, *model_.store, build);
  nn::TokenCapacity capacity;
  capacity.tokens = bucket.tokens;
  capacity.sequences = bucket.sequences;
  capacity.max_seqlen = bucket.max_seqlen;
  capacity.replay_rows = options_.rows;
  capacity.paged = cache_.capacity();
  const nn::TokenInputs inputs = nn::declare_replay(graph, capacity);
  for (const nn::CacheSpec& spec : model_.architecture->cache_specs(model_.config)) {
    if (!spec.states.empty()) spec.replay(context, inputs);
  }
  graph::ProgramOptions options = runtime_.program;
  options.capture = true;
  return graph::Program::build(std::move(graph), model_.store, runtime_.choices, options, runtime_.host, arena_);
}

// Few sizes: a power of two of sequences, by one of rows.
graph::Program& StateReplay::program_for(const Bucket& bucket) {
  std::unique_ptr<graph::Program>& program = programs_[bucket];
  if (program != nullptr) return *program;
  auto built = catching([&] { return build(bucket); });
  if (built) return *(program = std::move(*built));
  programs_.erase(bucket);
  if (programs_.empty()) throw Failure(built.error());
  return *programs_.at(largest());  // memory was found for it
}

void StateReplay::keep(const Batch& step) {
  copies_.clear();
  for (const ScheduledSequence& part : step) {
    if (part.drafts == 0) continue;
    // What is left of it is that of the rows that are drawn from.
    if (part.count != part.rows()) throw std::logic_error("guesses behind tokens that nothing is drawn behind");
    copies_.push_back({false, part.sequence->seat, cache_.place_before_guesses(part.sequence->seat)});
  }
  if (copies_.empty()) return;
  const accel::TraceSpan span(runtime_.trace(), "copy states before guesses");
  cache_.copy_states(copies_);
}

void StateReplay::take_back(const Batch& step) {
  copies_.clear();
  parts_.clear();
  std::int64_t row = 0;
  for (const ScheduledSequence& part : step) {
    const Sequence& sequence = *part.sequence;
    if (part.drafts > 0 && sequence.finish == FinishReason::none && sequence.computed < part.begin + part.count) {
      parts_.push_back({sequence.seat, row, sequence.computed - part.begin, sequence.computed});
      copies_.push_back({true, sequence.seat, cache_.place_before_guesses(sequence.seat)});
    }
    row += part.rows();
  }
  if (parts_.empty()) return;
  const accel::TraceSpan span(runtime_.trace(), "take guesses back from states");
  cache_.copy_states(copies_);
  run();
  replays_ += static_cast<std::int64_t>(parts_.size());
}

void StateReplay::run() {
  Bucket bucket{0, bucket_of(static_cast<std::int64_t>(parts_.size()), options_.max_num_seqs), 1};
  for (const Part& part : parts_) {
    bucket.tokens += part.count;
    bucket.max_seqlen = std::max(bucket.max_seqlen, part.count);
  }
  bucket.tokens = bucket_of(bucket.tokens, options_.rows);
  if (bucket.max_seqlen > 1) bucket.max_seqlen = bucket.tokens;
  graph::Program& program = program_for(bucket);
  const auto column = [&](const char* name) {
    return reinterpret_cast<std::int32_t*>(program.input(program.input_id(name)).data());
  };
  std::int32_t *rows = column("replayed"), *cu_seqlens = column("cu_seqlens"), *kv_lens = column("kv_lens"),
               *seats = column("seats");
  std::int64_t token = 0;
  cu_seqlens[0] = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    for (std::int64_t at = 0; at < part.count; ++at, ++token) rows[token] = static_cast<std::int32_t>(part.row + at);
    cu_seqlens[i + 1] = static_cast<std::int32_t>(token);
    kv_lens[i] = static_cast<std::int32_t>(part.kv_len);
    seats[i] = part.seat;
  }
  graph::Counts counts{};
  counts[nn::kTokens] = token;
  counts[nn::kSequences] = static_cast<std::int64_t>(parts_.size());
  counts[nn::kSequenceBounds] = counts[nn::kSequences] + 1;
  program.launch(counts);
  program.wait();
}

}  // namespace tern::engine
