// The steps since the last row of the log.
#pragma once

#include <cstdint>
#include <optional>

#include "train/channel_losses.h"
#include "train/hits.h"

namespace tern::train {

// Part of a checkpoint, so that a resumed run's next row equals the uninterrupted one's.
struct LogWindow {
  double loss = 0;  // summed over the steps
  std::int64_t steps = 0;
  Hits hits;
  ChannelLosses channels;
  std::optional<double> aux_loss;  // of the experts' balance, summed over the steps
};

}  // namespace tern::train
