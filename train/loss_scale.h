// Dynamic loss scaling for gradients in fp16, whose smallest number is 6e-8: the loss is multiplied by a power of two,
// and what comes out of the backward is divided by it again (Micikevicius et al., "Mixed Precision Training", 2018).
// The rule is that of torch.amp.GradScaler: from 65,536 on, doubled after 2,000 sound steps in a row, halved where a
// gradient overflowed, whose step changes nothing.
#pragma once

#include <cstdint>

#include "nn/context.h"

namespace tern::train {

struct LossScale {
  double scale = 65536;
  std::int64_t sound_steps = 0;  // in a row, since the scale changed

  void grow();  // after a sound step
  // After a step whose gradients aren't finite. false: it's at its smallest, so that something else is wrong.
  [[nodiscard]] bool shrink();
};

// Whether gradients of a run with these numerics may be too small for its dtypes.
[[nodiscard]] bool needs_loss_scale(const nn::Numerics& numerics);

}  // namespace tern::train
