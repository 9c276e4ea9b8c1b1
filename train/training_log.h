// logging.jsonl: a row a log step in ms-swift's keys, and a last one that names the checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tern::train {

struct LogRow {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double epoch = 0;
  std::optional<double> loss;
  std::optional<double> eval_loss;
  std::vector<std::pair<std::string, double>> eval_metrics;  // of the task, by name: "acc"
  double grad_norm = 0;
  double learning_rate = 0;
  std::optional<double> loss_scale;  // of the next step
  double elapsed_seconds = 0;
  double remaining_seconds = 0;
  double memory_gib = 0;
  double seconds_per_step = 0;
  double tokens_per_second = 0;
};

// What the last row of a run that came to its end tells.
struct LogEnd {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::string last_checkpoint;  // "" where none was saved
  std::string best_checkpoint;
  std::optional<double> best_metric;
  double elapsed_seconds = 0;
};

class TrainingLog {
 public:
  explicit TrainingLog(const std::filesystem::path& directory) : file_(directory / "logging.jsonl") {}

  // A row that can't be written is warned of: training goes on.
  void write(const LogRow& row) const;
  void write(const LogEnd& end) const;
  // Puts what was written onto the disk: a checkpoint is saved after the rows of its steps.
  void sync() const;
  // Drops the rows behind `step`, which a run that resumes there writes again, and the row of an end. The file is
  // replaced as a whole: where that fails, it stays as it was. Errors: as io::replace_file's.
  [[nodiscard]] Status drop_after(std::int64_t step) const;

 private:
  void append(const std::string& json_line) const;
  std::filesystem::path file_;
};

}  // namespace tern::train
