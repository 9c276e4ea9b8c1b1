#include "train/training_log.h"

#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "base/strings.h"
#include "io/file_writer.h"
#include "io/json.h"

namespace tern::train {
namespace {

using Json = io::Json;

constexpr const char* kPlace = "global_step/max_steps";
constexpr const char* kLast = "last_model_checkpoint";

Json path_or_null(const std::string& path) { return path.empty() ? Json(nullptr) : Json(path); }

}  // namespace

void TrainingLog::append(const std::string& json_line) const {
  std::ofstream out(file_, std::ios::app);
  out << json_line << '\n';
  if (!out.flush()) log_warn(cat(file_.string(), ": a log line could not be written"));
}

void TrainingLog::write(const LogRow& row) const {
  Json json;
  if (row.loss) json["loss"] = *row.loss;
  if (row.eval_loss) json["eval_loss"] = *row.eval_loss;
  for (const auto& [name, value] : row.eval_metrics) json["eval_" + name] = value;
  if (row.loss) {
    json["grad_norm"] = row.grad_norm;
    json["learning_rate"] = row.learning_rate;
    if (row.loss_scale) json["loss_scale"] = *row.loss_scale;
  }
  json["epoch"] = row.epoch;
  json[kPlace] = cat(row.step, "/", row.total_steps);
  json["elapsed_time"] = row.elapsed_seconds;
  json["remaining_time"] = row.remaining_seconds;
  json["memory(GiB)"] = row.memory_gib;
  json["train_speed(s/it)"] = row.seconds_per_step;
  json["tokens_per_second"] = row.tokens_per_second;
  append(json.dump());
}

void TrainingLog::write(const LogEnd& end) const {
  Json json;
  json[kLast] = path_or_null(end.last_checkpoint);
  json["best_model_checkpoint"] = path_or_null(end.best_checkpoint);
  json["best_metric"] = end.best_metric ? Json(*end.best_metric) : Json(nullptr);
  json[kPlace] = cat(end.step, "/", end.total_steps);
  json["elapsed_time"] = end.elapsed_seconds;
  append(json.dump());
}

void TrainingLog::sync() const {
  std::error_code error;
  if (!std::filesystem::exists(file_, error)) return;
  Status status = io::sync_file(file_);
  if (status.ok()) status = io::sync_directory(file_.parent_path());
  if (!status.ok()) log_warn(status.error().line());
}

Status TrainingLog::drop_after(std::int64_t step) const {
  std::ifstream in(file_);
  if (!in) return Unit{};
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const auto parsed = io::parse_json(line, "log");
    const Json row = parsed ? *parsed : Json();
    if (!row.is_object() || row.contains(kLast)) continue;
    const Json* place = row.find(kPlace);
    if (place == nullptr || !place->is_string()) continue;
    if (std::strtoll(place->text().c_str(), nullptr, 10) > step) continue;
    kept += line + "\n";
  }
  return io::replace_file(file_, kept);
}

}  // namespace tern::train
