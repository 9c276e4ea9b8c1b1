#include "engine/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/philox.h"

namespace tern::engine {

float uniform_of(const SamplingParams& params, std::int64_t length) {
  const std::uint64_t stream = mix_key(mix_key(params.seed, params.request), params.sample);
  return uniform24(philox(mix_key(stream, static_cast<std::uint64_t>(length)), {0, 0, 0, 0})[0]);
}

SamplingInputs declare_sampling(graph::Graph& graph, std::int64_t rows, std::int64_t vocab_size,
                                const SamplingFeatures& features) {
  const auto of_rows = [&](const char* name, tern_dtype dtype) {
    return nn::declare_row_input(graph, name, dtype, rows);
  };
  SamplingInputs in;
  in.temperature = of_rows("temperature", TERN_F32);
  in.top_k = of_rows("top_k", TERN_I32);
  in.top_p = of_rows("top_p", TERN_F32);
  in.min_p = of_rows("min_p", TERN_F32);
  in.uniform = of_rows("uniform", TERN_F32);
  if (features.biases > 0) {
    in.bias_ids = nn::declare_row_input(graph, "bias_ids", TERN_I32, rows, features.biases);
    in.bias = nn::declare_row_input(graph, "bias", TERN_F32, rows, features.biases);
  }
  if (features.mask) in.mask = nn::declare_row_input(graph, "mask", TERN_U32, rows, (vocab_size + 31) / 32);
  if (!features.penalties) return in;
  in.repetition = of_rows("repetition", TERN_F32);
  in.presence = of_rows("presence", TERN_F32);
  in.frequency = of_rows("frequency", TERN_F32);
  in.row_seats = of_rows("row_seats", TERN_I32);
  in.history_len = of_rows("history_len", TERN_I32);
  in.output_begin = of_rows("output_begin", TERN_I32);
  return in;
}

ops::SampleInputs sample_inputs(const SamplingInputs& in, ops::Value logits) {
  ops::SampleInputs sample;
  sample.logits = logits;
  sample.temperature = in.temperature;
  sample.top_k = in.top_k;
  sample.top_p = in.top_p;
  sample.min_p = in.min_p;
  sample.uniform = in.uniform;
  sample.bias_ids = in.bias_ids;
  sample.bias = in.bias;
  sample.mask = in.mask;
  return sample;
}

template <typename Fn>
void StepInputs::each_column(Fn&& with) {
  with("ids", ids_);
  if (unread_.empty()) with("positions", positions_);
  with("cu_seqlens", cu_seqlens_);
  with("rows", rows_);
  with("slots", slots_);
  with("kv_lens", kv_lens_);
  with("seats", seats_);
  if (has_adapters_) with("adapter_slots", adapter_slots_);
  with("table_slots", table_slots_);
  with("table_values", table_values_);
  with("temperature", temperature_);
  with("top_k", top_k_);
  with("top_p", top_p_);
  with("min_p", min_p_);
  with("uniform", uniform_);
  if (features_.biases > 0) {
    with("bias_ids", bias_ids_);
    with("bias", bias_);
  }
  if (features_.mask) with("mask", mask_);
  if (!features_.penalties) return;
  with("repetition", repetition_);
  with("presence", presence_);
  with("frequency", frequency_);
  with("row_seats", row_seats_);
  with("history_len", history_len_);
  with("output_begin", output_begin_);
}

StepInputs::StepInputs(graph::Program& program, const nn::PagedCapacity& cache, const SamplingFeatures& features,
                       std::int64_t num_lora_slots)
    : program_(program),
      cache_(cache),
      features_(features),
      has_adapters_(program.input_id("adapter_slots") >= 0),
      no_adapter_(static_cast<std::int32_t>(num_lora_slots)) {
  const auto count_of = [&](const char* name, int dim = 0) {
    return static_cast<std::size_t>(program.graph().desc(program.graph().find(name)).shape[dim]);
  };
  if (program.input_id("positions") < 0) {
    unread_.resize(count_of("ids"));
    positions_.data = unread_.data();
  }
  each_column([&](const char* name, auto& column) { column.id = program.input_id(name); });
  missing_.reserve(count_of("seats"));
  if (!features.mask) return;
  masked_.reserve(count_of("mask"));
  mask_words_ = static_cast<std::int64_t>(count_of("mask", 1));
}

void StepInputs::fill(const Batch& batch) {
  each_column([&](const char*, auto& column) {
    column.data = reinterpret_cast<decltype(column.data)>(program_.input(column.id).data());
  });
  counts_ = {};
  missing_.clear();
  masked_.clear();
  cu_seqlens_[0] = 0;
  for (const ScheduledSequence& part : batch) add(part);
  counts_[nn::kSequenceBounds] = counts_[nn::kSequences] + 1;
}

void StepInputs::add(const ScheduledSequence& part) {
  add_tokens(part);
  add_table_entries(part);
  for (std::int64_t behind = part.rows() - 1; behind >= 0; --behind) add_sampling(part, behind);
  ++counts_[nn::kSequences];
}

void StepInputs::add_tokens(const ScheduledSequence& part) {
  const Sequence& sequence = *part.sequence;
  const std::int64_t block_size = cache_.block_size;
  std::int64_t& at = counts_[nn::kTokens];
  if (has_adapters_) {
    const std::int32_t slot = sequence.adapter_slot >= 0 ? sequence.adapter_slot : no_adapter_;
    std::fill_n(&adapter_slots_[at], part.count, slot);
  }
  for (std::int64_t i = part.begin; i < part.begin + part.count; ++i, ++at) {
    const std::int64_t block = sequence.blocks[static_cast<std::size_t>(i / block_size)];
    if (i < sequence.length()) {
      ids_[at] = sequence.tokens[static_cast<std::size_t>(i)];
    } else if (part.drafts > 0) {
      ids_[at] = sequence.drafts[static_cast<std::size_t>(i - sequence.length())];
    } else {
      missing_.push_back({&sequence, i, at});
    }
    positions_[at] = static_cast<std::int32_t>(sequence.images.position(i));
    slots_[at] = static_cast<std::int32_t>(block * block_size + i % block_size);
  }
  cu_seqlens_[counts_[nn::kSequences] + 1] = static_cast<std::int32_t>(at);
  kv_lens_[counts_[nn::kSequences]] = static_cast<std::int32_t>(part.begin + part.count);
  seats_[counts_[nn::kSequences]] = sequence.seat;
}

// The blocks that this part is the first to reach. A sequence that lost its seat begins again at its first token.
void StepInputs::add_table_entries(const ScheduledSequence& part) {
  const Sequence& sequence = *part.sequence;
  std::int64_t& at = counts_[nn::kTableEntries];
  for (std::int64_t b = (part.begin + cache_.block_size - 1) / cache_.block_size;
       b * cache_.block_size < part.begin + part.count; ++b, ++at) {
    table_slots_[at] = static_cast<std::int32_t>(sequence.seat * cache_.max_blocks + b);
    table_values_[at] = sequence.blocks[static_cast<std::size_t>(b)];
  }
}

// A token is drawn behind all of the part's but the last `behind`.
void StepInputs::add_sampling(const ScheduledSequence& part, std::int64_t behind) {
  const SamplingParams& p = part.sequence->params;
  const std::int64_t length = part.begin + part.count - behind;
  const std::int64_t row = counts_[nn::kRows]++;
  rows_[row] = static_cast<std::int32_t>(counts_[nn::kTokens] - 1 - behind);
  temperature_[row] = p.temperature;
  top_k_[row] = p.top_k;
  top_p_[row] = p.top_p;
  min_p_[row] = p.min_p;
  uniform_[row] = uniform_of(p, length);
  if (features_.penalties) add_penalties(*part.sequence, length, row);
  if (features_.biases > 0) add_biases(p, row);
  if (features_.mask) add_mask(*part.sequence, length, row);
}

void StepInputs::add_penalties(const Sequence& sequence, std::int64_t length, std::int64_t row) {
  const SamplingParams& p = sequence.params;
  repetition_[row] = p.repetition_penalty;
  presence_[row] = p.presence_penalty;
  frequency_[row] = p.frequency_penalty;
  row_seats_[row] = sequence.seat;
  history_len_[row] = static_cast<std::int32_t>(length);
  output_begin_[row] = static_cast<std::int32_t>(std::min(sequence.prompt_length, length));
}

void StepInputs::add_biases(const SamplingParams& params, std::int64_t row) {
  constexpr std::int32_t kNoToken = -1;  // outside of every vocabulary: skipped
  std::int64_t at = row * features_.biases;
  std::fill_n(&bias_ids_[at], features_.biases, kNoToken);
  std::fill_n(&bias_[at], features_.biases, 0.0F);
  for (const auto& [token, bias] : params.logit_bias) {
    bias_ids_[at] = token;
    bias_[at++] = bias;
  }
}

void StepInputs::add_mask(const Sequence& sequence, std::int64_t length, std::int64_t row) {
  std::fill_n(&mask_[row * mask_words_], mask_words_, ~std::uint32_t{0});
  if (!is_unmasked(sequence, length)) masked_.push_back({&sequence, length, row});
}

void StepInputs::write_mask(const Masked& masked) {
  fill_mask(*masked.sequence, masked.length,
            std::span(&mask_[masked.row * mask_words_], static_cast<std::size_t>(mask_words_)));
}

// Short of min_tokens nothing ends the answer, but for a mask's: what is complete must end.
void fill_mask(const Sequence& sequence, std::int64_t length, std::span<std::uint32_t> words) {
  const SamplingParams& p = sequence.params;
  if (p.mask != nullptr) p.mask->fill(words);
  if (length - sequence.prompt_length >= p.min_tokens) return;
  if (p.mask != nullptr && p.mask->complete()) return;
  for (const std::int32_t id : sequence.end_ids) {
    const auto word = static_cast<std::size_t>(id / 32);
    if (id >= 0 && word < words.size()) words[word] &= ~(std::uint32_t{1} << (id % 32));
  }
}

void StepInputs::put_drawn() {
  for (const Missing& missing : missing_) {
    ids_[missing.token] = missing.sequence->tokens.at(static_cast<std::size_t>(missing.position));
  }
  missing_.clear();
  for (const Masked& masked : masked_) write_mask(masked);
  masked_.clear();
}

}  // namespace tern::engine
