#include "engine/model_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/philox.h"
#include "base/strings.h"
#include "nn/head.h"
#include "ops/gather_rows.h"
#include "ops/row_sum.h"
#include "ops/sample.h"

namespace tern::engine {
namespace {

using ops::Value;

// What a step hands to the device, filled sequence by sequence.
struct StepInputs {
  nn::TokenColumns tokens;
  std::vector<float> temperature, top_p, min_p, repetition, presence, frequency, uniform;
  std::vector<std::int32_t> top_k, history, history_len, output_begin;
};

void append_sampling(StepInputs& in, const Sequence& sequence, std::int64_t history_capacity) {
  const SamplingParams& p = sequence.params;
  in.temperature.push_back(p.temperature);
  in.top_k.push_back(p.top_k);
  in.top_p.push_back(p.top_p);
  in.min_p.push_back(p.min_p);
  in.repetition.push_back(p.repetition_penalty);
  in.presence.push_back(p.presence_penalty);
  in.frequency.push_back(p.frequency_penalty);
  const std::size_t begin = in.history.size();
  in.history.resize(begin + static_cast<std::size_t>(history_capacity), 0);
  const std::int64_t length = std::min(history_capacity, sequence.length());
  std::copy(sequence.tokens.end() - length, sequence.tokens.end(),
            in.history.begin() + static_cast<std::ptrdiff_t>(begin));
  in.history_len.push_back(static_cast<std::int32_t>(length));
  in.output_begin.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, length - sequence.generated())));
  // Philox keyed by data, not by place: whatever runs beside a request, it draws the same numbers.
  const std::uint64_t key =
      mix_key(mix_key(mix_key(p.seed, p.request), p.sample), static_cast<std::uint64_t>(sequence.length()));
  in.uniform.push_back(uniform24(philox(key, {0, 0, 0, 0})[0]));
}

// The smallest power of two that holds `needed`, cut to `most`.
std::int64_t bucket_of(std::int64_t needed, std::int64_t most) {
  return std::min(
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(needed, 1)))), most);
}

}  // namespace

ModelRunner::ModelRunner(models::LoadedModel& model, const CacheEngine& cache, const RunnerOptions& options,
                         session::Runtime& runtime)
    : model_(model), options_(options), cache_(cache.capacity()), runtime_(runtime) {
  // A lack of memory shows now.
  (void)program_for({options.max_num_batched_tokens, options.max_num_seqs, options.max_num_batched_tokens});
}

graph::Program& ModelRunner::program_for(const Bucket& needed) {
  Bucket capacity = {bucket_of(needed.tokens, options_.max_num_batched_tokens),
                     bucket_of(needed.sequences, options_.max_num_seqs), 1};
  if (needed.max_seqlen > 1) capacity.max_seqlen = capacity.tokens;
  auto& program = programs_[capacity];
  if (!program) program = runtime_.build(build_graph(capacity), model_.store);
  return *program;
}

std::vector<ModelRunner::Bucket> ModelRunner::buckets() const {
  std::vector<Bucket> out;
  for (const auto& [bucket, program] : programs_) out.push_back(bucket);
  return out;
}

graph::Graph ModelRunner::build_graph(const Bucket& capacity) const {
  graph::Graph graph;
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options_.numerics;
  build.adapters = options_.adapters;
  nn::Context context(graph, *model_.store, build);
  nn::TokenCapacity largest;
  largest.tokens = capacity.tokens;
  largest.sequences = capacity.sequences;
  largest.rows = capacity.sequences;
  largest.max_seqlen = capacity.max_seqlen;
  largest.paged = cache_;
  const nn::TokenInputs inputs = nn::declare_tokens(graph, largest);
  const Value hidden = model_.architecture->hidden_states(context, model_.config, inputs);
  // Only the rows that a token is drawn for go through the head.
  const Value last = ops::gather_rows(graph, hidden, inputs.rows, build.needs);
  const Value logits = nn::logits(context, model_.architecture->head(model_.config), last);
  const auto of_rows = [&](const char* name, tern_dtype dtype, std::int64_t width = 0) {
    return nn::declare_row_input(graph, name, dtype, largest.rows, width);
  };
  ops::SampleInputs sample;
  sample.logits = logits;
  sample.temperature = of_rows("temperature", TERN_F32);
  sample.top_k = of_rows("top_k", TERN_I32);
  sample.top_p = of_rows("top_p", TERN_F32);
  sample.min_p = of_rows("min_p", TERN_F32);
  sample.repetition = of_rows("repetition", TERN_F32);
  sample.presence = of_rows("presence", TERN_F32);
  sample.frequency = of_rows("frequency", TERN_F32);
  sample.history = of_rows("history", TERN_I32, cache_.max_kv_len);
  sample.history_len = of_rows("history_len", TERN_I32);
  sample.output_begin = of_rows("output_begin", TERN_I32);
  sample.uniform = of_rows("uniform", TERN_F32);
  const ops::SampleOut drawn = ops::sample(graph, sample, build.needs);
  graph.output("token_ids", drawn.ids);
  graph.output("logprobs", drawn.logprob);
  graph.output("logit_sums", ops::row_sum(graph, logits, {.needs = build.needs}));
  if (options_.return_logits) graph.output("logits", logits);
  return graph;
}

void ModelRunner::append_sequence(nn::TokenColumns& columns, const ScheduledSequence& part) const {
  const Sequence& sequence = *part.sequence;
  const std::int64_t block_size = cache_.block_size;
  for (std::int64_t i = part.begin; i < part.begin + part.count; ++i) {
    const std::int64_t block = sequence.blocks[static_cast<std::size_t>(i / block_size)];
    columns.ids.push_back(sequence.tokens[static_cast<std::size_t>(i)]);
    columns.positions.push_back(static_cast<std::int32_t>(i));
    columns.slots.push_back(static_cast<std::int32_t>(block * block_size + i % block_size));
  }
  columns.cu_seqlens.push_back(static_cast<std::int32_t>(columns.ids.size()));
  columns.kv_lens.push_back(static_cast<std::int32_t>(part.begin + part.count));
  const std::size_t row = columns.block_table.size();
  columns.block_table.resize(row + static_cast<std::size_t>(cache_.max_blocks), 0);
  std::copy(sequence.blocks.begin(), sequence.blocks.end(),
            columns.block_table.begin() + static_cast<std::ptrdiff_t>(row));
  if (part.samples) columns.rows.push_back(static_cast<std::int32_t>(columns.ids.size()) - 1);
}

std::vector<SampledToken> ModelRunner::run(const std::vector<ScheduledSequence>& batch) {
  StepInputs in;
  std::int64_t longest = 0;
  for (const ScheduledSequence& part : batch) {
    longest = std::max(longest, part.count);
    append_sequence(in.tokens, part);
    if (part.samples) append_sampling(in, *part.sequence, cache_.max_kv_len);
  }
  graph::RunInputs run;
  run.inputs = {{"temperature", nn::bytes_of(in.temperature)},
                {"top_k", nn::bytes_of(in.top_k)},
                {"top_p", nn::bytes_of(in.top_p)},
                {"min_p", nn::bytes_of(in.min_p)},
                {"repetition", nn::bytes_of(in.repetition)},
                {"presence", nn::bytes_of(in.presence)},
                {"frequency", nn::bytes_of(in.frequency)},
                {"history", nn::bytes_of(in.history)},
                {"history_len", nn::bytes_of(in.history_len)},
                {"output_begin", nn::bytes_of(in.output_begin)},
                {"uniform", nn::bytes_of(in.uniform)}};
  nn::give_tokens(run, in.tokens);
  graph::Program& program = program_for({run.counts[nn::kTokens], run.counts[nn::kSequences], longest});
  program.run(run);

  std::vector<SampledToken> out(in.tokens.rows.size());
  const auto ids = program.output("token_ids");
  const auto logprobs = program.output("logprobs");
  const auto sums = program.output("logit_sums");
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::memcpy(&out[i].id, ids.data() + i * sizeof(std::int32_t), sizeof(std::int32_t));
    std::memcpy(&out[i].logprob, logprobs.data() + i * sizeof(float), sizeof(float));
    std::memcpy(&out[i].logit_sum, sums.data() + i * sizeof(float), sizeof(float));
  }
  if (options_.return_logits) {
    const auto bytes = program.output("logits");
    logits_.resize(bytes.size() / sizeof(float));
    std::memcpy(logits_.data(), bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace tern::engine
