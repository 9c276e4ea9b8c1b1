// The sequences of a launch of an op that carries a state through each of them (ops/recurrent_shared.h).
#pragma once

#include "backends/cpu/kept_memory.h"
#include "backends/cpu/kernel.h"

namespace tern::cpu {

struct RecurrentArgs {  // -1: the op has none
  int rows;             // an argument whose first dimension is cut into sequences
  int cu_seqlens;
  int kv_lens = -1;
  int seats = -1;
  int state = -1;
};

struct Recurrence {
  std::int64_t begin;  // its rows
  std::int64_t end;
  std::int64_t seat;  // of its state; 0: nobody's, or there is none
  bool goes_on;       // from its state; else from zeros

  [[nodiscard]] std::int64_t length() const { return end - begin; }
};

struct Recurrences {
  Kept<std::int32_t> bounds;   // cu_seqlens
  Kept<Recurrence> sequences;  // those that have rows
};

// Checks them: rows, seats, and that none is longer than `longest`. `op` begins what an error names.
[[nodiscard]] Recurrences read_recurrences(const KernelArgs& args, const RecurrentArgs& at, std::int64_t longest,
                                           const char* op);
// Which of the sequences each row belongs to; -1: none.
[[nodiscard]] Kept<std::int32_t> sequence_of_rows(const Recurrences& recurrences, std::int64_t rows);

// What no sequence has more rows than, for memory that grows with them.
[[nodiscard]] std::int64_t longest_of(std::int32_t max_seqlen, std::int64_t rows);

}  // namespace tern::cpu
