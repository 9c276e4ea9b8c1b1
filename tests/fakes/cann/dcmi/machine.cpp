#include "tests/fakes/cann/dcmi/machine.h"

#include <algorithm>
#include <cstdlib>

#include "backends/npu/cann/dcmi.h"

namespace fake_dcmi {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(at, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::map<std::string, long long> pairs(const char* name) {
  std::map<std::string, long long> found;
  for (const std::string& entry : split(variable(name, ""), ',')) {
    const auto parts = split(entry, '=');
    if (parts.size() == 2) found[parts[0]] = std::atoll(parts[1].c_str());
  }
  return found;
}

}  // namespace

Machine read_machine() {
  Machine machine;
  machine.chip = variable("TERN_FAKE_CANN_CHIP", "910B1");
  if (machine.chip.rfind("Ascend", 0) == 0) machine.chip = machine.chip.substr(6);
  machine.devices = std::atoi(variable("TERN_FAKE_CANN_DEVICES", "1").c_str());
  machine.chips_per_card = machine.chip.rfind("910_93", 0) == 0 ? 2 : 1;
  machine.memory_megabytes = std::strtoull(variable("TERN_FAKE_CANN_HBM", "4294967296").c_str(), nullptr, 10) >> 20;
  for (const auto& [device, value] : pairs("TERN_FAKE_DCMI_HEALTH")) {
    machine.health[std::atoi(device.c_str())] = static_cast<unsigned>(value);
  }
  for (const std::string& entry : split(variable("TERN_FAKE_DCMI_PROCESSES", ""), ',')) {
    const auto parts = split(entry, ':');
    if (parts.size() != 3) continue;
    machine.processes.push_back({std::atoi(parts[0].c_str()), std::atoi(parts[1].c_str()),
                                 static_cast<unsigned long>(std::atoll(parts[2].c_str()))});
    machine.used[machine.processes.back().device] += machine.processes.back().megabytes;
  }
  for (const auto& [device, value] : pairs("TERN_FAKE_DCMI_USED")) {
    machine.used[std::atoi(device.c_str())] = static_cast<unsigned long long>(value);
  }
  for (const auto& [function, code] : pairs("TERN_FAKE_DCMI_FAULT")) machine.faults[function] = static_cast<int>(code);
  return machine;
}

int link_of(const Machine& machine, int a, int b) {
  constexpr int kBoard = 8;
  if (a == b) return DCMI_TOPO_TYPE_SELF;
  if (machine.chip.rfind("310P", 0) == 0) return a / 2 == b / 2 ? DCMI_TOPO_TYPE_PIX : DCMI_TOPO_TYPE_SYS;
  if (machine.chips_per_card == 2) return a / 2 == b / 2 ? DCMI_TOPO_TYPE_SIO : DCMI_TOPO_TYPE_HCCS_SW;
  return a / kBoard == b / kBoard ? DCMI_TOPO_TYPE_HCCS : DCMI_TOPO_TYPE_SYS;
}

}  // namespace fake_dcmi
