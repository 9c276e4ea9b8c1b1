#include "cli/device_report.h"

#include <algorithm>
#include <array>

#include "accel/backend.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

struct Health {
  std::string state;  // "ok", "degraded", "lost", or "unknown" where the device cannot be opened
  std::string reason;
};

Health health_of(const accel::ProbedBackend& probed, int ordinal) {
  auto backend = accel::Backend::load(probed.file);
  if (!backend) return {"unknown", backend.error().line()};
  auto device = accel::Device::open(*backend, ordinal);
  if (!device) return {"unknown", device.error().line()};
  std::array<char, 512> reason{};
  std::int32_t health = TERN_HEALTH_OK;
  const auto status = (*device)->api().device_health((*device)->raw(), &health, {reason.data(), reason.size()});
  if (status != TERN_OK) return {"unknown", accel::status_name(status)};
  static constexpr std::array<const char*, 3> kStates = {"ok", "degraded", "lost"};
  const bool known = health >= 0 && static_cast<std::size_t>(health) < kStates.size();
  return {known ? kStates[static_cast<std::size_t>(health)] : "unknown", reason.data()};
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

std::string device_text(const accel::ProbedBackend& backend, int ordinal) {
  const auto& info = backend.devices[static_cast<std::size_t>(ordinal)];
  const auto health = health_of(backend, ordinal);
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
  out += cat(info.numa_node < 0 ? "" : cat("; numa node ", info.numa_node), "; health ", health.state,
             health.reason.empty() ? "" : ": ", health.reason, "\n");
  return out;
}

std::string json_list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted(words.size());
  std::transform(words.begin(), words.end(), quoted.begin(), json_quote);
  return cat("[", join(quoted, ", "), "]");
}

std::string device_json(const accel::ProbedBackend& backend, int ordinal) {
  const auto& info = backend.devices[static_cast<std::size_t>(ordinal)];
  const auto health = health_of(backend, ordinal);
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
             ", \"health\": ", json_quote(health.state), ", \"health_reason\": ", json_quote(health.reason), "}");
  return out;
}

}  // namespace

bool is_wanted(const std::string& device, const accel::ProbedBackend& backend, int ordinal) {
  return device == "auto" || device == backend.name || device == cat(backend.name, ":", ordinal);
}

std::string backend_text(const accel::ProbedBackend& backend, const std::string& device) {
  const auto name = backend.name.empty() ? backend.file.stem().string() : backend.name;
  std::string out = cat(name, backend.version.empty() ? "" : " ", backend.version, "  ", backend.file.string(), "\n");
  if (backend.devices.empty()) out += cat("  absent: ", backend.absent_reason, "\n");
  for (const std::string& option : backend.options) out += cat("  --device_options ", option, "\n");
  if (!backend.profiles.empty()) out += cat("  describes ", join(backend.profiles, ", "), "\n");
  for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
    if (is_wanted(device, backend, i)) out += device_text(backend, i);
  }
  return out;
}

std::string backend_json(const accel::ProbedBackend& backend, const std::string& device) {
  std::vector<std::string> devices;
  for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
    if (is_wanted(device, backend, i)) devices.push_back(device_json(backend, i));
  }
  return cat("{\"backend\": ", json_quote(backend.name), ", \"version\": ", json_quote(backend.version),
             ", \"file\": ", json_quote(backend.file.string()),
             ", \"absent_reason\": ", backend.devices.empty() ? json_quote(backend.absent_reason) : std::string("null"),
             ", \"device_options\": ", json_list(backend.options), ", \"profiles\": ", json_list(backend.profiles),
             ", \"devices\": [", join(devices, ", "), "]}");
}

}  // namespace tern::cli
