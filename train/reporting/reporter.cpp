#include "train/reporting/reporter.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "train/reporting/json_log.h"
#include "train/reporting/plots.h"
#include "train/reporting/run_folder.h"
#include "train/reporting/tensorboard_log.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What a tool's run is called where the user doesn't say: by its folder, as ms-swift has it.
template <typename Options>
Options named(Options tracker, const fs::path& output_dir, const ReportOptions& options) {
  if (tracker.name.empty()) tracker.name = output_dir.string();
  if (tracker.run_id.empty()) tracker.run_id = short_run_id(options.run_id);
  return tracker;
}

}  // namespace

Reporter::Reporter(const fs::path& output_dir, const ReportOptions& options, const std::string& args_json,
                   accel::DevicePtr device, std::function<void(const LogRow&)> on_log)
    : options_(options), device_(std::move(device)), on_log_(std::move(on_log)), begin_(now_seconds()) {
  const fs::path log = output_dir / "logging.jsonl";
  sinks_.push_back(std::make_unique<JsonLog>(log));
  if (options.tensorboard) {
    const fs::path folder = options.logging_dir.empty() ? output_dir / "runs" : options.logging_dir;
    sinks_.push_back(std::make_unique<TensorBoardLog>(folder, args_json));
  }
  if (options.wandb)
    sinks_.push_back(std::make_unique<WandbLog>(named(*options.wandb, output_dir, options), args_json));
  if (options.swanlab) {
    sinks_.push_back(std::make_unique<SwanlabLog>(named(*options.swanlab, output_dir, options), args_json));
  }
  if (options.plots) sinks_.push_back(std::make_unique<Plots>(log, output_dir / "images"));
}

void Reporter::begin() { begin_ = now_seconds(); }

double Reporter::seconds() const { return now_seconds() - begin_; }

double Reporter::memory_gib() const {
  return static_cast<double>(device_->memory().peak_by_process) / (1024.0 * 1024.0 * 1024.0);
}

void Reporter::begin_step() { step_begin_ = now_seconds(); }

void Reporter::count(std::int64_t tokens, double flops) {
  tokens_ += tokens;
  flops_ += flops;
}

void Reporter::end_step(LogWindow& window, double loss, const Hits& hits) {
  training_seconds_ += now_seconds() - step_begin_;
  ++steps_;
  window.loss += loss;
  ++window.steps;
  window.hits.add(hits);
}

std::optional<Accuracy> Reporter::accuracy_of(const Hits& hits) const {
  const bool token = options_.accuracy == AccuracyOf::token;
  const std::int64_t all = token ? hits.tokens : hits.samples;
  if (all == 0) return std::nullopt;
  const std::int64_t right = token ? hits.right_tokens : hits.right_samples;
  return Accuracy{options_.accuracy, static_cast<double>(right) / static_cast<double>(all)};
}

void Reporter::took(double learning_rate, double grad_norm) {
  learning_rate_ = learning_rate;
  grad_norm_ = grad_norm;
}

LogRow Reporter::row(const Place& place) const {
  LogRow row;
  row.step = place.step;
  row.total_steps = place.total_steps;
  row.epoch = place.epoch;
  row.elapsed_seconds = seconds();
  row.seconds_per_step = row.elapsed_seconds / static_cast<double>(std::max<std::int64_t>(steps_, 1));
  if (steps_ > 0) row.remaining_seconds = row.seconds_per_step * static_cast<double>(place.total_steps - place.step);
  const double trained = std::max(training_seconds_, 1e-9);
  row.tokens_per_second = static_cast<double>(tokens_) / trained;
  if (counts_flops() && steps_ > 0) row.mfu = flops_ / trained / options_.product_rate;
  row.memory_gib = memory_gib();
  return row;
}

void Reporter::write(const LogRow& row) {
  for (const auto& sink : sinks_) sink->write(row);
  if (on_log_) on_log_(row);
}

void Reporter::log_window(LogWindow& window, const Place& place, std::optional<double> loss_scale) {
  LogRow out = row(place);
  out.loss = window.loss / static_cast<double>(std::max<std::int64_t>(window.steps, 1));
  out.accuracy = accuracy_of(window.hits);
  out.grad_norm = grad_norm_;
  out.learning_rate = learning_rate_;
  out.loss_scale = loss_scale;
  write(out);
  window = {};
}

void Reporter::log_evaluation(const HeldOutReport& evaluation, const Place& place) {
  LogRow out = row(place);
  out.eval_loss = evaluation.loss;
  out.eval_accuracy = accuracy_of(evaluation.hits);
  for (const auto& [name, value] : evaluation.metrics) out.eval_metrics.emplace_back("eval_" + name, value);
  out.eval_samples = evaluation.samples;
  out.eval_seconds = evaluation.seconds;
  write(out);
}

void Reporter::log_end(LogEnd end) {
  end.elapsed_seconds = seconds();
  for (const auto& sink : sinks_) sink->write(end);
}

std::vector<Viewer> Reporter::viewers() const {
  std::vector<Viewer> out;
  for (const auto& sink : sinks_) {
    if (auto viewer = sink->viewer()) out.push_back(std::move(*viewer));
  }
  return out;
}

void Reporter::sync() {
  for (const auto& sink : sinks_) sink->sync();
}

void Reporter::refresh() {
  for (const auto& sink : sinks_) sink->refresh();
}

void Reporter::drop_after(std::int64_t step) {
  for (const auto& sink : sinks_) {
    const Status dropped = sink->drop_after(step);
    if (!dropped.ok()) log_warn(dropped.error().line());
  }
}

}  // namespace tern::train
