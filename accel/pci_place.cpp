// Where devices sit on the PCI bus, as Linux shows it: what joins two of them, and the processors near one.
#include <algorithm>
#include <cctype>
#include <fstream>

#include "accel/inspection.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

namespace fs = std::filesystem;

std::string read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Host bridge, bridges and the device: "pci0000:00", "0000:00:01.0", "0000:01:00.0". Empty: not on the bus.
std::vector<std::string> path_on_bus(const fs::path& system, const char* address) {
  std::error_code error;
  const fs::path real = fs::canonical(system / "bus/pci/devices" / address, error);
  std::vector<std::string> steps;
  if (error || *address == '\0') return steps;
  for (const auto& part : real) {
    const std::string name = part.string();
    if (!steps.empty() || name.rfind("pci", 0) == 0) steps.push_back(name);
  }
  if (!steps.empty() && steps.front() == "pci") steps.clear();  // the bus's own folder, not a path below a bridge
  return steps;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

std::string derived_link(const tern_device_info& from, const tern_device_info& to, int to_ordinal,
                         const fs::path& system) {
  const std::string link = from.link;
  if ((from.peer_mask >> to_ordinal & 1U) != 0 && !link.empty() && link != "pcie") return upper(link);
  const auto a = path_on_bus(system, from.pci_address);
  const auto b = path_on_bus(system, to.pci_address);
  if (a.empty() || b.empty()) return link.empty() ? "?" : upper(link);
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto common = end - a.begin();
  if (common == 0) return "SYS";
  if (common == 1) return "PHB";
  // Beyond the last common bridge: one switch has its own two ports between two devices.
  const auto bridges = std::max(a.end() - end, b.end() - other) - 1;
  return bridges <= 1 ? "PIX" : "PXB";
}

std::string derived_affinity(const tern_device_info& info, const fs::path& system) {
  if (info.pci_address[0] != '\0') {
    if (auto list = read_line(system / "bus/pci/devices" / info.pci_address / "local_cpulist"); !list.empty()) {
      return list;
    }
  }
  if (info.numa_node < 0) return "";
  return read_line(system / "devices/system/node" / cat("node", info.numa_node) / "cpulist");
}

}  // namespace tern::accel
