#include "train/micro_batch.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "nn/context.h"
#include "train/neftune.h"

namespace tern::train {
namespace {

// The masks that a device without Philox asks for, drawn as the op's contract says: the same bits as any other
// device's.
std::map<std::string, std::vector<std::uint8_t>> dropout_masks(const graph::Graph& graph, float rate,
                                                               const std::vector<std::int64_t>& keys) {
  std::map<std::string, std::vector<std::uint8_t>> masks;
  const std::string prefix = nn::dropout_mask_name(0).substr(0, nn::dropout_mask_name(0).size() - 1);
  for (const graph::Storage& storage : graph.storages()) {
    if (storage.kind != graph::StorageKind::input || !storage.name.starts_with(prefix)) continue;
    const auto site = static_cast<std::uint32_t>(std::stol(storage.name.substr(prefix.size())));
    const std::int64_t width = storage.desc.shape[1];
    auto& mask = masks[storage.name];
    mask.reserve(keys.size() * static_cast<std::size_t>(width));
    for (std::int64_t key : keys) {
      for (std::int64_t f = 0; f < width; ++f) {
        const auto block = philox(static_cast<std::uint64_t>(key), {static_cast<std::uint32_t>(f / 4), site, 0, 0});
        mask.push_back(uniform24(block[static_cast<std::size_t>(f % 4)]) >= rate ? 1 : 0);
      }
    }
  }
  return masks;
}

// [tokens] A token's place is that in its sample, whatever positions the model is told.
std::vector<std::int64_t> dropout_keys(const data::MicroBatch& batch, const MicroBatchInputs& inputs) {
  const auto samples = batch.values<std::uint32_t>(data::kSampleIds);
  std::vector<std::int64_t> keys;
  keys.reserve(batch.tokens());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto length = static_cast<std::uint64_t>(batch.cu_seqlens[i + 1] - batch.cu_seqlens[i]);
    for (std::uint64_t t = 0; t < length; ++t) keys.push_back(dropout_key(inputs.seed, inputs.epoch, samples[i], t));
  }
  return keys;
}

template <typename T>
std::vector<T> copied(std::span<const T> values) {
  return {values.begin(), values.end()};
}

// `rows`: the supervised positions, rising. A row is right where no logit is above its target's.
Hits hits_of(const data::MicroBatch& batch, std::span<const std::int32_t> rows, std::span<const float> most,
             std::span<const float> target) {
  Hits hits;
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.samples(); ++i) {
    const std::size_t begin = row;
    const std::int64_t before = hits.right_tokens;
    for (; row < rows.size() && rows[row] < batch.cu_seqlens[i + 1]; ++row) {
      if (target[row] >= most[row]) ++hits.right_tokens;
    }
    const auto count = static_cast<std::int64_t>(row - begin);
    hits.tokens += count;
    if (count == 0) continue;
    ++hits.samples;
    if (hits.right_tokens - before == count) ++hits.right_samples;
  }
  return hits;
}

std::span<const float> floats_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::size_t pooled_width(const graph::Graph& graph) {
  for (const auto& output : graph.outputs()) {
    if (output.name == "pooled") return static_cast<std::size_t>(graph.desc(output.value).shape[1]);
  }
  throw std::logic_error("a graph without pooled outputs");
}

}  // namespace

std::int64_t dropout_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample, std::uint64_t position) {
  return static_cast<std::int64_t>(mix_key(mix_key(mix_key(seed, epoch), sample), position));
}

MicroBatchRunner::MicroBatchRunner(const models::LoadedModel& model, TrainingGraphOptions options,
                                   session::Runtime& runtime, std::shared_ptr<graph::Arena> arena)
    : model_(model),
      options_(std::move(options)),
      runtime_(runtime),
      arena_(arena ? std::move(arena) : std::make_shared<graph::Arena>(model.store->allocator())) {}

graph::Program& MicroBatchRunner::program_for(const Capacity& needed) {
  Capacity capacity = options_.capacity;
  const bool dynamic = model_.store->device()->can(TERN_CAP_DYNAMIC_SHAPES);
  if (!dynamic || grown_ > 0) {
    // Doubling buckets: at most half of what is computed is padding, and few programs are compiled.
    std::int64_t tokens = dynamic ? grown_ : kSmallestBucket;
    while (tokens < std::min(needed.tokens, capacity.tokens)) tokens *= 2;
    if (dynamic) grown_ = tokens;
    capacity.tokens = std::min(capacity.tokens, tokens);
    capacity.loss_rows = std::min(capacity.loss_rows, capacity.tokens);
    capacity.max_seqlen = std::min(capacity.max_seqlen, capacity.tokens);
  }
  if (dynamic && !programs_.contains(capacity.tokens)) programs_.clear();  // it is outgrown: its memory goes first
  if (const auto known = programs_.find(capacity.tokens); known != programs_.end()) return *known->second;
  TrainingGraphOptions options = options_;
  options.capacity = capacity;
  graph::Counts typical{};
  typical[nn::kTokens] = std::min(options_.typical_tokens, capacity.tokens);
  std::shared_ptr<graph::Program> program;
  try {
    program = runtime_.build(build_training_graph(model_, options), model_.store, arena_, typical);
  } catch (const Failure& failure) {
    // Memory was found for the largest, so that no later size ends the run for want of it.
    const auto larger = programs_.upper_bound(capacity.tokens);
    if (larger == programs_.end()) throw;
    log_warn(cat("micro-batches of ", capacity.tokens,
                 " tokens are computed by the program of a larger size: ", failure.what()));
    program = larger->second;
  }
  return *programs_.emplace(capacity.tokens, std::move(program)).first->second;
}

void MicroBatchRunner::train(std::vector<std::string> parameters) {
  programs_.clear();
  options_.trainable = std::move(parameters);
}

const graph::Program& MicroBatchRunner::prepare() { return program_for(grown_ > 0 ? Capacity{} : options_.capacity); }

void MicroBatchRunner::prepare(const std::set<std::int64_t>& sizes) {
  // The larger first: the others lie in its memory.
  for (auto tokens = sizes.rbegin(); tokens != sizes.rend(); ++tokens) {
    Capacity needed;
    needed.tokens = *tokens;
    (void)program_for(needed);
  }
}

void MicroBatchRunner::fill_tokens(const data::MicroBatch& batch, const MicroBatchInputs& inputs,
                                   nn::TokenColumns& tokens) const {
  tokens.ids = copied(batch.values<std::int32_t>(data::kIds));
  tokens.positions = copied(batch.values<std::int32_t>(data::kPositions));
  tokens.cu_seqlens = batch.cu_seqlens;
  if (options_.dropout) tokens.dropout_keys = dropout_keys(batch, inputs);
}

std::vector<float> MicroBatchRunner::run_pooled(const data::MicroBatch& batch, const MicroBatchInputs& inputs,
                                                std::span<const float> gradient) {
  const accel::TraceSpan span(runtime_.trace(), "micro-batch");
  nn::TokenColumns tokens;
  fill_tokens(batch, inputs, tokens);
  Capacity needed;
  needed.tokens = static_cast<std::int64_t>(batch.tokens());
  graph::Program& program = program_for(needed);
  const models::PooledOutputOptions pooled = pooled_options(options_);
  std::vector<std::int32_t> text_of_token;
  std::vector<float> shares(static_cast<std::size_t>(options_.capacity.sequences), 0.0F);
  for (std::size_t i = 0; i < batch.samples(); ++i) {
    const std::int32_t begin = batch.cu_seqlens[i];
    const auto text =
        std::span(tokens.ids)
            .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(batch.cu_seqlens[i + 1] - begin));
    if (pooled.pooling != models::Pooling::mean) {
      tokens.rows.push_back(begin + models::pooled_row(model_.config, pooled, text));
      continue;
    }
    text_of_token.insert(text_of_token.end(), text.size(), static_cast<std::int32_t>(i));
    shares[i] = 1.0F / static_cast<float>(text.size());
  }
  graph::RunInputs run;
  nn::give_tokens(run, tokens);
  run.inputs["texts"] = nn::bytes_of(text_of_token);
  run.inputs["shares"] = nn::bytes_of(shares);
  const std::size_t width = pooled_width(program.graph());
  std::vector<float> gradients(gradient.begin(), gradient.end());
  gradients.resize(static_cast<std::size_t>(options_.capacity.sequences) * width, 0.0F);
  if (pooled.pooling != models::Pooling::mean) gradients.resize(batch.samples() * width);
  run.inputs["pooled_gradient"] = nn::bytes_of(gradients);
  std::map<std::string, std::vector<std::uint8_t>> masks;
  if (options_.dropout) {
    masks = dropout_masks(program.graph(), options_.lora_dropout, tokens.dropout_keys);
    for (const auto& [name, mask] : masks) run.inputs[name] = nn::bytes_of(mask);
  }
  program.run(run);
  std::vector<float> out(batch.samples() * width);
  std::memcpy(out.data(), program.output("pooled").data(), out.size() * sizeof(float));
  return out;
}

double MicroBatchRunner::run(const data::MicroBatch& batch, const MicroBatchInputs& inputs) {
  if (options_.pooled) {
    (void)run_pooled(batch, inputs);
    return 0;
  }
  const accel::TraceSpan span(runtime_.trace(), "micro-batch");
  nn::TokenColumns tokens;
  fill_tokens(batch, inputs, tokens);
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
  const auto labels = batch.values<std::int32_t>(data::kLabels);
  const auto label_weights = batch.values<float>(data::kLossWeights);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] == data::kNoLabel || label_weights[t] == 0.0F) continue;
    tokens.rows.push_back(static_cast<std::int32_t>(t));
    targets.push_back(labels[t]);
    const double weight = static_cast<double>(label_weights[t]) / inputs.loss_divisor;
    weights.push_back(static_cast<float>(weight * inputs.loss_scale));
  }
  Capacity needed;
  needed.tokens = static_cast<std::int64_t>(batch.tokens());
  graph::Program& program = program_for(needed);
  graph::RunInputs run;
  nn::give_tokens(run, tokens);
  run.inputs["loss_rows"] = nn::bytes_of(tokens.rows);
  run.inputs["targets"] = nn::bytes_of(targets);
  run.inputs["loss_weights"] = nn::bytes_of(weights);
  std::vector<float> noise;
  if (has_noise(options_)) {
    noise = embedding_noise(batch, inputs, options_.neftune_noise_alpha, model_.config.hidden_size);
    run.inputs["embedding_noise"] = nn::bytes_of(noise);
  }
  std::map<std::string, std::vector<std::uint8_t>> masks;
  if (options_.dropout) {
    masks = dropout_masks(program.graph(), options_.lora_dropout, tokens.dropout_keys);
    for (const auto& [name, mask] : masks) run.inputs[name] = nn::bytes_of(mask);
  }
  program.run(run);
  float loss = 0;
  std::memcpy(&loss, program.output("loss").data(), sizeof(loss));
  if (program.output_id(kRowMax) >= 0) {
    hits_.add(hits_of(batch, tokens.rows, floats_of(program.output(kRowMax)), floats_of(program.output(kRowTarget))));
  }
  return static_cast<double>(loss) / inputs.loss_scale;
}

std::optional<graph::NonFinite> MicroBatchRunner::first_non_finite(const data::MicroBatch& batch,
                                                                   const MicroBatchInputs& inputs) {
  struct Probed {
    session::Runtime& runtime;
    std::shared_ptr<graph::NodeProbe> other;
    ~Probed() { runtime.program.probe = std::move(other); }
  };
  const auto probe = std::make_shared<graph::FiniteProbe>();
  const Probed probed{runtime_, std::exchange(runtime_.program.probe, probe)};
  const auto tokens = static_cast<std::int64_t>(batch.tokens());
  TrainingGraphOptions options = options_;
  options.capacity = {tokens, static_cast<std::int64_t>(batch.samples()), tokens, batch.longest};
  (void)MicroBatchRunner(model_, std::move(options), runtime_, arena_).run(batch, inputs);
  return probe->first();
}

}  // namespace tern::train
