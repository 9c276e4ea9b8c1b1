#include "train/loss_scale.h"

#include <algorithm>

namespace tern::train {
namespace {

constexpr std::int64_t kGrowthInterval = 2000;
constexpr double kLargest = 0x1p32;  // the loss and the squares of its gradients are summed in fp32
constexpr double kSmallest = 1;

}  // namespace

void LossScale::grow() {
  if (++sound_steps < kGrowthInterval) return;
  scale = std::min(scale * 2, kLargest);
  sound_steps = 0;
}

bool LossScale::shrink() {
  if (scale / 2 < kSmallest) return false;
  scale /= 2;
  sound_steps = 0;
  return true;
}

bool needs_loss_scale(const nn::Numerics& numerics) {
  return numerics.compute == TERN_COMPUTE_F16 || numerics.activations == TERN_F16;
}

}  // namespace tern::train
