#include "train/reporting/log_row.h"

namespace tern::train {

std::vector<LogNumber> numbers(const LogRow& row) {
  std::vector<LogNumber> out;
  const auto add = [&](std::string_view key, const std::optional<double>& value) {
    if (value) out.push_back({key, *value});
  };
  add("loss", row.loss);
  add("eval_loss", row.eval_loss);
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
  return out;
}

}  // namespace tern::train
