// What a run logs: a row a log step, one for each evaluation, and a last one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern::train {

// What a share of right answers counts: tokens, or whole samples (--acc_strategy).
enum class AccuracyOf { token, sample };

struct Accuracy {
  AccuracyOf of = AccuracyOf::token;
  double share = 0;
};

struct LogRow {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double epoch = 0;
  std::optional<double> loss;
  std::optional<double> eval_loss;
  std::optional<double> aux_loss;         // of the experts' balance, part of `loss` with its coefficient
  std::optional<Accuracy> accuracy;       // of training
  std::optional<Accuracy> eval_accuracy;  // of held-out rows
  std::vector<std::pair<std::string, double>> channel_losses;  // of training, by key: "loss_math"
  std::vector<std::pair<std::string, double>> eval_metrics;    // of held-out rows, by key: "eval_acc", "eval_loss_math"
  double eval_seconds = 0;
  double eval_samples = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::optional<double> loss_scale;  // of the next step
  double elapsed_seconds = 0;
  double remaining_seconds = 0;
  double memory_gib = 0;
  double seconds_per_step = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;
};

struct LogNumber {
  std::string_view key;  // as ms-swift and transformers write it; may lie in the row
  double value = 0;
};

// The numbers of a row, in the order in which they are written.
[[nodiscard]] std::vector<LogNumber> numbers(const LogRow& row);

// What the last row of a run that came to its end tells.
struct LogEnd {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::string last_checkpoint;  // "" where none was saved
  std::string best_checkpoint;
  std::optional<double> best_metric;
  double elapsed_seconds = 0;
};

}  // namespace tern::train
