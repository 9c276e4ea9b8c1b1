// What a step hands to its program, written in place: tokens, changes of the block tables, and how to draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "graph/program.h"
#include "nn/token_inputs.h"

namespace tern::engine {

// Declares what a sampler takes of every row, beside the logits.
struct SamplingInputs {
  ops::Value temperature, top_k, top_p, min_p, uniform;                              // [rows]
  ops::Value repetition, presence, frequency, row_seats, history_len, output_begin;  // [rows], with penalties
};
[[nodiscard]] SamplingInputs declare_sampling(graph::Graph& graph, std::int64_t rows, bool penalties);

// The inputs of one program.
class StepInputs {
 public:
  StepInputs(graph::Program& program, const nn::PagedCapacity& cache, bool penalties);

  // Writes the inputs of the program's next launch. An id that is not drawn yet is left out until put_drawn().
  void fill(const Batch& batch);
  // Puts in the ids that were drawn since fill().
  void put_drawn();
  [[nodiscard]] const graph::Counts& counts() const { return counts_; }

 private:
  // An id that its sequence did not have when the inputs were written.
  struct Missing {
    const Sequence* sequence = nullptr;
    std::int64_t position = 0;
    std::int64_t token = 0;  // of the step
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

  // Calls `with` for each column of the program.
  template <typename Fn>
  void each_column(Fn&& with);
  void add(const ScheduledSequence& part);
  void add_tokens(const ScheduledSequence& part);
  void add_table_entries(const ScheduledSequence& part);
  void add_sampling(const ScheduledSequence& part, std::int64_t behind);

  graph::Program& program_;
  nn::PagedCapacity cache_;
  bool penalties_;
  Integers ids_, positions_, cu_seqlens_, rows_, slots_, kv_lens_, seats_, table_slots_, table_values_;
  Integers top_k_, row_seats_, history_len_, output_begin_;
  Reals temperature_, top_p_, min_p_, uniform_, repetition_, presence_, frequency_;
  graph::Counts counts_{};
  std::vector<Missing> missing_;
  std::vector<std::int32_t> unread_;  // [tokens] positions of a model that none turns; else empty
};

// Whether drawing for the sequence looks at its earlier tokens.
[[nodiscard]] inline bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}

}  // namespace tern::engine
