#include "server/runs/run_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/strings.h"
#include "io/file_writer.h"
#include "io/mapped_file.h"
#include "server/runs/run_record.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr const char* kLog = "logging.jsonl";
constexpr const char* kPlace = "global_step/max_steps";
constexpr const char* kEnd = "last_model_checkpoint";
constexpr std::size_t kTail = 64U << 10;
constexpr std::uint64_t kLargestArguments = 1U << 20;
constexpr int kDeepest = 3;
constexpr std::size_t kMostRuns = 1000;

Json json_file(const fs::path& file) {
  const auto text = io::read_text_file(file, kLargestArguments);
  if (!text) return {};
  auto json = io::parse_json(*text, file.string());
  return json ? std::move(*json) : Json();
}

// The last bytes of a file, from the beginning of a line on.
std::string tail_of(const fs::path& file, std::size_t most) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  if (error) return {};
  const std::uint64_t from = size > most ? size - most : 0;
  FilePart part = read_part(file, 0, from, most, false);
  if (from > 0) part.text.erase(0, std::min(part.text.find('\n'), part.text.size() - 1) + 1);
  return std::move(part.text);
}

// The newest value of each key in the rows at the log's end.
Json last_values(const fs::path& folder) {
  Json values = Json::object();
  const std::string text = tail_of(folder / kLog, kTail);
  for (const std::string_view line : split(text, '\n')) {
    const auto row = io::parse_json(line, kLog);
    if (!row || !row->is_object()) continue;
    if (!row->contains(kEnd)) values.erase(kEnd);  // a run that went on after its end
    for (const auto& [key, value] : row->items()) values[key] = value;
  }
  return values;
}

// "12/300" to 12 and 300.
std::pair<std::int64_t, std::int64_t> steps_of(const Json& values) {
  std::pair<std::int64_t, std::int64_t> steps = {0, 0};
  const Json* place = values.find(kPlace);
  if (place == nullptr || !place->is_string()) return steps;
  const std::string& text = place->text();
  const auto first = std::from_chars(text.data(), text.data() + text.size(), steps.first);
  if (first.ec == std::errc{} && first.ptr != text.data() + text.size()) {
    std::from_chars(first.ptr + 1, text.data() + text.size(), steps.second);
  }
  return steps;
}

// The program's last line, where it said what went wrong.
std::string error_line(const fs::path& folder) {
  const std::string text = tail_of(folder / kRunOutput, kTail);
  const std::size_t at = text.rfind("tern: error:");
  if (at == std::string::npos) return {};
  return text.substr(at, text.find('\n', at) - at);
}

// The steps of its checkpoints, rising.
std::vector<std::int64_t> checkpoints_of(const fs::path& folder) {
  constexpr std::string_view kBegin = "checkpoint-";
  std::vector<std::int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(kBegin) || !entry.is_directory(error)) continue;
    const auto [end, failure] = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
    if (failure == std::errc{} && end == name.data() + name.size()) found.push_back(step);
  }
  std::ranges::sort(found);
  return found;
}

struct Standing {
  std::string state;
  std::string why;       // of one that failed
  std::int64_t pid = 0;  // of one that runs
};

Standing standing_of(const fs::path& folder, const std::optional<RunRecord>& record, const Json& values,
                     const std::vector<std::int64_t>& checkpoints) {
  if (record && is_alive(record->process)) return {"running", "", record->process.pid};
  if (const std::int64_t holder = lock_holder(folder / ".lock"); holder != 0) return {"running", "", holder};
  const auto [step, total] = steps_of(values);
  if (values.contains(kEnd)) return {step < total ? "stopped" : "ended", "", 0};
  // One that was asked to stop says nothing more in its log; its last step is saved, if it had come to one.
  if (record && record->stopping) return {"stopped", "", 0};
  if (step > 0 && !checkpoints.empty() && checkpoints.back() >= step) return {"stopped", "", 0};
  std::string why = error_line(folder);
  if (why.empty() && record && record->status) why = cat("it ended with exit status ", *record->status);
  if (why.empty()) why = "it ended without a last line in logging.jsonl: it failed, or was killed";
  return {"failed", std::move(why), 0};
}

// Milliseconds since 1970 at which a file was last written; null where there is none.
Json written_at(const fs::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return {};
  constexpr std::int64_t kThousand = 1000;
  return Json(static_cast<std::int64_t>(found.st_mtim.tv_sec) * kThousand +
              static_cast<std::int64_t>(found.st_mtim.tv_nsec) / (kThousand * kThousand));
}

void find_below(const fs::path& folder, const std::string& id, int depth, std::vector<std::string>& found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    // Links could lead out of the output directory, or round in a circle.
    if (name.starts_with('.') || entry.is_symlink(error) || !entry.is_directory(error)) continue;
    if (found.size() >= kMostRuns) return;
    const std::string inner = id.empty() ? name : cat(id, "/", name);
    if (is_run(entry.path())) {
      found.push_back(inner);
    } else if (depth < kDeepest) {
      find_below(entry.path(), inner, depth + 1, found);
    }
  }
}

}  // namespace

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kLog, error) || fs::exists(folder / kRunRecord, error) ||
         (fs::exists(folder / "args.json", error) && fs::exists(folder / ".lock", error));
}

std::vector<std::string> find_runs(const fs::path& root) {
  std::vector<std::string> found;
  find_below(root, "", 1, found);
  return found;
}

fs::path run_folder(const fs::path& root, const std::string& id) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(root, error);
  const fs::path folder = error ? fs::path() : fs::weakly_canonical(whole / id, error);
  const auto [end, rest] = std::ranges::mismatch(whole, folder);
  if (error || id.empty() || id.find('\0') != std::string::npos || end != whole.end() || rest == folder.end() ||
      !is_run(folder)) {
    throw Failure(usage_error(cat("there is no run \"", id, "\" in ", root.string()), "GET /runs lists the runs"));
  }
  return folder;
}

Json summary_of(const fs::path& root, const std::string& id) {
  const fs::path folder = root / id;
  const auto record = read_record(folder);
  const Json arguments = json_file(folder / "args.json");
  const Json values = last_values(folder);
  const auto checkpoints = checkpoints_of(folder);
  const Standing standing = standing_of(folder, record, values, checkpoints);
  const auto [step, total] = steps_of(values);
  Json out = Json::object();
  out["id"] = id;
  out["state"] = standing.state;
  out["why"] = standing.why;
  out["pid"] = standing.pid;
  out["started_here"] = record.has_value();
  out["stopping"] = record && record->stopping && standing.state == "running";
  out["command"] = record ? Json(record->command) : Json();
  for (const char* key : {"model", "dataset", "tuner_type", "learning_rate"}) {
    const Json* value = arguments.find(key);
    out[key] = value != nullptr ? *value : Json();
  }
  out["step"] = step;
  out["total_steps"] = total;
  for (const char* key : {"loss", "eval_loss", "tokens_per_second", "elapsed_time", "remaining_time"}) {
    const Json* value = values.find(key);
    out[key] = value != nullptr ? *value : Json();
  }
  out["begun"] = written_at(folder / "args.json");
  if (out["begun"].is_null()) out["begun"] = written_at(folder / kRunRecord);
  out["changed"] = written_at(folder / kLog);
  Json names = Json::array();
  for (const std::int64_t at : checkpoints) names.push_back(cat("checkpoint-", at));
  out["checkpoints"] = std::move(names);
  const Json* best = values.find("best_model_checkpoint");
  out["best"] = best != nullptr && best->is_string() ? Json(fs::path(best->text()).filename().string()) : Json();
  return out;
}

FilePart read_part(const fs::path& path, std::uint64_t file, std::uint64_t offset, std::size_t limit, bool lines) {
  FilePart part;
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    part.begun_again = offset > 0;
    return part;
  }
  part.file = found.st_ino;
  const auto size = static_cast<std::uint64_t>(found.st_size);
  part.begun_again = offset > 0 && ((file != 0 && file != part.file) || offset > size);
  part.offset = part.begun_again ? 0 : offset;
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(part.offset));
  part.text.resize(static_cast<std::size_t>(std::min<std::uint64_t>(limit, size - part.offset)));
  in.read(part.text.data(), static_cast<std::streamsize>(part.text.size()));
  part.text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  if (lines) {
    const std::size_t end = part.text.rfind('\n');
    // A line longer than all that is read at once is none of a log's: it's passed over.
    if (end != std::string::npos || part.text.size() < limit) part.text.resize(end == std::string::npos ? 0 : end + 1);
  }
  part.offset += part.text.size();
  return part;
}

}  // namespace tern::server
