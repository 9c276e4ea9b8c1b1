// What the loop does, as rows: the log window, rates, memory. Rows go to the sinks and to the program's own words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accel/device.h"
#include "train/reporting/log_window.h"
#include "train/reporting/report_sink.h"
#include "train/reporting/swanlab_log.h"
#include "train/reporting/wandb_log.h"

namespace tern::train {

struct ReportOptions {
  bool tensorboard = false;
  std::filesystem::path logging_dir;      // of TensorBoard; "": runs/ of the run's directory
  std::optional<WandbOptions> wandb;      // its name and id are the run's own where they're empty
  std::optional<SwanlabOptions> swanlab;  // the same
  std::string run_id;                     // of the run and those that resume it
  bool plots = false;
  AccuracyOf accuracy = AccuracyOf::token;
  double product_rate = 0;  // FLOP/s that the device was measured to do: MFU is told against it; 0: not told
};

// Where a row stands.
struct Place {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double epoch = 0;
};

struct HeldOutReport {
  double loss = 0;
  Hits hits;
  std::vector<std::pair<std::string, double>> metrics;  // of the task, by name: "acc"
  double samples = 0;
  double seconds = 0;
};

class Reporter {
 public:
  // `on_log` may be absent. The files are those of `output_dir`.
  Reporter(const std::filesystem::path& output_dir, const ReportOptions& options, const std::string& args_json,
           accel::DevicePtr device, std::function<void(const LogRow&)> on_log);

  // Time counts from here.
  void begin();
  [[nodiscard]] double seconds() const;  // since begin()
  // Around a step. What lies between steps (evaluations, checkpoints) takes nothing off the rates of training.
  void begin_step();
  void end_step(LogWindow& window, double loss, const Hits& hits);
  void count(std::int64_t tokens, double flops);  // of a micro-batch
  [[nodiscard]] bool counts_flops() const { return options_.product_rate > 0; }
  // Of the last step that changed something.
  void took(double learning_rate, double grad_norm);

  // The window as a row; it is empty afterwards.
  void log_window(LogWindow& window, const Place& place, std::optional<double> loss_scale);
  void log_evaluation(const HeldOutReport& evaluation, const Place& place);
  void log_end(LogEnd end);

  // As ReportSink has them. What can't be dropped is warned of.
  void sync();
  void refresh();
  void drop_after(std::int64_t step);

  // What the sinks wrote for other tools so far.
  [[nodiscard]] std::vector<Viewer> viewers() const;
  [[nodiscard]] double memory_gib() const;  // the most of the device that the process has held

 private:
  [[nodiscard]] LogRow row(const Place& place) const;
  void write(const LogRow& row);

  [[nodiscard]] std::optional<Accuracy> accuracy_of(const Hits& hits) const;

  ReportOptions options_;
  accel::DevicePtr device_;
  std::function<void(const LogRow&)> on_log_;
  std::vector<std::unique_ptr<ReportSink>> sinks_;
  double begin_ = 0;
  // In this process:
  double step_begin_ = 0;
  double training_seconds_ = 0;
  std::int64_t tokens_ = 0;
  double flops_ = 0;
  std::int64_t steps_ = 0;
  double learning_rate_ = 0;
  double grad_norm_ = 0;
};

}  // namespace tern::train
