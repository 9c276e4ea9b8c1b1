#include "backends/cpu/recurrent.h"

#include <algorithm>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

float* state_at(const TensorView& state, const Recurrence& sequence, const StateBlock& block) {
  return state.data<float>() + sequence.seat * state.stride(0) + block.head * state.stride(1) +
         block.first * state.stride(3);
}

bool is_in_place(const TensorView& state, const Recurrence& sequence) {
  return sequence.seat != 0 && (state.stride(3) == 1 || state.dim(3) == 1);
}

}  // namespace

Recurrences read_recurrences(const KernelArgs& args, const RecurrentArgs& at, std::int64_t longest, const char* op) {
  Recurrences out;
  out.bounds = read_lengths(args, 0, at.cu_seqlens);
  check_cumulated(out.bounds, args[at.rows].dim(0), "cu_seqlens");
  const bool has_state = at.state >= 0 && args[at.state].present();
  for (std::size_t s = 0; s + 1 < out.bounds.size(); ++s) {
    Recurrence sequence{out.bounds[s], out.bounds[s + 1], 0, false};
    if (sequence.length() == 0) continue;
    if (sequence.length() > longest) {
      throw Failure(
          data_error(op, cat("sequences of at most ", longest, " rows"), cat(sequence.length()), kCallAsSpecified));
    }
    if (has_state && static_cast<std::int64_t>(s) >= args[at.seats].dim(0)) {
      throw Failure(data_error(op, cat("a seat for each of ", out.bounds.size() - 1, " sequences"),
                               cat(args[at.seats].dim(0)), kCallAsSpecified));
    }
    if (has_state) {
      sequence.seat = args[at.seats].data<const std::int32_t>()[s];
      require_index(sequence.seat, args[at.state].dim(0), op);
      sequence.goes_on = args[at.kv_lens].data<const std::int32_t>()[s] > sequence.length();
    }
    out.sequences.push_back(sequence);
  }
  return out;
}

Kept<std::int32_t> sequence_of_rows(const Recurrences& recurrences, std::int64_t rows) {
  Kept<std::int32_t> out(static_cast<std::size_t>(rows), -1);
  for (std::size_t s = 0; s < recurrences.sequences.size(); ++s) {
    const Recurrence& sequence = recurrences.sequences[s];
    std::fill(out.begin() + sequence.begin, out.begin() + sequence.end, static_cast<std::int32_t>(s));
  }
  return out;
}

void load_state(const TensorView& state, const Recurrence& sequence, StateBlock& block) {
  const bool in_place = is_in_place(state, sequence);
  if (in_place) {
    block.s = state_at(state, sequence, block);
    block.stride = state.stride(2);
  }
  for (std::int64_t i = 0; i < block.rows; ++i) {
    float* to = block.s + i * block.stride;
    if (!sequence.goes_on) {
      std::fill_n(to, block.n, 0.0F);
    } else if (!in_place) {
      const float* from = state_at(state, sequence, block) + i * state.stride(2);
      for (std::int64_t j = 0; j < block.n; ++j) to[j] = from[j * state.stride(3)];
    }
  }
}

void store_state(const TensorView& state, const Recurrence& sequence, const StateBlock& block) {
  if (sequence.seat == 0 || is_in_place(state, sequence)) return;
  for (std::int64_t i = 0; i < block.rows; ++i) {
    float* to = state_at(state, sequence, block) + i * state.stride(2);
    for (std::int64_t j = 0; j < block.n; ++j) to[j * state.stride(3)] = block.s[i * block.stride + j];
  }
}

std::int64_t longest_of(std::int32_t max_seqlen, std::int64_t rows) { return std::min<std::int64_t>(max_seqlen, rows); }

}  // namespace tern::cpu
