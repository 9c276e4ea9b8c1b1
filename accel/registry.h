// Which backends and devices there are, why others are absent, and which one a run takes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accel/device.h"

namespace tern::accel {

// What probing one plugin file gave.
struct ProbedBackend {
  std::filesystem::path file;
  std::string name;  // "" where it could not even be loaded
  std::string version;
  int probe_rank = -1;  // -1: never chosen by itself
  std::vector<tern_device_info> devices;
  std::string visible_devices_env;        // the vendor's variable that hides devices; "": none
  std::vector<std::string> env_prefixes;  // of variables that the vendor's libraries read
  std::vector<std::string> options;       // of its devices: "key: what it does"
  std::vector<std::string> profiles;      // of devices that it describes
  std::string absent_reason;              // why there is no device, in plain words with the mend
  bool remembered = false;                // the verdict is an earlier probe's
};

struct ProbeOptions {
  std::chrono::milliseconds deadline{10'000};
  std::filesystem::path verdict_dir;  // remembers plugins that crashed or hung; empty: nothing is remembered
  bool forget = false;                // probe again whatever is remembered (`tern devices`, `tern doctor`)
};

// Probes every plugin in a child process of its own, side by side, so that a broken driver cannot take tern down.
[[nodiscard]] std::vector<ProbedBackend> probe_backends(const std::vector<std::filesystem::path>& files,
                                                        const ProbeOptions& options);

// What the user said about the device.
struct DeviceRequest {
  std::string device = "auto";         // --device: "auto", "cpu", "cuda:0"
  std::filesystem::path backend_file;  // --backend: a plugin outside of the search path
  DeviceOptions options;               // --device_options
};

// A device and how it came to be taken: an explicit one never falls back.
struct SelectedDevice {
  DevicePtr device;
  bool explicitly_named = false;
  std::string why;  // "named by --device", "best that probing found"
};

// --device, else TERN_ACCELERATOR (or its alias DS_ACCELERATOR; both set and different is an error), else the best that
// probing finds by the plugins' own ranks. Errors: usage (a malformed name), device (absent).
[[nodiscard]] Result<SelectedDevice> select_device(const DeviceRequest& request, const ProbeOptions& options);

}  // namespace tern::accel
