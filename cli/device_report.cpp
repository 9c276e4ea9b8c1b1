#include "cli/device_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/dtype.h"
#include "base/strings.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

// A process by its number and, while it lives, its name.
std::string process_name(std::int32_t pid) {
  std::ifstream in(cat("/proc/", pid, "/comm"));
  std::string name;
  return std::getline(in, name) ? cat(pid, " (", name, ")") : cat(pid, " (not visible here)");
}

// What the device does now, as far as its backend knows: "40 C, 60.0 W, ...".
std::string activity(const tern_device_state& state) {
  std::vector<std::string> parts;
  if (!std::isnan(state.temperature_celsius)) parts.push_back(cat(fixed(state.temperature_celsius, 0), " C"));
  if (!std::isnan(state.power_watts)) parts.push_back(cat(fixed(state.power_watts, 1), " W"));
  if (!std::isnan(state.compute_percent)) parts.push_back(cat("computing ", fixed(state.compute_percent, 0), "%"));
  if (state.memory_total > 0) {
    parts.push_back(cat("memory ", human_bytes(state.memory_used), " of ", human_bytes(state.memory_total), " in use"));
  }
  if (state.huge_pages_total > 0) {
    parts.push_back(cat("huge pages ", state.huge_pages_used, " of ", state.huge_pages_total));
  }
  if (state.place[0] != '\0') parts.emplace_back(state.place);
  return join(parts, ", ");
}

std::vector<std::string> storage_dtypes(const tern_device_info& info) {
  std::vector<std::string> names;
  for (int i = 0; i < TERN_DTYPE_COUNT; ++i) {
    if ((info.storage_dtypes >> i & 1U) != 0) names.emplace_back(dtype_name(static_cast<tern_dtype>(i)));
  }
  return names;
}

struct Rate {
  std::string dtype;
  double rate;  // relative to fp32
};

std::vector<Rate> product_rates(const tern_device_info& info) {
  std::vector<Rate> rates;
  for (int i = 0; i < TERN_DTYPE_COUNT; ++i) {
    const double rate = info.matmul_rate[i];
    if (rate > 0) rates.push_back({std::string(dtype_name(static_cast<tern_dtype>(i))), rate});
  }
  return rates;
}

std::vector<std::string> peers(const accel::ProbedBackend& backend, const tern_device_info& info) {
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) {
    if ((info.peer_mask >> i & 1U) != 0) names.push_back(cat(backend.name, ":", i));
  }
  return names;
}

const char* matrix_units(const tern_device_info& info) {
  switch (info.matrix_units) {
    case TERN_MATRIX_UNITS_VECTOR:
      return "vector";
    case TERN_MATRIX_UNITS_TENSOR:
      return "tensor";
    default:
      return "none";
  }
}

std::string device_text(const accel::ProbedBackend& backend, int ordinal, const accel::DeviceStatus& status) {
  const auto& info = backend.devices[static_cast<std::size_t>(ordinal)];
  std::vector<std::string> rates;
  for (const auto& rate : product_rates(info)) rates.push_back(cat(rate.dtype, " x", fixed(rate.rate, 1)));
  const auto others = peers(backend, info);
  std::string out = cat("  ", backend.name, ":", ordinal, "  ", info.name, "  ", info.arch, "\n");
  out += cat("    memory ", human_bytes(info.memory_bytes), ", largest allocation ",
             human_bytes(info.largest_allocation_bytes), ", ", info.compute_units, " units\n");
  out += cat("    holds ", join(storage_dtypes(info), " "), "; products ", join(rates, " "), "; matrix units ",
             matrix_units(info), "\n");
  out +=
      cat("    link ", info.link[0] == '\0' ? "none" : info.link, "; peers ",
          others.empty() ? "none" : join(others, " "), info.pci_address[0] == '\0' ? "" : "; pci ", info.pci_address);
  out += cat(info.numa_node < 0 ? "" : cat("; numa node ", info.numa_node), "; health ", status.health,
             status.reason.empty() ? "" : ": ", status.reason, "\n");
  if (status.monitored) out += cat("    now ", activity(status.state), "\n");
  for (const auto& process : status.processes) {
    out += cat("    process ", process_name(process.pid), " holds ", human_bytes(process.memory_bytes), "\n");
  }
  return out;
}

std::string json_list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted(words.size());
  std::transform(words.begin(), words.end(), quoted.begin(), json_quote);
  return cat("[", join(quoted, ", "), "]");
}

std::string number_or_null(float value) { return std::isnan(value) ? "null" : fixed(value, 1); }

std::string state_json(const accel::DeviceStatus& status) {
  if (!status.monitored) return "null";
  const auto& state = status.state;
  return cat("{\"temperature_celsius\": ", number_or_null(state.temperature_celsius),
             ", \"power_watts\": ", number_or_null(state.power_watts),
             ", \"compute_percent\": ", number_or_null(state.compute_percent),
             ", \"memory_total\": ", state.memory_total, ", \"memory_used\": ", state.memory_used,
             ", \"huge_pages_total\": ", state.huge_pages_total, ", \"huge_pages_used\": ", state.huge_pages_used,
             ", \"place\": ", json_quote(state.place), "}");
}

std::string processes_json(const accel::DeviceStatus& status) {
  std::vector<std::string> rows;
  for (const auto& process : status.processes) {
    rows.push_back(cat("{\"pid\": ", process.pid, ", \"memory_bytes\": ", process.memory_bytes, "}"));
  }
  return cat("[", join(rows, ", "), "]");
}

std::string device_json(const accel::ProbedBackend& backend, int ordinal, const accel::DeviceStatus& status) {
  const auto& info = backend.devices[static_cast<std::size_t>(ordinal)];
  std::vector<std::string> rates;
  for (const auto& rate : product_rates(info)) rates.push_back(cat(json_quote(rate.dtype), ": ", fixed(rate.rate, 2)));
  std::string out =
      cat("{\"device\": ", json_quote(cat(backend.name, ":", ordinal)), ", \"name\": ", json_quote(info.name),
          ", \"arch\": ", json_quote(info.arch), ", \"driver\": ", json_quote(info.driver_version),
          ", \"memory_bytes\": ", info.memory_bytes, ", \"largest_allocation_bytes\": ", info.largest_allocation_bytes);
  out += cat(", \"compute_units\": ", info.compute_units, ", \"storage_dtypes\": ", json_list(storage_dtypes(info)),
             ", \"matmul_rate\": {", join(rates, ", "), "}, \"matrix_units\": ", json_quote(matrix_units(info)),
             ", \"link\": ", json_quote(info.link), ", \"peers\": ", json_list(peers(backend, info)));
  out += cat(", \"pci_address\": ", json_quote(info.pci_address), ", \"numa_node\": ", info.numa_node,
             ", \"health\": ", json_quote(status.health), ", \"health_reason\": ", json_quote(status.reason),
             ", \"now\": ", state_json(status), ", \"processes\": ", processes_json(status), "}");
  return out;
}

}  // namespace

bool is_wanted(const std::string& device, const accel::ProbedBackend& backend, int ordinal) {
  return device == "auto" || device == backend.name || device == cat(backend.name, ":", ordinal);
}

std::string backend_text(const accel::ProbedBackend& backend, const std::string& device,
                         const accel::Inspection& inspection) {
  const auto name = backend.name.empty() ? backend.file.stem().string() : backend.name;
  std::string out = cat(name, backend.version.empty() ? "" : " ", backend.version, "  ", backend.file.string(), "\n");
  if (backend.devices.empty()) out += cat("  absent: ", backend.absent_reason, "\n");
  if (!inspection.trouble.empty()) out += cat("  trouble: ", inspection.trouble, "\n");
  for (const std::string& option : backend.options) out += cat("  --device_options ", option, "\n");
  if (!backend.profiles.empty()) out += cat("  describes ", join(backend.profiles, ", "), "\n");
  for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
    if (is_wanted(device, backend, i)) out += device_text(backend, i, inspection.devices[static_cast<std::size_t>(i)]);
  }
  return out;
}

std::string backend_json(const accel::ProbedBackend& backend, const std::string& device,
                         const accel::Inspection& inspection) {
  std::vector<std::string> devices;
  for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
    if (!is_wanted(device, backend, i)) continue;
    devices.push_back(device_json(backend, i, inspection.devices[static_cast<std::size_t>(i)]));
  }
  return cat("{\"backend\": ", json_quote(backend.name), ", \"version\": ", json_quote(backend.version),
             ", \"file\": ", json_quote(backend.file.string()),
             ", \"absent_reason\": ", backend.devices.empty() ? json_quote(backend.absent_reason) : std::string("null"),
             ", \"device_options\": ", json_list(backend.options), ", \"profiles\": ", json_list(backend.profiles),
             ", \"devices\": [", join(devices, ", "), "]}");
}

}  // namespace tern::cli
