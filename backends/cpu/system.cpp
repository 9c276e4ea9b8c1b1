#include "backends/cpu/system.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// A file that holds one number of bytes; kNoLimit for "max" or no file.
std::uint64_t read_bytes(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  return in >> value ? value : kNoLimit;
}

void apply_limit(SystemMemory& memory, std::uint64_t limit, std::uint64_t used) {
  if (limit == kNoLimit || limit >= memory.total) return;
  memory.total = limit;
  memory.free = std::min(memory.free, used < limit ? limit - used : 0);
}

}  // namespace

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto parts = split(line, ':');
    if (parts.size() == 2 && trim(parts[0]) == "model name") return std::string(trim(parts[1]));
  }
#if defined(__aarch64__)
  return "Arm 64";
#else
  return "CPU";
#endif
}

SystemMemory system_memory() {
  SystemMemory memory;
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (std::uint64_t kib = 0; in >> key >> kib; std::getline(in, unit)) {
    if (key == "MemTotal:") memory.total = kib << 10;
    if (key == "MemAvailable:") memory.free = kib << 10;
  }
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const bool v2 = parts[1].empty();
    if (!v2 && parts[1] != "memory") continue;
    std::string path(parts[2]);
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (;;) {
      if (path == "/") path.clear();
      const std::string at = root + path;
      if (v2) {
        apply_limit(memory, read_bytes(at + "/memory.max"), read_bytes(at + "/memory.current"));
      } else {
        apply_limit(memory, read_bytes(at + "/memory.limit_in_bytes"), read_bytes(at + "/memory.usage_in_bytes"));
      }
      if (path.empty()) break;
      const auto slash = path.rfind('/');
      path.erase(slash == std::string::npos ? 0 : slash);
    }
  }
  return memory;
}

}  // namespace tern::cpu
