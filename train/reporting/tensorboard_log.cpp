#include "train/reporting/tensorboard_log.h"

#include <unistd.h>

#include <fstream>

#include "base/log.h"
#include "base/strings.h"
#include "io/file_writer.h"
#include "train/reporting/event_file.h"
#include "train/reporting/run_folder.h"
#include "train/reporting/tags.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

// By the second, then the host and the process, as SummaryWriter names its files: the newest sorts last.
std::string file_name() {
  return cat(kPrefix, static_cast<std::int64_t>(wall_time()), ".", host_name(), ".",
             static_cast<std::int64_t>(getpid()), ".0");
}

fs::path newest_in(const fs::path& directory) {
  fs::path newest;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    if (entry.path().filename().string().starts_with(kPrefix) && entry.path() > newest) newest = entry.path();
  }
  return newest;
}

}  // namespace

void TensorBoardLog::append(const std::string& records) {
  std::string text = records;
  if (file_.empty()) {
    std::error_code failed;  // shows when the file is opened
    fs::create_directories(directory_, failed);
    file_ = directory_ / file_name();
    text = record(version_event(wall_time())) + record(text_event(wall_time(), 0, "args", args_json_)) + text;
  }
  std::ofstream out(file_, std::ios::app | std::ios::binary);
  out << text;
  if (!out.flush()) log_warn(cat(file_.string(), ": a row for TensorBoard could not be written"));
}

void TensorBoardLog::write(const LogRow& row) {
  const double now = wall_time();
  std::string records;
  for (const auto& [tag, value] : tagged_numbers(row)) records += record(scalar_event(now, row.step, tag, value));
  append(records);
}

void TensorBoardLog::sync() {
  if (file_.empty()) return;
  const Status status = io::sync_file(file_);
  if (!status.ok()) log_warn(status.error().line());
}

Status TensorBoardLog::drop_after(std::int64_t step) {
  const fs::path file = newest_in(directory_);
  if (file.empty()) return Unit{};
  const std::string kept = records_until(file_text(file), step);
  if (kept.empty()) return Unit{};  // nothing of it can be read: a new one is begun beside it
  Status replaced = io::replace_file(file, kept);
  if (replaced.ok()) file_ = file;
  return replaced;
}

}  // namespace tern::train
