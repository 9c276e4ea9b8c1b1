// What a backend tells of its devices and its driver without a run: states, links, findings, logs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accel/registry.h"
#include "tern/accel_monitor.h"

namespace tern::accel {

struct Finding {
  enum class Level { ok, warning, error };
  Level level = Level::ok;
  std::string line;  // what was found, with the mend
};

struct DeviceStatus {
  std::string health = "unknown";  // "ok", "degraded", "lost", or "unknown" where nobody can tell
  std::string reason;              // why it isn't ok
  bool monitored = false;          // `state` is the backend's word
  tern_device_state state{};
  std::vector<tern_device_process> processes;
  std::vector<std::string> links;  // by the ordinal of the other device; "": the backend doesn't say
  std::string cpu_affinity;        // "": the backend doesn't say
};

// Which parts to ask for; the rest is left empty.
struct InspectOptions {
  bool status = false;    // of each device, with its processes
  bool links = false;     // between them and to the processors
  bool findings = false;  // the backend's own checks
  bool logs = false;
  std::chrono::milliseconds deadline{30'000};
};

struct Inspection {
  std::vector<DeviceStatus> devices;  // by ordinal, as many as were probed
  std::vector<Finding> findings;
  std::vector<std::filesystem::path> log_files;  // newest first
  std::string trouble;  // how the backend's library ended the process that asked; "": it didn't
};

// Asks in a child process: a vendor's library may crash or hang.
[[nodiscard]] Inspection inspect(const ProbedBackend& probed, const InspectOptions& options);

// What joins two devices where the backend doesn't say: by `peer_mask` and `link`, else by their places on the PCI bus
// (below `system`, normally /sys), in npu-smi's and nvidia-smi's words: PIX, PXB, PHB, SYS.
[[nodiscard]] std::string derived_link(const tern_device_info& from, const tern_device_info& to, int to_ordinal,
                                       const std::filesystem::path& system = "/sys");

// The CPUs near the device by its PCI address or its NUMA node, as Linux lists them; "": not known.
[[nodiscard]] std::string derived_affinity(const tern_device_info& info, const std::filesystem::path& system = "/sys");

}  // namespace tern::accel
