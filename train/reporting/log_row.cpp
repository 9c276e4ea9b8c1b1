#include "train/reporting/log_row.h"

#include <algorithm>

namespace tern::train {

std::vector<LogNumber> numbers(const LogRow& row) {
  std::vector<LogNumber> out;
  const auto add = [&](std::string_view key, const std::optional<double>& value) {
    if (value) out.push_back({key, *value});
  };
  add("loss", row.loss);
  add("eval_loss", row.eval_loss);
  add("aux_loss", row.aux_loss);
  const auto add_accuracy = [&](std::string_view token, std::string_view sample, const std::optional<Accuracy>& it) {
    if (it) out.push_back({it->of == AccuracyOf::token ? token : sample, it->share});
  };
  add_accuracy("token_acc", "seq_acc", row.accuracy);
  add_accuracy("eval_token_acc", "eval_seq_acc", row.eval_accuracy);
  for (const auto& [key, value] : row.channel_losses) out.push_back({key, value});
  for (const auto& [key, value] : row.eval_metrics) out.push_back({key, value});
  if (row.eval_loss) {
    add("eval_runtime", row.eval_seconds);
    add("eval_samples_per_second", row.eval_samples / std::max(row.eval_seconds, 1e-9));
  }
  if (row.loss) {
    add("grad_norm", row.grad_norm);
    add("learning_rate", row.learning_rate);
    add("loss_scale", row.loss_scale);
  }
  add("epoch", row.epoch);
  add("elapsed_time", row.elapsed_seconds);
  add("remaining_time", row.remaining_seconds);
  add("memory(GiB)", row.memory_gib);
  add("train_speed(s/it)", row.seconds_per_step);
  add("tokens_per_second", row.tokens_per_second);
  add("MFU", row.mfu);
  return out;
}

}  // namespace tern::train
