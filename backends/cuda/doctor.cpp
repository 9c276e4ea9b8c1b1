// What stands between this machine and its NVIDIA devices, a line each.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "backends/cuda/interface.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

struct Finding {
  std::int32_t level;
  std::string line;
};

// The nodes under /dev, where the kernel's module is loaded; gives how many are devices.
std::size_t add_nodes(std::vector<Finding>& findings) {
  std::error_code error;
  std::size_t devices = 0;
  bool memory = false;
  for (const auto& node : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = node.path().filename().string();
    if (name.rfind("nvidia", 0) != 0 || name == "nvidia-caps") continue;
    const bool numbered = name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos;
    devices += numbered;
    memory = memory || name == "nvidia-uvm";
    const bool needed = numbered || name == "nvidiactl" || name == "nvidia-uvm";
    if (!needed || access(node.path().c_str(), R_OK | W_OK) == 0) continue;
    findings.push_back({TERN_LOG_WARN, cat(node.path().string(),
                                           ": this user may not open it: give it the rights, or a container --gpus")});
  }
  findings.push_back({TERN_LOG_INFO, cat("NVIDIA devices under /dev: ", devices)});
  if (devices > 0 && !memory) {
    findings.push_back({TERN_LOG_WARN, "/dev/nvidia-uvm isn't there: run nvidia-modprobe -u, or modprobe nvidia-uvm"});
  }
  return devices;
}

// Whether code that was built for `architectures` ("80, 90a, 100") runs on a device: code of its own number; of a lower
// one with the same first digits; or the first's PTX, which every later device compiles. Numbers with a letter are for
// one device.
bool runs_on(std::string_view architectures, const Facts& facts) {
  for (bool first = true; !architectures.empty(); first = false) {
    const std::size_t comma = std::min(architectures.find(", "), architectures.size());
    const std::string_view name = architectures.substr(0, comma);
    architectures.remove_prefix(std::min(comma + 2, architectures.size()));
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool lettered = end != name.data() + name.size();
    if (error != std::errc{} || number > facts.capability()) continue;
    if (number == facts.capability() || (!lettered && (first || number / 10 == facts.major))) return true;
  }
  return false;
}

void add_kernels(std::vector<Finding>& findings, const Found& found) {
  if (images().empty()) {
    findings.push_back(
        {TERN_LOG_WARN,
         "this tern was built without kernels for NVIDIA devices: build it where the CUDA toolkit's nvcc "
         "is, with the devices' compute capability in TERN_CUDA_ARCHITECTURES"});
    return;
  }
  findings.push_back({TERN_LOG_INFO, cat("kernels were built for compute capability ", built_architectures(),
                                         ", by nvcc ", built_by())});
  // A driver takes what compilers of its own major version and of earlier ones made.
  const int compiler = std::atoi(built_by());
  if (const std::string version = driver_version(); compiler > std::atoi(version.c_str())) {
    findings.push_back({TERN_LOG_WARN, cat("the driver is of CUDA ", version, ", and kernels of nvcc ", built_by(),
                                           " want one of CUDA ", compiler,
                                           ".0 or later: update the driver, or build tern with an older toolkit")});
  }
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const Facts& facts = found.devices[i].facts;
    if (runs_on(built_architectures(), facts)) continue;
    findings.push_back({TERN_LOG_WARN, cat("cuda:", i, " has compute capability ", facts.major, ".", facts.minor,
                                           ", which none of these runs on: build tern with ", facts.capability(),
                                           " in TERN_CUDA_ARCHITECTURES")});
  }
}

void add_collectives(std::vector<Finding>& findings, std::size_t devices) {
  if (!missing_nccl().empty()) {
    findings.push_back({devices > 1 ? TERN_LOG_WARN : TERN_LOG_INFO, missing_nccl()});
    return;
  }
  int version = 0;
  (void)nccl().GetVersion(&version);
  findings.push_back({TERN_LOG_INFO, cat("NCCL ", version / 10000, ".", version % 10000 / 100, ".", version % 100,
                                         " joins the devices")});
}

void add_device(std::vector<Finding>& findings, const Facts& facts, std::size_t ordinal) {
  findings.push_back({TERN_LOG_INFO, cat("cuda:", ordinal, ": ", facts.name, ", ", facts.memory_bytes >> 20,
                                         " MiB, compute capability ", facts.major, ".", facts.minor, ", at ",
                                         facts.pci_address.empty() ? "no PCI address" : facts.pci_address)});
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  // Where there is no device, nothing is wrong.
  const std::int32_t absent = add_nodes(findings) > 0 ? TERN_LOG_ERROR : TERN_LOG_INFO;
  if (!missing_driver().empty()) {
    findings.push_back({absent, missing_driver()});
    return findings;
  }
  const Found& found = found_devices();
  for (const std::string& note : found.notes) findings.push_back({TERN_LOG_WARN, note});
  if (found.devices.empty()) {
    findings.push_back({absent, found.reason});
    return findings;
  }
  findings.push_back({TERN_LOG_INFO, cat("the driver's version, and that of CUDA: ", driver_version())});
  for (std::size_t i = 0; i < found.devices.size(); ++i) add_device(findings, found.devices[i].facts, i);
  add_kernels(findings, found);
  add_collectives(findings, found.devices.size());
  return findings;
}

}  // namespace

tern_status doctor(uint32_t check, int32_t* level, tern_text line) {
  return guarded([&]() -> tern_status {
    if (level == nullptr) return fail(TERN_INVALID_ARGUMENT, "doctor: no place for the level");
    const auto findings = examine();
    if (check >= findings.size()) return TERN_UNSUPPORTED;
    *level = findings[check].level;
    put_text(line, findings[check].line);
    return TERN_OK;
  });
}

}  // namespace tern::cuda
