#include "train/reporting/json_log.h"

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

void JsonLog::append(const std::string& json_line) const {
  std::ofstream out(file_, std::ios::app);
  out << json_line << '\n';
  if (!out.flush()) log_warn(cat(file_.string(), ": a log line could not be written"));
}

void JsonLog::write(const LogRow& row) {
  Json json;
  for (const auto& [key, value] : numbers(row)) {
    json[key] = value;
    if (key == "epoch") json[kPlace] = cat(row.step, "/", row.total_steps);
  }
  append(json.dump());
}

void JsonLog::write(const LogEnd& end) {
  Json json;
  json[kLast] = path_or_null(end.last_checkpoint);
  json["best_model_checkpoint"] = path_or_null(end.best_checkpoint);
  json["best_metric"] = end.best_metric ? Json(*end.best_metric) : Json(nullptr);
  json[kPlace] = cat(end.step, "/", end.total_steps);
  json["elapsed_time"] = end.elapsed_seconds;
  append(json.dump());
}

void JsonLog::sync() {
  std::error_code error;
  if (!std::filesystem::exists(file_, error)) return;
  Status status = io::sync_file(file_);
  if (status.ok()) status = io::sync_directory(file_.parent_path());
  if (!status.ok()) log_warn(status.error().line());
}

Status JsonLog::drop_after(std::int64_t step) {
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
