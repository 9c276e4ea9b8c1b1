#include "train/reporting/swanlab_log.h"

#include "base/log.h"
#include "base/strings.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "train/reporting/run_folder.h"
#include "train/reporting/tags.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader{":SWL\xd6\xe1\x02", 7};  // its mark, CRC-32 of its name, version 2

// Fields of Record.
constexpr std::uint32_t kStart = 10, kFinish = 11, kColumn = 12, kScalar = 13, kSave = 20;
// Numbers of records that stand alone.
constexpr std::int64_t kStartNumber = -1, kFinishNumber = -2, kConfigNumber = -3, kMetadataNumber = -4;
constexpr std::int64_t kConfigType = 1, kMetadataType = 2;  // SaveType
constexpr std::int64_t kScalarType = 1;                     // ColumnType

constexpr std::string_view kAtTheEnd = "single_value/";

std::string config_yaml(const std::string& args_json) {
  const auto parsed = io::parse_json(args_json, "args.json");
  std::string yaml;
  int place = 0;
  if (!parsed || !parsed->is_object()) return yaml;
  for (const auto& [key, value] : parsed->items()) {
    yaml += cat(key, ":\n  desc: ''\n  sort: ", place++, "\n  value: ", value.dump(), "\n");
  }
  return yaml;
}

bool is_kept(std::string_view record, std::int64_t step) {
  if (find_field(record, kFinish)) return false;
  const auto scalar = find_field(record, kScalar);
  if (!scalar) return true;
  const auto key = find_field(scalar->bytes, 1);
  if (key && key->bytes.starts_with(kAtTheEnd)) return false;
  const auto at = find_field(scalar->bytes, 2);
  return !at || static_cast<std::int64_t>(at->value) <= step;
}

}  // namespace

SwanlabLog::SwanlabLog(SwanlabOptions options, std::string args_json)
    : options_(std::move(options)), args_json_(std::move(args_json)), log_(std::string(kHeader)) {}

void SwanlabLog::add(std::int64_t number, std::uint32_t field, const WireMessage& message) {
  WireMessage record;
  record.integer(1, number).text(2, timestamp_message(wall_time())).message(field, message);
  log_.append(record.bytes());
}

void SwanlabLog::add_file(std::int64_t number, std::string_view name, std::int64_t type, std::string_view file,
                          const std::string& text) {
  const fs::path path = fs::absolute(folder()) / "files" / file;
  const Status written = io::write_file(path, text);
  if (!written.ok()) log_warn(written.error().line());
  WireMessage save;  // SaveRecord: name, source_path, type
  save.text(1, name).text(2, path.string()).integer(5, type);
  add(number, kSave, save);
}

void SwanlabLog::begin() {
  if (log_.is_open()) return;
  const fs::path& root = options_.directory;
  const fs::path run = root / run_folder_name("run-", options_.run_id);
  log_.create(run / cat("run-", options_.run_id, ".swanlab"));
  std::error_code failed;  // shows when a file of it is written
  fs::create_directories(run / "files", failed);
  if (!fs::exists(root / ".gitignore", failed)) (void)io::write_file(root / ".gitignore", "*");
  WireMessage start;  // StartRecord: project, workspace, name, id, started_at
  start.text(1, options_.project);
  if (!options_.workspace.empty()) start.text(2, options_.workspace);
  start.text(4, options_.name).text(10, options_.run_id).text(12, timestamp_message(wall_time()));
  add(kStartNumber, kStart, start);
  add_file(kConfigNumber, "config", kConfigType, "config.yaml", config_yaml(args_json_));
  io::Json runtime;
  runtime["hostname"] = host_name();
  runtime["command"] = "tern";
  io::Json metadata;
  metadata["_version"] = 2;
  metadata["runtime"] = runtime;
  add_file(kMetadataNumber, "metadata", kMetadataType, "swanlab-metadata.json", metadata.dump());
}

void SwanlabLog::add_scalar(std::string_view key, std::int64_t step, double value) {
  if (columns_.emplace(key).second) {
    constexpr std::int64_t kCustom = 1, kPublic = 3;  // ColumnClass, SectionType
    WireMessage column;                               // class, type, key, section_name, section_type
    column.integer(1, kCustom).integer(2, kScalarType).text(3, key).text(5, key.substr(0, key.find('/')));
    column.integer(6, kPublic);
    add(next_++, kColumn, column);
  }
  WireMessage scalar;  // ScalarRecord: key, step, type, timestamp, value
  scalar.text(1, key).integer(2, step).integer(3, kScalarType).text(4, timestamp_message(wall_time()));
  scalar.message(5, WireMessage().real(1, value));
  add(next_++, kScalar, scalar);
}

void SwanlabLog::write(const LogRow& row) {
  begin();
  for (const auto& [tag, value] : tagged_numbers(row)) add_scalar(tag, row.step, value);
  // Of an evaluation the step is that of the row before it, and a key has one number a step.
  if (row.loss) add_scalar("train/global_step", row.step, static_cast<double>(row.step));
}

void SwanlabLog::write(const LogEnd& end) {
  begin();
  add_scalar(cat(kAtTheEnd, "train_runtime"), end.step, end.elapsed_seconds);
  WireMessage finish;  // FinishRecord: state finished, finished_at
  finish.integer(1, 1).text(3, timestamp_message(wall_time()));
  add(kFinishNumber, kFinish, finish);
}

Status SwanlabLog::drop_after(std::int64_t step) {
  const fs::path folder = find_run_folder(options_.directory, options_.run_id);
  if (folder.empty()) return Unit{};
  const fs::path file = folder / cat("run-", options_.run_id, ".swanlab");
  std::vector<std::string> kept;
  std::set<std::string> columns;
  std::int64_t next = 1;
  for (std::string& record : sound_records(file_text(file), kHeader)) {
    if (!is_kept(record, step)) break;  // rows come in order
    const auto column = find_field(record, kColumn);
    if (column || find_field(record, kScalar)) ++next;
    if (column) {
      if (const auto key = find_field(column->bytes, 3)) columns.emplace(key->bytes);
    }
    kept.push_back(std::move(record));
  }
  if (kept.empty()) return Unit{};  // nothing of it can be read: a new one is begun beside it
  Status replaced = log_.replace(file, kept);
  if (!replaced.ok()) return replaced;
  columns_ = std::move(columns);
  next_ = next;
  add_file(kConfigNumber, "config", kConfigType, "config.yaml", config_yaml(args_json_));  // which may have changed
  return replaced;
}

}  // namespace tern::train
