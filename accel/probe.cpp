// Probing in child processes: each child loads one plugin, writes what it found into a pipe and ends.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "accel/child_process.h"
#include "accel/registry.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kMaxDevices = 64;  // as many as peer_mask can name

// The fixed part of a child's answer; device infos follow.
struct ProbeAnswer {
  char name[64];
  char version[64];
  char reason[512];
  std::int32_t probe_rank;
  std::int32_t devices;
  std::int32_t text_bytes;  // of the lines behind the infos, as read_lines reads them
};

void put(char* to, std::size_t capacity, const std::string& text) {
  const std::size_t length = std::min(capacity - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void answer_in_child(const fs::path& file, const Answer& give) {
  ProbeAnswer answer{};
  answer.probe_rank = -1;
  std::vector<tern_device_info> infos;
  std::string text;
  auto backend = Backend::load(file);
  if (!backend) {
    put(answer.reason, sizeof(answer.reason), backend.error().problem);  // its mend is for who named the file
  } else {
    const auto& api = (*backend)->api();
    put(answer.name, sizeof(answer.name), api.name);
    put(answer.version, sizeof(answer.version), api.version);
    answer.probe_rank = api.probe_rank;
    text += cat((*backend)->visible_devices_env(), "\n", join((*backend)->inherited_env_prefixes(), " "), "\n");
    for (const std::string& line : (*backend)->device_options()) text += line + '\n';
    text += '\n';
    for (const std::string& name : (*backend)->profiles()) text += name + '\n';
    std::int32_t count = 0;
    const tern_status status = api.device_count(&count, {answer.reason, sizeof(answer.reason) - 1});
    if (status != TERN_OK && answer.reason[0] == '\0') {
      put(answer.reason, sizeof(answer.reason), (*backend)->last_error());
    }
    for (std::int32_t i = 0; status == TERN_OK && i < std::min(count, kMaxDevices); ++i) {
      tern_device_info info{};
      info.size = sizeof(info);
      if (api.device_info(i, &info) != TERN_OK) {
        // The list's places are the ordinals: it ends where one of them cannot be described.
        put(answer.reason, sizeof(answer.reason), cat("device ", i, ": ", (*backend)->last_error()));
        break;
      }
      infos.push_back(info);
    }
  }
  answer.devices = static_cast<std::int32_t>(infos.size());
  answer.text_bytes = static_cast<std::int32_t>(text.size());
  give({reinterpret_cast<const char*>(&answer), sizeof(answer)});
  give({reinterpret_cast<const char*>(infos.data()), infos.size() * sizeof(tern_device_info)});
  give(text);
}

// The variable that hides devices, prefixes of others by blanks, options, an empty line, profiles.
void read_lines(const std::string& text, ProbedBackend& out) {
  const auto lines = split(text, '\n');
  if (lines.size() < 2) return;
  out.visible_devices_env = lines[0];
  for (const std::string_view prefix : split(lines[1], ' ')) {
    if (!prefix.empty()) out.env_prefixes.emplace_back(prefix);
  }
  std::vector<std::string>* list = &out.options;
  for (std::size_t i = 2; i < lines.size(); ++i) {
    if (lines[i].empty()) {
      list = &out.profiles;
    } else {
      list->emplace_back(lines[i]);
    }
  }
}

ProbedBackend read_answer(const fs::path& file, const std::string& bytes) {
  ProbedBackend out;
  out.file = file;
  ProbeAnswer answer{};
  std::memcpy(&answer, bytes.data(), sizeof(answer));
  answer.name[sizeof(answer.name) - 1] = '\0';
  answer.version[sizeof(answer.version) - 1] = '\0';
  answer.reason[sizeof(answer.reason) - 1] = '\0';
  out.name = answer.name;
  out.version = answer.version;
  out.probe_rank = answer.probe_rank;
  out.absent_reason = answer.reason;
  const char* at = bytes.data() + sizeof(answer);
  for (std::int32_t i = 0; i < answer.devices; ++i) {
    tern_device_info info{};
    std::memcpy(&info, at + static_cast<std::size_t>(i) * sizeof(info), sizeof(info));
    terminate_texts(info);
    out.devices.push_back(info);
  }
  read_lines(bytes.substr(bytes.size() - static_cast<std::size_t>(answer.text_bytes)), out);
  if (out.devices.empty() && out.absent_reason.empty()) out.absent_reason = "no device found";
  return out;
}

bool is_whole(const std::string& bytes) {
  if (bytes.size() < sizeof(ProbeAnswer)) return false;
  ProbeAnswer answer{};
  std::memcpy(&answer, bytes.data(), sizeof(answer));
  return answer.devices >= 0 && answer.text_bytes >= 0 &&
         bytes.size() == sizeof(answer) + static_cast<std::size_t>(answer.devices) * sizeof(tern_device_info) +
                             static_cast<std::size_t>(answer.text_bytes);
}

// A remembered verdict holds for the same file; `tern devices` probes again and overwrites it.
fs::path verdict_file(const fs::path& dir, const fs::path& file) { return dir / (file.stem().string() + ".verdict"); }

std::string file_stamp(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  return cat(file.string(), " ", static_cast<std::int64_t>(time.time_since_epoch().count()));
}

std::string remembered_reason(const ProbeOptions& options, const fs::path& file) {
  if (options.verdict_dir.empty() || options.forget) return {};
  std::ifstream in(verdict_file(options.verdict_dir, file));
  std::string stamp;
  std::string reason;
  if (!std::getline(in, stamp) || !std::getline(in, reason) || stamp != file_stamp(file)) return {};
  return reason;
}

void remember(const ProbeOptions& options, const fs::path& file, const std::string& reason) {
  if (options.verdict_dir.empty()) return;
  std::error_code error;
  const fs::path path = verdict_file(options.verdict_dir, file);
  if (reason.empty()) {
    fs::remove(path, error);
    return;
  }
  fs::create_directories(options.verdict_dir, error);
  std::ofstream(path) << file_stamp(file) << '\n' << reason << '\n';
}

}  // namespace

std::vector<ProbedBackend> probe_backends(const std::vector<fs::path>& files, const ProbeOptions& options) {
  std::vector<ProbedBackend> out(files.size());
  std::vector<ChildTask> tasks;
  std::vector<std::size_t> asked;  // by task, the place of its file
  for (std::size_t i = 0; i < files.size(); ++i) {
    out[i].file = files[i];
    if (auto reason = remembered_reason(options, files[i]); !reason.empty()) {
      out[i].absent_reason = reason + " (remembered; `tern devices` probes again)";
      out[i].remembered = true;
    } else {
      tasks.emplace_back([&file = files[i]](const Answer& give) { answer_in_child(file, give); });
      asked.push_back(i);
    }
  }
  const auto answers = run_in_children(tasks, options.deadline);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const std::size_t i = asked[t];
    if (!answers[t].started) {
      out[i].absent_reason = "no process could be started to probe it";
      continue;
    }
    std::string trouble = answers[t].trouble;
    if (trouble.empty() && !is_whole(answers[t].bytes)) {
      trouble = "its driver ended the probing process without an answer";
    }
    remember(options, files[i], trouble);
    if (trouble.empty()) {
      out[i] = read_answer(files[i], answers[t].bytes);
    } else {
      out[i].absent_reason = trouble + "; check the driver with the vendor's own tool, or remove the plugin";
    }
  }
  return out;
}

}  // namespace tern::accel
