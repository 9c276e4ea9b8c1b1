#include "tests/fakes/cann/acl/settings.h"

#include <cstdlib>
#include <numeric>

#include "backends/npu/cann/errors.h"

namespace fake {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::int64_t number(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::strtoll(value, nullptr, 10) : otherwise;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(at, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::vector<int> visible_devices(const char* list, std::int32_t installed) {
  std::vector<int> devices;
  if (list == nullptr) {
    devices.resize(static_cast<std::size_t>(installed));
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  for (const std::string& entry : split(list, ',')) {
    if (entry.find_first_not_of("0123456789") != std::string::npos || entry.size() > 4) break;
    const int device = std::atoi(entry.c_str());
    if (device >= installed || (!devices.empty() && device <= devices.back())) break;
    devices.push_back(device);
  }
  return devices;
}

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  for (const std::string& entry : split(text, ',')) {
    Fault fault;
    const std::size_t at = entry.find('@');
    const std::size_t equals = entry.find('=');
    fault.function = entry.substr(0, std::min(at, equals));
    if (at != std::string::npos) fault.at = std::atoll(entry.c_str() + at + 1);
    if (equals != std::string::npos) fault.code = std::atoi(entry.c_str() + equals + 1);
    if (fault.function == "oom") fault = {"aclrtMalloc", fault.at, ACL_ERROR_RT_MEMORY_ALLOCATION};
    if (fault.function == "launch") fault = {"kernel", fault.at, ACL_ERROR_RT_AICORE_EXCEPTION};
    if (fault.function == "hang") fault.code = 1;
    if (fault.function == "kernel" && fault.code == 0) fault.code = ACL_ERROR_RT_AICORE_EXCEPTION;
    faults.push_back(std::move(fault));
  }
  return faults;
}

Settings read_settings() {
  Settings settings;
  settings.chip = find_chip(variable("TERN_FAKE_CANN_CHIP", "910B1"));
  settings.installed = static_cast<std::int32_t>(number("TERN_FAKE_CANN_DEVICES", 1));
  settings.devices = visible_devices(std::getenv("ASCEND_RT_VISIBLE_DEVICES"), settings.installed);
  settings.memory = static_cast<std::uint64_t>(number("TERN_FAKE_CANN_HBM", std::int64_t{4} << 30));
  settings.taken = static_cast<std::uint64_t>(number("TERN_FAKE_CANN_HBM_TAKEN", 0));
  const std::string version = variable("TERN_FAKE_CANN_VERSION", "9.1");
  settings.major = std::atoi(version.c_str());
  const std::size_t dot = version.find('.');
  settings.minor = dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
  settings.lateness = static_cast<std::uint32_t>(number("TERN_FAKE_CANN_LATE", 100));
  settings.seed = static_cast<std::uint32_t>(number("TERN_FAKE_CANN_SEED", 1));
  settings.faults = parse_faults(variable("TERN_FAKE_CANN_FAULT", ""));
  settings.without = split(variable("TERN_FAKE_CANN_WITHOUT", ""), ',');
  return settings;
}

}  // namespace fake
