#include "engine/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/philox.h"

namespace tern::engine {
namespace {

// Philox keyed by data, not by place: whatever runs beside a request, it draws the same numbers.
float uniform_of(const SamplingParams& p, std::int64_t length) {
  const std::uint64_t key = mix_key(mix_key(mix_key(p.seed, p.request), p.sample), static_cast<std::uint64_t>(length));
  return uniform24(philox(key, {0, 0, 0, 0})[0]);
}

}  // namespace

SamplingInputs declare_sampling(graph::Graph& graph, std::int64_t rows, bool penalties) {
  const auto of_rows = [&](const char* name, tern_dtype dtype) {
    return nn::declare_row_input(graph, name, dtype, rows);
  };
  SamplingInputs in;
  in.temperature = of_rows("temperature", TERN_F32);
  in.top_k = of_rows("top_k", TERN_I32);
  in.top_p = of_rows("top_p", TERN_F32);
  in.min_p = of_rows("min_p", TERN_F32);
  in.uniform = of_rows("uniform", TERN_F32);
  if (!penalties) return in;
  in.repetition = of_rows("repetition", TERN_F32);
  in.presence = of_rows("presence", TERN_F32);
  in.frequency = of_rows("frequency", TERN_F32);
  in.row_seats = of_rows("row_seats", TERN_I32);
  in.history_len = of_rows("history_len", TERN_I32);
  in.output_begin = of_rows("output_begin", TERN_I32);
  return in;
}

StepInputs::StepInputs(StepProgram& program, const nn::PagedCapacity& cache, bool penalties)
    : program_(program), cache_(cache), penalties_(penalties) {
  const auto id = [&](const char* name) { return program.input_id(name); };
  ids_.ids = id("ids");
  ids_.positions = id("positions");
  ids_.cu_seqlens = id("cu_seqlens");
  ids_.rows = id("rows");
  ids_.slots = id("slots");
  ids_.kv_lens = id("kv_lens");
  ids_.seats = id("seats");
  ids_.table_slots = id("table_slots");
  ids_.table_values = id("table_values");
  ids_.temperature = id("temperature");
  ids_.top_k = id("top_k");
  ids_.top_p = id("top_p");
  ids_.min_p = id("min_p");
  ids_.uniform = id("uniform");
  missing_.reserve(program.input(ids_.kv_lens).size() / sizeof(std::int32_t));
  if (!penalties) return;
  ids_.repetition = id("repetition");
  ids_.presence = id("presence");
  ids_.frequency = id("frequency");
  ids_.row_seats = id("row_seats");
  ids_.history_len = id("history_len");
  ids_.output_begin = id("output_begin");
}

template <typename T>
void StepInputs::put(InputId input, std::int64_t at, T value) {
  std::memcpy(program_.input(input).data() + static_cast<std::size_t>(at) * sizeof(T), &value, sizeof(T));
}

void StepInputs::fill(const Batch& batch) {
  counts_ = {};
  missing_.clear();
  put<std::int32_t>(ids_.cu_seqlens, 0, 0);
  for (const ScheduledSequence& part : batch) add(part);
  counts_[nn::kSequenceBounds] = counts_[nn::kSequences] + 1;
}

void StepInputs::add(const ScheduledSequence& part) {
  add_tokens(part);
  add_table_entries(part);
  if (part.samples) add_sampling(part);
  ++counts_[nn::kSequences];
}

void StepInputs::add_tokens(const ScheduledSequence& part) {
  const Sequence& sequence = *part.sequence;
  const std::int64_t block_size = cache_.block_size;
  std::int64_t& at = counts_[nn::kTokens];
  for (std::int64_t i = part.begin; i < part.begin + part.count; ++i, ++at) {
    const std::int64_t block = sequence.blocks[static_cast<std::size_t>(i / block_size)];
    if (i < sequence.length()) {
      put(ids_.ids, at, sequence.tokens[static_cast<std::size_t>(i)]);
    } else {
      missing_.push_back({&sequence, i, at});
    }
    put(ids_.positions, at, static_cast<std::int32_t>(i));
    put(ids_.slots, at, static_cast<std::int32_t>(block * block_size + i % block_size));
  }
  put(ids_.cu_seqlens, counts_[nn::kSequences] + 1, static_cast<std::int32_t>(at));
  put(ids_.kv_lens, counts_[nn::kSequences], static_cast<std::int32_t>(part.begin + part.count));
  put(ids_.seats, counts_[nn::kSequences], sequence.seat);
}

// The blocks that this part is the first to reach. A sequence that lost its seat begins again at its first token.
void StepInputs::add_table_entries(const ScheduledSequence& part) {
  const Sequence& sequence = *part.sequence;
  std::int64_t& at = counts_[nn::kTableEntries];
  for (std::int64_t b = (part.begin + cache_.block_size - 1) / cache_.block_size;
       b * cache_.block_size < part.begin + part.count; ++b, ++at) {
    put(ids_.table_slots, at, static_cast<std::int32_t>(sequence.seat * cache_.max_blocks + b));
    put(ids_.table_values, at, sequence.blocks[static_cast<std::size_t>(b)]);
  }
}

void StepInputs::add_sampling(const ScheduledSequence& part) {
  const SamplingParams& p = part.sequence->params;
  const std::int64_t length = part.begin + part.count;
  const std::int64_t row = counts_[nn::kRows]++;
  put(ids_.rows, row, static_cast<std::int32_t>(counts_[nn::kTokens]) - 1);
  put(ids_.temperature, row, p.temperature);
  put(ids_.top_k, row, p.top_k);
  put(ids_.top_p, row, p.top_p);
  put(ids_.min_p, row, p.min_p);
  put(ids_.uniform, row, uniform_of(p, length));
  if (!penalties_) return;
  put(ids_.repetition, row, p.repetition_penalty);
  put(ids_.presence, row, p.presence_penalty);
  put(ids_.frequency, row, p.frequency_penalty);
  put(ids_.row_seats, row, part.sequence->seat);
  put(ids_.history_len, row, static_cast<std::int32_t>(length));
  put(ids_.output_begin, row, static_cast<std::int32_t>(std::min(part.sequence->prompt_length, length)));
}

void StepInputs::put_drawn() {
  for (const Missing& missing : missing_) {
    put(ids_.ids, missing.token, missing.sequence->tokens.at(static_cast<std::size_t>(missing.position)));
  }
  missing_.clear();
}

}  // namespace tern::engine
