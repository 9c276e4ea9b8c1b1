#include "backends/npu/machine.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>

namespace tern::npu {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\"'");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\"'") - first + 1);
}

// The runtime's library in a toolkit, without links; "": the folder is no toolkit. Toolkits are told apart by it, as
// links lead to one toolkit in many ways.
fs::path library_of(const fs::path& folder) {
  for (const char* name : {"libascendcl.so", "libacl_rt.so"}) {
    std::error_code error;
    fs::path real = fs::canonical(folder / "lib64" / name, error);
    if (!error) return real;
  }
  return {};
}

std::string version_of(const fs::path& toolkit) {
  for (const char* file : {"version.cfg", "version.info", "ascend_toolkit_install.info", "runtime/version.info"}) {
    for (const char* key : {"runtime_running_version", "toolkit_installed_version", "Version", "version"}) {
      std::string found = value_in(toolkit / file, key);
      // "[7.7.0.1.238:8.1.RC1]" of version.cfg names the toolkit behind the colon.
      if (const auto colon = found.rfind(':'); colon != std::string::npos) found = found.substr(colon + 1);
      std::erase_if(found, [](char c) { return c == '[' || c == ']'; });
      if (!found.empty()) return found;
    }
  }
  return "unknown";
}

// The toolkit that a folder of libraries or of operators belongs to; "": none.
fs::path toolkit_around(const fs::path& inside) {
  std::error_code error;
  for (fs::path folder : {inside.lexically_normal(), fs::weakly_canonical(inside, error)}) {
    for (; folder.has_relative_path(); folder = folder.parent_path()) {
      if (!library_of(folder).empty()) return folder;
    }
  }
  return {};
}

}  // namespace

bool is_stub_folder(const std::string& folder) {
  return folder.find("/devlib") != std::string::npos || folder.find("/stub") != std::string::npos;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path on_machine(std::string_view path) { return variable("TERN_NPU_ROOT") + std::string(path); }

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const auto& part : parts) out.append(out.empty() ? "" : between).append(part);
  return out;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string value_in(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto sign = line.find_first_of("=:");
    if (sign != std::string::npos && trim(std::string_view(line).substr(0, sign)) == key) {
      return std::string(trim(std::string_view(line).substr(sign + 1)));
    }
  }
  return "";
}

std::vector<int> device_nodes() {
  std::vector<int> found;
  constexpr std::string_view kStart = "davinci";
  for (const auto& node : entries(on_machine("/dev"))) {
    const std::string name = node.filename().string();
    if (name.rfind(kStart, 0) != 0) continue;
    if (const auto value = number(std::string_view(name).substr(kStart.size()))) found.push_back(*value);
  }
  std::sort(found.begin(), found.end());
  return found;
}

int cards_on_bus() {
  int cards = 0;
  for (const auto& device : entries(on_machine("/sys/bus/pci/devices"))) {
    const bool is_huawei = first_line(device / "vendor") == "0x19e5";
    // "processing accelerators"; a 310P says it so as well.
    cards += static_cast<int>(is_huawei && first_line(device / "class").rfind("0x1200", 0) == 0);
  }
  return cards;
}

bool in_container() {
  std::error_code error;
  if (fs::exists(on_machine("/.dockerenv"), error) || fs::exists(on_machine("/run/.containerenv"), error)) return true;
  std::ifstream groups(on_machine("/proc/1/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    for (const char* word : {"docker", "kubepods", "containerd", "libpod"}) {
      if (line.find(word) != std::string::npos) return true;
    }
  }
  return false;
}

std::vector<Toolkit> toolkits() {
  std::vector<Toolkit> found;
  std::vector<fs::path> libraries;  // by toolkit
  const auto add = [&](const fs::path& inside, const std::string& named_by) {
    const fs::path root = toolkit_around(inside);
    if (root.empty()) return;
    const fs::path library = library_of(root);
    const auto at = std::find(libraries.begin(), libraries.end(), library) - libraries.begin();
    if (static_cast<std::size_t>(at) == libraries.size()) {
      libraries.push_back(library);
      found.push_back({root, version_of(root), {}});
    }
    auto& names = found[static_cast<std::size_t>(at)].named_by;
    if (!named_by.empty() && std::find(names.begin(), names.end(), named_by) == names.end()) names.push_back(named_by);
  };
  for (const char* name : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH"}) {
    if (const auto value = variable(name); !value.empty()) add(value, name);
  }
  for (const auto& folder : split(variable("LD_LIBRARY_PATH"), ':')) {
    if (!is_stub_folder(folder)) add(folder, "LD_LIBRARY_PATH");
  }
  for (const char* place : {"/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"}) {
    add(on_machine(place), "");
  }
  return found;
}

ProcessState state_of_process(int pid) {
  const std::string stat = first_line(on_machine("/proc/" + std::to_string(pid) + "/stat"));
  if (stat.empty()) return ProcessState::gone;
  // The state is behind the name, which may hold blanks and brackets of its own.
  const auto end = stat.rfind(')');
  const char state = end == std::string::npos || end + 2 >= stat.size() ? '?' : stat[end + 2];
  return state == 'Z' || state == 'X' ? ProcessState::zombie : ProcessState::alive;
}

std::string name_of_process(int pid) { return first_line(on_machine("/proc/" + std::to_string(pid) + "/comm")); }

VisibleDevices visible_devices(int installed) {
  VisibleDevices out;
  const char* list = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (list == nullptr) {
    out.numbers.resize(static_cast<std::size_t>(std::max(installed, 0)));
    std::iota(out.numbers.begin(), out.numbers.end(), 0);
    return out;
  }
  const std::string shown = "ASCEND_RT_VISIBLE_DEVICES=" + std::string(list);
  for (const auto& entry : split(list, ',')) {
    const auto value = number(entry);
    std::string wrong;
    if (!value || *value < 0) {
      wrong = "is no number of a card";
    } else if (*value >= installed) {
      wrong = "isn't there: the cards are 0 to " + std::to_string(installed - 1);
    } else if (!out.numbers.empty() && *value == out.numbers.back()) {
      wrong = "is named twice";
    } else if (!out.numbers.empty() && *value < out.numbers.back()) {
      wrong = "comes after a larger one";
    }
    if (!wrong.empty()) {
      out.problem = shown + ": \"" + entry + "\" " + wrong + ", and CANN reads no further; name cards in ascending " +
                    "order, each once, as in 0,1";
      return out;
    }
    out.numbers.push_back(*value);
  }
  if (out.numbers.empty()) out.problem = shown + " hides every card; unset it, or name some, as in 0,1";
  return out;
}

fs::path log_folder() {
  if (const auto folder = variable("ASCEND_PROCESS_LOG_PATH"); !folder.empty()) return folder;
  if (const auto folder = variable("ASCEND_WORK_PATH"); !folder.empty()) return fs::path(folder) / "log";
  return fs::path(variable("HOME")) / "ascend" / "log";
}

std::vector<fs::path> log_files() {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const char* kind : {"debug", "run"}) {
    for (const auto& file : entries(log_folder() / kind / "plog")) {
      std::error_code error;
      const auto time = fs::last_write_time(file, error);
      if (!error && file.extension() == ".log") found.emplace_back(time, file);
    }
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<fs::path> out;
  for (auto& [time, file] : found) out.push_back(std::move(file));
  return out;
}

}  // namespace tern::npu
