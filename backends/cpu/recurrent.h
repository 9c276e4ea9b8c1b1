// The sequences of a launch of an op that carries a state through each of them (ops/recurrent_shared.h).
#pragma once

#include "backends/cpu/kept_memory.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/walk.h"

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

// Tensors [rows, heads, n] line by line, in fp32, and such of a number each, [rows, heads] f32.
class HeadLines {
 public:
  explicit HeadLines(const KernelArgs& args) : io_(args) {}

  // `n` elements from `first` on: where they lie, or in `buffer`.
  const float* load(const TensorView& view, std::int64_t row, std::int64_t head, std::int64_t first, std::int64_t n,
                    float* buffer) const {
    return io_.load(view, at(view, row, head) + first * view.stride(2), view.stride(2), n, buffer);
  }
  const float* load(const TensorView& view, std::int64_t row, std::int64_t head, float* buffer) const {
    return load(view, row, head, 0, view.dim(2), buffer);
  }
  void store(const TensorView& view, std::int64_t row, std::int64_t head, std::int64_t first, std::int64_t n,
             float* values) const {
    io_.store(view, at(view, row, head) + first * view.stride(2), view.stride(2), n, false, values);
  }
  static float& scalar(const TensorView& view, std::int64_t row, std::int64_t head) {
    return view.data<float>()[at(view, row, head)];
  }

 private:
  static std::int64_t at(const TensorView& view, std::int64_t row, std::int64_t head) {
    return row * view.stride(0) + head * view.stride(1);
  }
  TileIo io_;
};

// Some columns of the state of one head, [seats, heads, rows, columns] f32: those that a thread carries through a
// sequence.
struct StateBlock {
  std::int64_t head, first, n;  // columns
  std::int64_t rows;
  float* s;             // [rows, stride]: memory of its own, or where load_state finds the state
  std::int64_t stride;  // of rows
};
// As the sequence begins with them. A state whose columns lie side by side is changed where it lies.
void load_state(const TensorView& state, const Recurrence& sequence, StateBlock& block);
// As it leaves them.
void store_state(const TensorView& state, const Recurrence& sequence, const StateBlock& block);

}  // namespace tern::cpu
