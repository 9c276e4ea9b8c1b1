// What stands between this machine and its OpenCL devices, a line each.
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "backends/opencl/interface.h"
#include "backends/opencl/runtime.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

struct Finding {
  std::int32_t level;
  std::string line;
};

std::size_t registered_drivers() {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator("/etc/OpenCL/vendors", error)) {
    count += file.path().extension() == ".icd";
  }
  return count;
}

// Nodes of GPUs that this user may not open.
void add_render_nodes(std::vector<Finding>& findings) {
  std::error_code error;
  for (const auto& node : std::filesystem::directory_iterator("/dev/dri", error)) {
    const std::string path = node.path();
    if (node.path().filename().string().rfind("renderD", 0) != 0 || access(path.c_str(), R_OK | W_OK) == 0) continue;
    findings.push_back({TERN_LOG_WARN, cat(path,
                                           ": this user may not open it, so drivers hide the GPU: add the user "
                                           "to the group render, or give a container --device /dev/dri")});
  }
}

void add_device(std::vector<Finding>& findings, const Facts& facts, std::size_t ordinal) {
  const char* const kind = facts.cpu ? "a CPU: the cpu device is faster than it" : "a GPU or accelerator";
  findings.push_back({TERN_LOG_INFO, cat("opencl:", ordinal, ": ", facts.name, ", ", facts.memory_bytes >> 20,
                                         " MiB, driver ", facts.driver_version, "; ", kind)});
  std::string lacks;
  const auto lack = [&](bool has, const char* what) {
    if (!has) lacks += cat(lacks.empty() ? "" : ", ", what);
  };
  lack(facts.fp16, "fp16 arithmetic");
  lack(facts.subgroups, "subgroups");
  lack(facts.integer_dot, "integer dot products");
  lack(facts.intel_matrix, "Intel's matrix units");
  if (!lacks.empty()) findings.push_back({TERN_LOG_INFO, cat("opencl:", ordinal, " has no ", lacks)});
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  if (!missing_library().empty()) {
    findings.push_back({TERN_LOG_ERROR, missing_library()});
    return findings;
  }
  const std::size_t drivers = registered_drivers();
  findings.push_back(
      {drivers > 0 ? TERN_LOG_INFO : TERN_LOG_WARN, cat("drivers registered in /etc/OpenCL/vendors: ", drivers)});
  add_render_nodes(findings);
  const Found& found = found_devices();
  for (const std::string& note : found.notes) findings.push_back({TERN_LOG_WARN, note});
  if (found.devices.empty()) findings.push_back({TERN_LOG_ERROR, found.reason});
  for (std::size_t i = 0; i < found.devices.size(); ++i) add_device(findings, found.devices[i].facts, i);
  if (host().cache_folder.empty()) {
    findings.push_back({TERN_LOG_WARN, "there is no folder for compiled kernels: each process compiles them again"});
  }
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

}  // namespace tern::opencl
