// Mean losses of the tokens of each channel, which a row's column `channel` names (--enable_channel_loss).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/micro_batch.h"

namespace tern::train {

struct ChannelLoss {
  double sum = 0;  // of weight * loss
  std::int64_t tokens = 0;
};

// By name. Rows without a channel are those of "None", as ms-swift has it.
using ChannelLosses = std::map<std::string, ChannelLoss>;

void add(ChannelLosses& to, const ChannelLosses& more);

// The means under the names of ms-swift's log: "loss_math".
[[nodiscard]] std::vector<std::pair<std::string, double>> channel_means(const ChannelLosses& losses);

// What the head knows of each supervised position, in the order in which they lie in the micro-batch.
struct RowStatistics {
  std::span<const std::int32_t> rows;  // places of tokens, rising
  std::span<const float> largest;      // logit
  std::span<const float> sum;          // of exp(logit - largest)
  std::span<const float> target;       // logit
};

// `dft`: the loss of a token is multiplied by its probability.
[[nodiscard]] ChannelLosses channel_losses(const data::MicroBatch& batch, const RowStatistics& of, bool dft);

}  // namespace tern::train
