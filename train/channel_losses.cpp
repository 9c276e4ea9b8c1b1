#include "train/channel_losses.h"

#include <cmath>

#include "base/strings.h"
#include "data/channel.h"

namespace tern::train {

void add(ChannelLosses& to, const ChannelLosses& more) {
  for (const auto& [name, loss] : more) {
    ChannelLoss& sum = to[name];
    sum.sum += loss.sum;
    sum.tokens += loss.tokens;
  }
}

std::vector<std::pair<std::string, double>> channel_means(const ChannelLosses& losses) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [name, loss] : losses) {
    if (loss.tokens > 0) out.emplace_back(cat("loss_", name), loss.sum / static_cast<double>(loss.tokens));
  }
  return out;
}

ChannelLosses channel_losses(const data::MicroBatch& batch, const RowStatistics& of, bool dft) {
  const auto weights = batch.values<float>(data::kLossWeights);
  ChannelLosses out;
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.samples(); ++i) {
    ChannelLoss& channel = out[data::channel_of(batch, i).value_or("None")];
    for (; row < of.rows.size() && of.rows[row] < batch.cu_seqlens[i + 1]; ++row) {
      const double log_probability =
          static_cast<double>(of.target[row]) - of.largest[row] - std::log(static_cast<double>(of.sum[row]));
      const double probability = dft ? std::exp(log_probability) : 1.0;
      channel.sum -= weights[static_cast<std::size_t>(of.rows[row])] * probability * log_probability;
      ++channel.tokens;
    }
  }
  return out;
}

}  // namespace tern::train
