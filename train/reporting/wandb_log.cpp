#include "train/reporting/wandb_log.h"

#include <sys/utsname.h>

#include <cmath>
#include <ctime>

#include "base/log.h"
#include "base/strings.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "train/reporting/run_folder.h"
#include "train/reporting/tags.h"
#include "train/reporting/wire.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader{":W&B\xe1\xbe\0", 7};  // its mark, CRC-32 of its name, version 0
constexpr const char* kStep = "train/global_step";
constexpr const char* kEnd = "train_runtime";  // only the last summary has it

// Fields of Record.
constexpr std::uint32_t kHistory = 2, kSummary = 3, kConfig = 5, kFiles = 6, kMetric = 12, kRun = 17, kExit = 18,
                        kHead = 21, kEnvironment = 26;
constexpr std::uint32_t kStartTime = 17;  // of RunRecord

fs::path root_of(const WandbOptions& options) { return (options.directory / "wandb").lexically_normal(); }

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return io::Json(value).dump();
}

// ConfigItem: key = 1, value_json = 16.
WireMessage setting(std::string_view key, std::string_view json) {
  WireMessage out;
  out.text(1, key).text(16, json);
  return out;
}

// HistoryItem and SummaryItem: nested_key = 2, value_json = 16.
WireMessage item(std::string_view key, std::string_view json) {
  WireMessage out;
  out.text(2, key).text(16, json);
  return out;
}

// The JSON of a key of a HistoryRecord or SummaryRecord, whose items are field 1; "": none.
std::string value_of(std::string_view record, std::string_view key) {
  WireReader reader(record);
  while (const auto field = reader.next()) {
    if (field->number != 1) continue;
    const auto name = find_field(field->bytes, 2);
    const auto json = find_field(field->bytes, 16);
    if (name && json && name->bytes == key) return std::string(json->bytes);
  }
  return {};
}

io::Json config_of(const std::string& args_json) {
  const auto parsed = io::parse_json(args_json, "args.json");
  return parsed && parsed->is_object() ? *parsed : io::Json::object();
}

// ConfigRecord: update = 1.
WireMessage config_record(const std::string& args_json) {
  WireMessage config;
  config.message(1, setting("_wandb", "{}"));
  const io::Json arguments = config_of(args_json);
  for (const auto& [key, value] : arguments.items()) config.message(1, setting(key, value.dump()));
  return config;
}

std::string os_name() {
  utsname name{};
  if (uname(&name) != 0) return "Linux";
  return cat(name.sysname, "-", name.release, "-", name.machine);
}

std::string iso_time(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&whole, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

void keep(const fs::path& file, const std::string& text) {
  const Status written = io::write_file(file, text);
  if (!written.ok()) log_warn(written.error().line());
}

// What a run that goes on from `step` keeps of a record.
bool is_kept(std::string_view record, std::int64_t step) {
  if (find_field(record, kExit)) return false;
  for (const std::uint32_t kind : {kHistory, kSummary}) {
    const auto found = find_field(record, kind);
    if (!found) continue;
    if (!value_of(found->bytes, kEnd).empty()) return false;
    const std::string at = value_of(found->bytes, kStep);
    return std::strtoll(at.c_str(), nullptr, 10) <= step;
  }
  return true;
}

}  // namespace

WandbLog::WandbLog(WandbOptions options, std::string args_json)
    : options_(std::move(options)), args_json_(std::move(args_json)), log_(std::string(kHeader)) {}

void WandbLog::add(std::uint32_t field, const std::string& message) {
  WireMessage record;
  record.integer(1, next_++).text(field, message);
  log_.append(record.bytes());
}

void WandbLog::begin() {
  if (log_.is_open()) return;
  begin_ = wall_time();
  const fs::path root = root_of(options_);
  const fs::path folder = root / run_folder_name("offline-run-", options_.run_id);
  log_.create(folder / cat("run-", options_.run_id, ".wandb"));
  std::error_code failed;  // a link is for comfort
  fs::create_directories(folder / "files", failed);
  fs::remove(root / "latest-run", failed);
  fs::create_directory_symlink(folder.filename(), root / "latest-run", failed);

  WireMessage version;  // VersionInfo: producer, min_consumer
  version.text(1, "tern").text(2, "0.70.0");
  add(kHead, WireMessage().message(1, version).bytes());
  WireMessage run;
  run.text(1, options_.run_id);
  if (!options_.entity.empty()) run.text(2, options_.entity);
  run.text(3, options_.project).message(4, config_record(args_json_));
  if (!options_.group.empty()) run.text(6, options_.group);
  if (!options_.job_type.empty()) run.text(7, options_.job_type);
  run.text(8, options_.name);
  if (!options_.notes.empty()) run.text(9, options_.notes);
  for (const std::string& tag : options_.tags) run.text(10, tag);
  run.text(13, host_name()).text(kStartTime, timestamp_message(begin_));
  add(kRun, run.bytes());
  WireMessage environment;
  environment.text(1, os_name()).text(3, timestamp_message(begin_)).text(12, host_name()).text(199, options_.run_id);
  add(kEnvironment, environment.bytes());
  write_files();
  WireMessage files;
  for (const char* name : {"config.yaml", "wandb-metadata.json"}) {
    files.message(1, WireMessage().text(1, name).integer(3, 1));  // FilesItem: path; type WANDB
  }
  add(kFiles, files.bytes());
  WireMessage defined;  // MetricOptions.defined
  defined.integer(3, 1);
  add(kMetric, WireMessage().text(1, kStep).message(6, defined).bytes());
  WireMessage by_step;  // MetricOptions.step_sync, .defined
  by_step.integer(1, 1).integer(3, 1);
  add(kMetric, WireMessage().text(2, "*").text(4, kStep).message(6, by_step).bytes());
}

void WandbLog::write_files() const {
  const fs::path files = folder() / "files";
  std::string yaml = "wandb_version: 1\n";
  const io::Json arguments = config_of(args_json_);
  for (const auto& [key, value] : arguments.items()) {
    yaml += cat("\n", key, ":\n  desc: null\n  value: ", value.dump(), "\n");
  }
  keep(files / "config.yaml", yaml);
  io::Json metadata;
  metadata["os"] = os_name();
  metadata["startedAt"] = iso_time(begin_);
  metadata["program"] = "tern";
  metadata["host"] = host_name();
  keep(files / "wandb-metadata.json", metadata.dump(2) + "\n");
}

void WandbLog::update_summary(const Values& values) {
  WireMessage summary;
  for (const auto& [key, json] : values) summary.message(1, item(key, json));
  add(kSummary, summary.bytes());
}

void WandbLog::write(const LogRow& row) {
  begin();
  const double now = wall_time();
  Values values;
  for (const auto& [tag, value] : tagged_numbers(row)) values.emplace_back(tag, number_text(value));
  values.emplace_back(kStep, cat(row.step));
  values.emplace_back("_timestamp", number_text(now));
  values.emplace_back("_runtime", number_text(now - begin_));
  values.emplace_back("_step", cat(rows_));
  update_summary(values);
  WireMessage history;
  for (const auto& [key, json] : values) history.message(1, item(key, json));
  history.message(2, WireMessage().integer(1, rows_));  // HistoryStep.num
  add(kHistory, history.bytes());
  ++rows_;
}

void WandbLog::write(const LogEnd& end) {
  begin();
  Values values = {{kEnd, number_text(end.elapsed_seconds)},
                   {"last_model_checkpoint", io::Json(end.last_checkpoint).dump()}};
  if (!end.best_checkpoint.empty()) values.emplace_back("best_model_checkpoint", io::Json(end.best_checkpoint).dump());
  if (end.best_metric) values.emplace_back("best_metric", number_text(*end.best_metric));
  update_summary(values);
  WireMessage exit;  // RunExitRecord: exit_code, runtime
  exit.integer(1, 0).integer(2, static_cast<std::int64_t>(wall_time() - begin_));
  add(kExit, exit.bytes());
}

Status WandbLog::drop_after(std::int64_t step) {
  const fs::path folder = find_run_folder(root_of(options_), options_.run_id);
  if (folder.empty()) return Unit{};
  const fs::path file = folder / cat("run-", options_.run_id, ".wandb");
  std::vector<std::string> kept;
  std::int64_t rows = 0;
  double begin = wall_time();
  for (std::string& record : sound_records(file_text(file), kHeader)) {
    if (!is_kept(record, step)) break;  // rows come in order
    if (find_field(record, kHistory)) ++rows;
    if (const auto run = find_field(record, kRun)) {
      if (const auto start = find_field(run->bytes, kStartTime)) begin = time_of(start->bytes);
    }
    kept.push_back(std::move(record));
  }
  if (kept.empty()) return Unit{};  // nothing of it can be read: a new one is begun beside it
  Status replaced = log_.replace(file, kept);
  if (!replaced.ok()) return replaced;
  begin_ = begin;
  rows_ = rows;
  next_ = static_cast<std::int64_t>(kept.size()) + 1;
  add(kConfig, config_record(args_json_).bytes());  // which may have changed
  write_files();
  std::error_code none;
  fs::remove(file.string() + ".synced", none);  // what was uploaded isn't all of it any more
  return replaced;
}

}  // namespace tern::train
