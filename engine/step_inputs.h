// What a step hands to its program, written in place: tokens, changes of the block tables, and how to draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "engine/step_program.h"
#include "nn/token_inputs.h"

namespace tern::engine {

// Declares what a sampler takes of every row, beside the logits.
struct SamplingInputs {
  ops::Value temperature, top_k, top_p, min_p, uniform;                              // [rows]
  ops::Value repetition, presence, frequency, row_seats, history_len, output_begin;  // [rows], with penalties
};
[[nodiscard]] SamplingInputs declare_sampling(graph::Graph& graph, std::int64_t rows, bool penalties);

// The inputs of one program by their ids.
class StepInputs {
 public:
  StepInputs(StepProgram& program, const nn::PagedCapacity& cache, bool penalties);

  // Writes the inputs of the program's next launch. An id that is not drawn yet is left out until put_drawn().
  void fill(const Batch& batch);
  // Puts in the ids that were drawn since fill().
  void put_drawn();
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // An id that its sequence did not have when the inputs were written.
  struct Missing {
    const Sequence* sequence = nullptr;
    std::int64_t position = 0;
    std::int64_t token = 0;  // of the step
  };
  struct Ids {
    InputId ids, positions, cu_seqlens, rows, slots, kv_lens, seats, table_slots, table_values;
    InputId temperature, top_k, top_p, min_p, uniform;
    InputId repetition, presence, frequency, row_seats, history_len, output_begin;
  };

  template <typename T>
  void put(InputId input, std::int64_t at, T value);
  void add(const ScheduledSequence& part);
  void add_tokens(const ScheduledSequence& part);
  void add_table_entries(const ScheduledSequence& part);
  void add_sampling(const ScheduledSequence& part);

  StepProgram& program_;
  nn::PagedCapacity cache_;
  bool penalties_;
  Ids ids_{};
  Counts counts_{};
  std::vector<Missing> missing_;
};

// Whether drawing for the sequence looks at its earlier tokens.
[[nodiscard]] inline bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}

}  // namespace tern::engine
