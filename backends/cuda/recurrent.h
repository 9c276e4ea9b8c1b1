// What ops share that carry a state through sequences.
#pragma once

#include "backends/cuda/rows.h"

namespace tern::cuda {

// Where an op has what goes with its state.
struct StatePlaces {
  int state, seats, kv_lens, cu_seqlens;
};
// A state, a seat and a length for each sequence, or none of them.
inline Check& check_state(Check& check, const PlanDesc& desc, const StatePlaces& at) {
  const bool has_state = desc.present(at.state);
  return check.dtype(at.cu_seqlens, TERN_I32)
      .dtype(at.kv_lens, TERN_I32)
      .dtype(at.seats, TERN_I32)
      .that(has_state == desc.present(at.seats) && has_state == desc.present(at.kv_lens),
            "state comes with seats and kv_lens")
      .rank(at.cu_seqlens, 1)
      .same_shape({at.kv_lens, at.seats})
      .dim(at.seats, 0, desc.arg(at.cu_seqlens).shape[0] - 1);
}

}  // namespace tern::cuda
