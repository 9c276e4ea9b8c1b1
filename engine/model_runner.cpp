#include "engine/model_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/philox.h"
#include "base/strings.h"
#include "nn/linear.h"
#include "ops/gather_rows.h"
#include "ops/sample.h"

namespace tern::engine {
namespace {

using graph::Padding;
using ops::Value;

enum CountSlot { kTokens = 0, kSequenceBounds = 1, kSequences = 2, kSampled = 3 };

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// What a step hands to the device, filled sequence by sequence.
struct StepInputs {
  std::vector<std::int32_t> ids, positions, slots, cu_seqlens{0}, kv_lens, block_table, logit_rows;
  std::vector<float> temperature, top_p, min_p, repetition, presence, frequency;
  std::vector<std::int32_t> top_k, history, history_len, output_begin;
  std::vector<std::int64_t> keys;
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
  // The draw depends on the request and the position alone, not on the batch around it.
  in.keys.push_back(static_cast<std::int64_t>(mix_key(p.seed, static_cast<std::uint64_t>(sequence.length()))));
}

// The smallest power of two that holds `needed`, cut to `most`.
std::int64_t bucket_of(std::int64_t needed, std::int64_t most) {
  return std::min(
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(needed, 1)))), most);
}

}  // namespace

ModelRunner::ModelRunner(models::LoadedModel& model, const RunnerOptions& options, accel::ChoiceCache& choices,
                         graph::ProgramOptions program_options, accel::DevicePtr host)
    : model_(model),
      options_(options),
      max_blocks_((options.max_model_len + options.block_size - 1) / options.block_size),
      choices_(choices),
      program_options_(std::move(program_options)),
      host_(std::move(host)) {
  create_cache();
  (void)program_for({options.max_num_batched_tokens, options.max_num_seqs});  // a lack of memory shows now
}

graph::Program& ModelRunner::program_for(const Bucket& needed) {
  const Bucket capacity = {bucket_of(needed.tokens, options_.max_num_batched_tokens),
                           bucket_of(needed.sequences, options_.max_num_seqs)};
  auto& program = programs_[capacity];
  if (!program) program = graph::Program::build(build_graph(capacity), model_.store, choices_, program_options_, host_);
  return *program;
}

void ModelRunner::create_cache() {
  const auto& config = model_.config;
  const TensorDesc desc = make_desc(
      options_.cache_dtype, {options_.num_blocks, options_.block_size, config.num_key_value_heads, config.head_dim});
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const char* part : {".self_attn.k_cache", ".self_attn.v_cache"}) {
      const std::string name = cat("model.layers.", layer, part);
      if (model_.store->find(name) != nullptr) model_.store->erase(name);
      model_.store->create(name, desc);
      model_.store->fill_zero(name);  // rows that no sequence reads must still be finite
    }
  }
}

graph::Graph ModelRunner::build_graph(const Bucket& capacity) const {
  graph::Graph graph;
  nn::BuildOptions build;
  build.compute = options_.compute;
  build.adapters = options_.adapters;
  nn::Context context(graph, *model_.store, build);
  const std::int64_t tokens = capacity.tokens;
  const std::int64_t sequences = capacity.sequences;
  const auto ints = [&](const char* name, std::int64_t count, CountSlot slot, Padding padding = Padding::zero) {
    return graph.input(name, with_dynamic(make_desc(TERN_I32, {count}), 0, slot), padding);
  };
  nn::TokenInputs inputs;
  inputs.ids = ints("ids", tokens, kTokens);
  inputs.positions = ints("positions", tokens, kTokens);
  inputs.slots = ints("slots", tokens, kTokens, Padding::minus_one);
  inputs.cu_seqlens = ints("cu_seqlens", sequences + 1, kSequenceBounds, Padding::repeat_last);
  inputs.kv_lens = ints("kv_lens", sequences, kSequences);
  inputs.block_table =
      graph.input("block_table", with_dynamic(make_desc(TERN_I32, {sequences, max_blocks_}), 0, kSequences));
  inputs.max_seqlen = tokens;
  inputs.max_kv_len = options_.max_model_len;
  inputs.num_blocks = options_.num_blocks;
  inputs.block_size = options_.block_size;
  inputs.cache_dtype = options_.cache_dtype;
  const Value hidden = model_.architecture->hidden_states(context, model_.config, inputs);
  // Only the rows that a token is drawn for go through the head.
  const Value last =
      ops::gather_rows(graph, hidden, ints("logit_rows", sequences, kSampled, Padding::minus_one), build.needs);
  const Value logits = nn::logits(context, models::lm_head_weight(model_.config), last);
  const auto reals = [&](const char* name) {
    return graph.input(name, with_dynamic(make_desc(TERN_F32, {sequences}), 0, kSampled));
  };
  ops::SampleInputs sample;
  sample.logits = logits;
  sample.temperature = reals("temperature");
  sample.top_k = ints("top_k", sequences, kSampled);
  sample.top_p = reals("top_p");
  sample.min_p = reals("min_p");
  sample.repetition = reals("repetition");
  sample.presence = reals("presence");
  sample.frequency = reals("frequency");
  sample.history =
      graph.input("history", with_dynamic(make_desc(TERN_I32, {sequences, options_.max_model_len}), 0, kSampled));
  sample.history_len = ints("history_len", sequences, kSampled);
  sample.output_begin = ints("output_begin", sequences, kSampled);
  sample.keys = graph.input("keys", with_dynamic(make_desc(TERN_I64, {sequences}), 0, kSampled));
  const ops::SampleOut drawn = ops::sample(graph, sample, build.needs);
  graph.output("token_ids", drawn.ids);
  graph.output("logprobs", drawn.logprob);
  if (options_.return_logits) graph.output("logits", logits);
  return graph;
}

std::vector<SampledToken> ModelRunner::run(const std::vector<ScheduledSequence>& batch) {
  StepInputs in;
  for (const ScheduledSequence& part : batch) {
    const Sequence& sequence = *part.sequence;
    for (std::int64_t i = part.begin; i < part.begin + part.count; ++i) {
      in.ids.push_back(sequence.tokens[static_cast<std::size_t>(i)]);
      in.positions.push_back(static_cast<std::int32_t>(i));
      in.slots.push_back(static_cast<std::int32_t>(sequence.blocks[static_cast<std::size_t>(i / options_.block_size)] *
                                                       options_.block_size +
                                                   i % options_.block_size));
    }
    in.cu_seqlens.push_back(static_cast<std::int32_t>(in.ids.size()));
    in.kv_lens.push_back(static_cast<std::int32_t>(part.begin + part.count));
    const std::size_t row = in.block_table.size();
    in.block_table.resize(row + static_cast<std::size_t>(max_blocks_), 0);
    std::copy(sequence.blocks.begin(), sequence.blocks.end(),
              in.block_table.begin() + static_cast<std::ptrdiff_t>(row));
    if (!part.samples) continue;
    in.logit_rows.push_back(static_cast<std::int32_t>(in.ids.size()) - 1);
    append_sampling(in, sequence, options_.max_model_len);
  }
  graph::RunInputs run;
  run.inputs = {{"ids", bytes_of(in.ids)},
                {"positions", bytes_of(in.positions)},
                {"slots", bytes_of(in.slots)},
                {"cu_seqlens", bytes_of(in.cu_seqlens)},
                {"kv_lens", bytes_of(in.kv_lens)},
                {"block_table", bytes_of(in.block_table)},
                {"logit_rows", bytes_of(in.logit_rows)},
                {"temperature", bytes_of(in.temperature)},
                {"top_k", bytes_of(in.top_k)},
                {"top_p", bytes_of(in.top_p)},
                {"min_p", bytes_of(in.min_p)},
                {"repetition", bytes_of(in.repetition)},
                {"presence", bytes_of(in.presence)},
                {"frequency", bytes_of(in.frequency)},
                {"history", bytes_of(in.history)},
                {"history_len", bytes_of(in.history_len)},
                {"output_begin", bytes_of(in.output_begin)},
                {"keys", bytes_of(in.keys)}};
  run.counts[kTokens] = static_cast<std::int64_t>(in.ids.size());
  run.counts[kSequenceBounds] = static_cast<std::int64_t>(in.cu_seqlens.size());
  run.counts[kSequences] = static_cast<std::int64_t>(batch.size());
  run.counts[kSampled] = static_cast<std::int64_t>(in.logit_rows.size());
  graph::Program& program = program_for({run.counts[kTokens], run.counts[kSequences]});
  program.run(run);

  std::vector<SampledToken> out(in.logit_rows.size());
  const auto ids = program.output("token_ids");
  const auto logprobs = program.output("logprobs");
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::memcpy(&out[i].id, ids.data() + i * sizeof(std::int32_t), sizeof(std::int32_t));
    std::memcpy(&out[i].logprob, logprobs.data() + i * sizeof(float), sizeof(float));
  }
  if (options_.return_logits) {
    const auto bytes = program.output("logits");
    logits_.resize(bytes.size() / sizeof(float));
    std::memcpy(logits_.data(), bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace tern::engine
