// What a step hands to its program, written in place: tokens, changes of the block tables, and how to draw.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "graph/program.h"
#include "nn/token_inputs.h"
#include "ops/sample.h"

namespace tern::engine {

// What some requests ask of the sampler. A program that nobody of a step asks for it does without.
struct SamplingFeatures {
  bool penalties = false;   // reads what the rows hold so far
  std::int64_t biases = 0;  // of one row
  bool mask = false;
  std::int64_t tops = 0;  // likeliest tokens that are told
  bool logits = false;    // come back to the host, for log-probabilities after penalties and filters
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison for a null pointer
  friend auto operator<=>(const SamplingFeatures&, const SamplingFeatures&) = default;
  void include(const SamplingFeatures& other) {
    penalties = penalties || other.penalties;
    biases = std::max(biases, other.biases);
    mask = mask || other.mask;
    tops = std::max(tops, other.tops);
    logits = logits || other.logits;
  }
  [[nodiscard]] bool holds(const SamplingFeatures& other) const {
    return penalties >= other.penalties && biases >= other.biases && mask >= other.mask && tops >= other.tops &&
           logits >= other.logits;
  }
};

// Declares what a sampler takes of every row, beside the logits.
struct SamplingInputs {
  ops::Value temperature, top_k, top_p, min_p, uniform;                              // [rows]
  ops::Value repetition, presence, frequency, row_seats, history_len, output_begin;  // [rows], with penalties
  ops::Value bias_ids, bias;                                                         // [rows, biases]
  ops::Value mask;                                                                   // [rows, ceil(vocab / 32)]
};
[[nodiscard]] SamplingInputs declare_sampling(graph::Graph& graph, std::int64_t rows, std::int64_t vocab_size,
                                              const SamplingFeatures& features);
// As the op takes them, without the history of penalties.
[[nodiscard]] ops::SampleInputs sample_inputs(const SamplingInputs& in, ops::Value logits);

// The inputs of one program.
class StepInputs {
 public:
  StepInputs(graph::Program& program, const nn::PagedCapacity& cache, const SamplingFeatures& features,
             std::int64_t num_lora_slots);

  // Writes the inputs of the program's next launch. An id that is not drawn yet is left out until put_drawn().
  void fill(const Batch& batch);
  // Puts in the ids that were drawn since fill(), and what they let masks allow.
  void put_drawn();
  [[nodiscard]] const graph::Counts& counts() const { return counts_; }

 private:
  // An id that its sequence did not have when the inputs were written.
  struct Missing {
    const Sequence* sequence = nullptr;
    std::int64_t position = 0;
    std::int64_t token = 0;  // of the step
  };
  // A row whose mask is written when all earlier tokens are known.
  struct Masked {
    const Sequence* sequence = nullptr;
    std::int64_t length = 0;  // tokens before the one that is drawn
    std::int64_t row = 0;
  };
  // Where the host writes an input of the next launch.
  template <typename T>
  struct Column {
    std::int32_t id = -1;
    T* data = nullptr;
    T& operator[](std::int64_t at) const { return data[at]; }
  };
  using Integers = Column<std::int32_t>;
  using Reals = Column<float>;
  using Words = Column<std::uint32_t>;

  // Calls `with` for each column of the program.
  template <typename Fn>
  void each_column(Fn&& with);
  void add(const ScheduledSequence& part);
  void add_tokens(const ScheduledSequence& part);
  void add_table_entries(const ScheduledSequence& part);
  void add_sampling(const ScheduledSequence& part, std::int64_t behind);
  void add_penalties(const Sequence& sequence, std::int64_t length, std::int64_t row);
  void add_biases(const SamplingParams& params, std::int64_t row);
  void add_mask(const Sequence& sequence, std::int64_t length, std::int64_t row);
  void write_mask(const Masked& masked);

  graph::Program& program_;
  nn::PagedCapacity cache_;
  SamplingFeatures features_;
  bool has_adapters_;            // some of the program's tokens may have one
  std::int32_t no_adapter_;      // stands where a token has none
  std::int64_t mask_words_ = 0;  // of a row
  Integers adapter_slots_, ids_, positions_, cu_seqlens_, rows_, slots_, kv_lens_, seats_, table_slots_, table_values_;
  Integers top_k_, row_seats_, history_len_, output_begin_, bias_ids_;
  Reals temperature_, top_p_, min_p_, uniform_, repetition_, presence_, frequency_, bias_;
  Words mask_;
  graph::Counts counts_{};
  std::vector<Missing> missing_;
  std::vector<Masked> masked_;
  std::vector<std::int32_t> unread_;  // [tokens] positions of a model that none turns; else empty
};

// The number that the token behind the first `length` is drawn with, in [0, 1): Philox keyed by data, not by place.
// Whatever runs beside a request, it draws the same numbers.
[[nodiscard]] float uniform_of(const SamplingParams& params, std::int64_t length);

// Whether drawing for the sequence looks at its earlier tokens.
[[nodiscard]] inline bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}

// Whether every token may be drawn behind the first `length`, whatever they are.
[[nodiscard]] inline bool is_unmasked(const Sequence& sequence, std::int64_t length) {
  const SamplingParams& p = sequence.params;
  return p.mask == nullptr && (p.min_tokens == 0 || length - sequence.prompt_length >= p.min_tokens);
}

// The tokens that may be drawn behind the first `length`; `words` allow all (TokenMask::fill).
void fill_mask(const Sequence& sequence, std::int64_t length, std::span<std::uint32_t> words);

// Whether the log-probabilities of tokens of its prompt come of this part.
[[nodiscard]] inline bool scores_prompt(const ScheduledSequence& part) {
  return part.sequence->params.prompt_logprobs.has_value() && part.begin + 1 < part.sequence->prompt_length;
}

}  // namespace tern::engine
