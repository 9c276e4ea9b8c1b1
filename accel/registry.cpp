#include "accel/registry.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/strings.h"

namespace tern::accel {
namespace {

struct DeviceName {
  std::string backend;
  int ordinal = 0;
};

Result<DeviceName> parse_device_name(const std::string& text, const std::string& where) {
  const auto colon = text.find(':');
  DeviceName name{text.substr(0, colon), 0};
  if (colon != std::string::npos) {
    const std::string digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), name.ordinal);
    if (error != std::errc{} || end != digits.data() + digits.size()) name.ordinal = -1;
  }
  if (name.backend.empty() || name.ordinal < 0) {
    return usage_error(cat(where, " \"", text, "\" is not the name of a device"),
                       "write BACKEND or BACKEND:ORDINAL, such as cpu or npu:0");
  }
  return name;
}

// --device, TERN_ACCELERATOR or its alias; "" where none names one.
Result<std::pair<std::string, std::string>> named_device(const DeviceRequest& request) {
  using Named = std::pair<std::string, std::string>;
  if (!request.device.empty() && request.device != "auto") return Named{request.device, "--device"};
  const char* tern = std::getenv("TERN_ACCELERATOR");
  const char* deepspeed = std::getenv("DS_ACCELERATOR");
  if (tern != nullptr && deepspeed != nullptr && std::string(tern) != deepspeed) {
    return usage_error(cat("TERN_ACCELERATOR and DS_ACCELERATOR name different devices, ", tern, " and ", deepspeed),
                       "unset one");
  }
  if (tern != nullptr && *tern != '\0') return Named{tern, "TERN_ACCELERATOR"};
  if (deepspeed != nullptr && *deepspeed != '\0') return Named{deepspeed, "DS_ACCELERATOR"};
  return Named{"", ""};
}

std::string plugin_word(const std::filesystem::path& file) {
  std::string stem = file.stem().string();  // libtern_cpu
  const std::string prefix = "libtern_";
  return stem.rfind(prefix, 0) == 0 ? stem.substr(prefix.size()) : stem;
}

// Opens a named device: its own plugin, libtern_NAME.so, is loaded and no other is touched.
Result<SelectedDevice> open_named(const DeviceName& name, const std::string& flag, const DeviceRequest& request) {
  const std::filesystem::path& backend_file = request.backend_file;
  const std::vector<std::filesystem::path> files =
      backend_file.empty() ? find_backend_files() : std::vector<std::filesystem::path>{backend_file};
  std::vector<std::string> known;
  for (const auto& file : files) {
    if (backend_file.empty() && plugin_word(file) != name.backend) {
      known.push_back(plugin_word(file));
      continue;
    }
    auto backend = Backend::load(file);
    if (!backend) return backend.error();
    if ((*backend)->name() != name.backend) {
      known.push_back((*backend)->name());
      continue;
    }
    auto device = Device::open(*backend, name.ordinal, request.options);
    if (!device) return device.error();
    return SelectedDevice{*device, true, cat("named by ", flag)};
  }
  return device_error(
      cat(flag, " ", name.backend, " names a backend that is not installed",
          known.empty() ? std::string() : cat(" (there are ", join(known, ", "), ")")),
      "put its plugin into a folder of $TERN_BACKEND_PATH, or choose a device that `tern devices` lists");
}

}  // namespace

Result<SelectedDevice> select_device(const DeviceRequest& request, const ProbeOptions& options) {
  auto named = named_device(request);
  if (!named) return named.error();
  if (!named->first.empty()) {
    auto name = parse_device_name(named->first, named->second);
    if (!name) return name.error();
    return open_named(*name, named->second, request);
  }
  if (!request.backend_file.empty()) {
    auto backend = Backend::load(request.backend_file);
    if (!backend) return backend.error();
    auto device = Device::open(*backend, 0, request.options);
    if (!device) return device.error();
    return SelectedDevice{*device, true, "named by --backend"};
  }
  auto probed = probe_backends(find_backend_files(), options);
  std::stable_sort(probed.begin(), probed.end(),
                   [](const auto& a, const auto& b) { return a.probe_rank < b.probe_rank; });
  std::vector<std::string> reasons;
  for (const auto& candidate : probed) {
    if (candidate.devices.empty()) {
      reasons.push_back(cat(plugin_word(candidate.file), ": ", candidate.absent_reason));
      continue;
    }
    if (candidate.probe_rank < 0) continue;
    auto backend = Backend::load(candidate.file);
    if (!backend) return backend.error();
    auto device = Device::open(*backend, 0, request.options);
    if (!device) return device.error();
    return SelectedDevice{*device, false, "best that probing found"};
  }
  return device_error(
      cat("there is no device to run on: ", reasons.empty() ? "no backend plugin was found" : join(reasons, "; ")),
      "run `tern devices` to see each backend and what it lacks");
}

}  // namespace tern::accel
