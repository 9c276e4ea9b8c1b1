#include "cli/support_bundle.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>

#include "accel/backend.h"
#include "base/strings.h"
#include "cli/device_report.h"
#include "cli/redact.h"
#include "cli/version.h"
#include "io/compress.h"
#include "io/file_writer.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLogBytes = std::size_t{256} << 10;  // of a log's end
constexpr std::size_t kLogFiles = 8;                       // of each backend
// Of variables that no backend names: what changes how tern runs, or which libraries it finds.
constexpr std::array<std::string_view, 14> kVariables = {
    "TERN_",  "DS_ACCELERATOR", "LD_",         "PATH",   "LANG", "LC_", "NPROC_PER_NODE",
    "NNODES", "NODE_RANK",      "MASTER_PORT", "WORLD_", "OMP_", "HF_", "MODELSCOPE_"};

std::string read_end(const fs::path& file, std::size_t most) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const auto size = static_cast<std::size_t>(in.tellg());
  in.seekg(static_cast<std::streamoff>(size > most ? size - most : 0));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string first_line_with(const fs::path& file, std::string_view start) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(start, 0) == 0) return line;
  }
  return "";
}

std::string versions() {
  utsname names{};
  uname(&names);
  std::string out = version_text();
  out += cat("system: ", names.sysname, " ", names.release, " ", names.machine, "\n");
  out += first_line_with("/etc/os-release", "PRETTY_NAME=") + "\n";
  out += first_line_with("/proc/cpuinfo", "model name") + "\n";
  out += first_line_with("/proc/meminfo", "MemTotal") + "\n";
  out += first_line_with("/proc/meminfo", "MemAvailable") + "\n";
  return out;
}

std::string devices(const std::vector<accel::ProbedBackend>& backends) {
  std::string out;
  std::string links;
  for (const auto& backend : backends) {
    const auto inspection =
        backend.devices.empty() ? accel::Inspection{} : accel::inspect(backend, {.status = true, .links = true});
    out += backend_text(backend, "auto", inspection);
    links += links_text(backend, "auto", inspection);
  }
  return cat(out, "\n", links);
}

bool begins_with_any(std::string_view name, const std::vector<std::string>& starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](const std::string& start) { return name.substr(0, start.size()) == start; });
}

// The variables that matter to tern and to the backends, each value redacted; the others are counted.
std::string environment(const std::vector<accel::ProbedBackend>& backends) {
  std::vector<std::string> starts(kVariables.begin(), kVariables.end());
  for (const auto& probed : backends) {
    if (!probed.visible_devices_env.empty()) starts.push_back(probed.visible_devices_env);
    starts.insert(starts.end(), probed.env_prefixes.begin(), probed.env_prefixes.end());
  }
  std::vector<std::string> lines;
  std::size_t others = 0;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto name = text.substr(0, text.find('='));
    if (!begins_with_any(name, starts)) {
      ++others;
    } else if (is_secret_name(name)) {
      lines.push_back(cat(name, "=(removed)"));
    } else {
      lines.push_back(redact(text));
    }
  }
  std::sort(lines.begin(), lines.end());
  lines.push_back(cat("# and ", others, " more variables, which tern does not read"));
  return join(lines, "\n") + "\n";
}

std::string file_name(std::string text) {
  std::replace(text.begin(), text.end(), '/', '_');
  constexpr std::size_t kLongest = 60;
  return text.size() > kLongest ? text.substr(text.size() - kLongest) : text;
}

void append_vendor_logs(const std::vector<accel::ProbedBackend>& backends, std::vector<io::TarEntry>& entries) {
  for (const auto& backend : backends) {
    if (backend.name.empty()) continue;
    const auto files = accel::inspect(backend, {.logs = true}).log_files;
    for (std::size_t i = 0; i < std::min(files.size(), kLogFiles); ++i) {
      entries.push_back({cat("tern-report/logs/", backend.name, "/", file_name(files[i].filename().string())),
                         redact(read_end(files[i], kLogBytes))});
    }
  }
}

// The folder below `output` whose logging.jsonl was written last; "": none.
fs::path newest_run() {
  fs::path newest;
  fs::file_time_type time{};
  std::error_code error;
  const auto end = fs::recursive_directory_iterator();
  for (auto at = fs::recursive_directory_iterator("output", fs::directory_options::skip_permission_denied, error);
       !error && at != end; at.increment(error)) {
    constexpr int kDeepest = 3;  // output/<model>/<version>/logging.jsonl
    if (at.depth() >= kDeepest) at.disable_recursion_pending();
    if (at->path().filename() != "logging.jsonl") continue;
    std::error_code unread;
    const auto written = at->last_write_time(unread);
    if (unread || (!newest.empty() && written <= time)) continue;
    newest = at->path().parent_path();
    time = written;
  }
  return newest;
}

bool ends_with(const fs::path& file, std::string_view end) {
  const std::string name = file.filename().string();
  return name.size() > end.size() && std::string_view(name).substr(name.size() - end.size()) == end;
}

}  // namespace

std::vector<io::TarEntry> collect_bundle(const std::vector<accel::ProbedBackend>& backends,
                                         const std::vector<Check>& checks) {
  std::vector<io::TarEntry> entries = {
      {"tern-report/versions.txt", redact(versions())},
      {"tern-report/devices.txt", redact(devices(backends))},
      {"tern-report/doctor.txt", redact(checks_text(checks))},
      {"tern-report/environment.txt", environment(backends)},
  };
  if (const auto run = newest_run(); !run.empty()) {
    for (const char* name : {"logging.jsonl", "args.json"}) {
      if (!fs::exists(run / name)) continue;
      entries.push_back({cat("tern-report/logs/run/", name), redact(read_end(run / name, kLogBytes))});
    }
  }
  append_vendor_logs(backends, entries);
  return entries;
}

void require_bundle_name(const fs::path& file) {
  if (ends_with(file, ".tar.zst") || ends_with(file, ".tar.gz") || ends_with(file, ".tgz")) return;
  throw Failure(usage_error(cat("--bundle ", file.string(), " does not say how to pack the report"),
                            "name it NAME.tar.zst or NAME.tar.gz"));
}

void write_bundle(const fs::path& file, const std::vector<io::TarEntry>& entries) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto archive = io::tar(entries, std::chrono::duration_cast<std::chrono::seconds>(now).count());
  io::replace_file(file, ends_with(file, ".tar.zst") ? io::zstd(archive) : io::gzip(archive)).value();
}

std::string bundle_listing(const fs::path& file, const std::vector<io::TarEntry>& entries) {
  std::string out = cat("wrote ", file.string(), ", which holds (tokens, passwords, the home folder's and the host's ",
                        "name are taken out; look before you send it):\n");
  for (const auto& entry : entries) out += cat("  ", entry.name, "  ", human_bytes(entry.text.size()), "\n");
  return out;
}

}  // namespace tern::cli
