#include "server/runs/runs.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/log.h"
#include "base/status.h"
#include "base/strings.h"
#include "io/mapped_file.h"
#include "server/runs/run_folder.h"
#include "server/runs/run_record.h"
#include "server/runs/run_samples.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr std::size_t kLogPart = 1U << 20;
constexpr std::size_t kOutputPart = 256U << 10;
constexpr std::uint64_t kLargestArguments = 1U << 20;

// What changes with a run's files: when each was written.
std::string files_of(const fs::path& folder) {
  std::string out;
  for (const char* name : {"", "logging.jsonl", "args.json", kRunRecord, kRunOutput}) {
    struct stat found {};
    const bool there = ::stat((folder / name).c_str(), &found) == 0;
    out += there ? cat(found.st_mtim.tv_sec, ".", found.st_mtim.tv_nsec, ":", found.st_size, " ") : "- ";
  }
  return out;
}

std::int64_t begun(const Json& run) {
  const Json* time = run.find("begun");
  return time != nullptr && time->is_number() ? time->get<std::int64_t>() : 0;
}

}  // namespace

void Runs::take_statuses() {
  const std::lock_guard lock(mutex_);
  std::erase_if(children_, [&](const auto& child) {
    const auto status = take_status(child.second);
    if (!status) return false;
    const fs::path folder = root_ / child.first;
    if (auto record = read_record(folder)) {
      record->status = *status;
      if (const Status kept = write_record(folder, *record); !kept.ok()) log_warn(kept.error().line());
    }
    return true;
  });
}

Json Runs::summary(const std::string& id) {
  const std::string files = files_of(root_ / id);
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_[id];
  if (kept.files == files && lock_holder(root_ / id / ".lock") == 0) return kept.summary;
  Json summary = summary_of(root_, id);
  kept = summary["state"] == "running" ? Kept{} : Kept{files, summary};
  return summary;
}

Json Runs::list() {
  take_statuses();
  std::vector<Json> runs;
  for (const std::string& id : find_runs(root_)) runs.push_back(summary(id));
  std::ranges::stable_sort(runs, [](const Json& a, const Json& b) { return begun(a) > begun(b); });
  std::error_code error;
  Json out = Json::object();
  out["output_dir"] = fs::absolute(root_, error).lexically_normal().string();
  out["runs"] = Json(runs);
  return out;
}

Json Runs::log(const std::string& id, std::uint64_t file, std::uint64_t offset) {
  const FilePart part = read_part(run_folder(root_, id) / "logging.jsonl", file, offset, kLogPart, true);
  Json rows = Json::array();
  for (const std::string_view line : split(part.text, '\n')) {
    if (auto row = io::parse_json(line, "row"); row && row->is_object()) rows.push_back(std::move(*row));
  }
  Json out = Json::object();
  out["rows"] = std::move(rows);
  out["file"] = part.file;
  out["offset"] = part.offset;
  out["begun_again"] = part.begun_again;
  out["more"] = part.text.size() > kLogPart / 2;
  return out;
}

Json Runs::output(const std::string& id, std::uint64_t offset) {
  const FilePart part = read_part(run_folder(root_, id) / kRunOutput, 0, offset, kOutputPart, true);
  Json out = Json::object();
  out["text"] = part.text;
  out["offset"] = part.offset;
  return out;
}

std::string Runs::arguments(const std::string& id) {
  const fs::path folder = run_folder(root_, id);
  const auto text = io::read_text_file(folder / "args.json", kLargestArguments);
  if (text) return *text;
  const auto record = read_record(folder);
  return record && record->flags.is_object() ? record->flags.dump() : "{}";
}

Json Runs::samples(const std::string& id) {
  Json out = Json::object();
  out["files"] = samples_of(run_folder(root_, id));
  return out;
}

std::string Runs::start(const RunCommand& command, const FormValues& values) {
  RunRecord record;
  record.command = command.shown;
  record.flags = Json::object();
  for (const auto& [flag, words] : values) record.flags[flag] = words.size() == 1 ? Json(words[0]) : Json(words);
  const std::string id = fs::relative(command.directory, root_).string();
  const std::lock_guard lock(mutex_);
  record.process = start_process(command.words, command.directory / kRunOutput).value();
  children_[id] = record.process;
  write_record(command.directory, record).value();
  return id;
}

void Runs::stop(const std::string& id, bool at_once) {
  const fs::path folder = run_folder(root_, id);
  take_statuses();
  const std::lock_guard lock(mutex_);
  auto record = read_record(folder);
  if (!record) {
    throw Failure(usage_error(cat("the run ", id, " wasn't started here"), "press Ctrl-C where it was started"));
  }
  if (!is_alive(record->process))
    throw Failure(usage_error(cat("the run ", id, " isn't going on"), "there's nothing to do"));
  // A second SIGINT would end it at once, without a checkpoint.
  if (record->stopping && !at_once) return;
  record->stopping = true;
  write_record(folder, *record).value();
  (void)::kill(static_cast<pid_t>(record->process.pid), at_once ? SIGKILL : SIGINT);
}

std::vector<Runs::GoingOn> Runs::going_on() {
  take_statuses();
  const std::lock_guard lock(mutex_);
  std::vector<GoingOn> out;
  for (const auto& [id, mark] : children_) out.push_back({id, mark.pid});
  return out;
}

}  // namespace tern::server
