// tern devices: every backend, each device, and why an absent one is absent.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "base/dtype.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/json_text.h"
#include "cli/session_flags.h"

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

std::string device_json(const accel::ProbedBackend& backend, int ordinal) {
  const auto& info = backend.devices[static_cast<std::size_t>(ordinal)];
  const auto health = health_of(backend, ordinal);
  const auto quoted_list = [](const std::vector<std::string>& words) {
    std::vector<std::string> quoted(words.size());
    std::transform(words.begin(), words.end(), quoted.begin(), json_quote);
    return cat("[", join(quoted, ", "), "]");
  };
  std::vector<std::string> rates;
  for (const auto& rate : product_rates(info)) rates.push_back(cat(json_quote(rate.dtype), ": ", fixed(rate.rate, 2)));
  std::string out =
      cat("{\"device\": ", json_quote(cat(backend.name, ":", ordinal)), ", \"name\": ", json_quote(info.name),
          ", \"arch\": ", json_quote(info.arch), ", \"driver\": ", json_quote(info.driver_version),
          ", \"memory_bytes\": ", info.memory_bytes, ", \"largest_allocation_bytes\": ", info.largest_allocation_bytes);
  out += cat(", \"compute_units\": ", info.compute_units, ", \"storage_dtypes\": ", quoted_list(storage_dtypes(info)),
             ", \"matmul_rate\": {", join(rates, ", "), "}, \"matrix_units\": ", json_quote(matrix_units(info)),
             ", \"link\": ", json_quote(info.link), ", \"peers\": ", quoted_list(peers(backend, info)));
  out += cat(", \"pci_address\": ", json_quote(info.pci_address), ", \"numa_node\": ", info.numa_node,
             ", \"health\": ", json_quote(health.state), ", \"health_reason\": ", json_quote(health.reason), "}");
  return out;
}

// The ordinals that `--device` asks for: `npu` means all of the backend, `npu:1` one.
bool wanted(const std::string& device, const accel::ProbedBackend& backend, int ordinal) {
  return device == "auto" || device == backend.name || device == cat(backend.name, ":", ordinal);
}

std::string backend_text(const accel::ProbedBackend& backend, const std::string& device) {
  const auto name = backend.name.empty() ? backend.file.stem().string() : backend.name;
  std::string out = cat(name, backend.version.empty() ? "" : " ", backend.version, "  ", backend.file.string(), "\n");
  if (backend.devices.empty()) out += cat("  absent: ", backend.absent_reason, "\n");
  for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
    if (wanted(device, backend, i)) out += device_text(backend, i);
  }
  return out;
}

std::string backend_json(const accel::ProbedBackend& backend, const std::string& device) {
  std::vector<std::string> devices;
  for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
    if (wanted(device, backend, i)) devices.push_back(device_json(backend, i));
  }
  return cat("{\"backend\": ", json_quote(backend.name), ", \"version\": ", json_quote(backend.version),
             ", \"file\": ", json_quote(backend.file.string()),
             ", \"absent_reason\": ", backend.devices.empty() ? json_quote(backend.absent_reason) : std::string("null"),
             ", \"devices\": [", join(devices, ", "), "]}");
}

// A named device that is not there is an error, with the reason that its backend gave.
void require(const std::string& device, const std::vector<accel::ProbedBackend>& backends) {
  if (device == "auto") return;
  const auto name = device.substr(0, device.find(':'));
  std::vector<std::string> known;
  std::string reason;
  for (const auto& backend : backends) {
    known.push_back(backend.name.empty() ? backend.file.stem().string() : backend.name);
    for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
      if (wanted(device, backend, i)) return;
    }
    if (backend.name == name || (backend.name.empty() && backend.file.stem() == cat("libtern_", name))) {
      reason = backend.absent_reason.empty() ? "no such ordinal" : backend.absent_reason;
    }
  }
  if (!reason.empty()) {
    throw Failure(device_error(cat("device ", device), "a device that is present", reason, "see tern devices"));
  }
  throw Failure(device_error(cat("device ", device), known.empty() ? "a backend" : cat("one of ", join(known, ", ")),
                             "none of that name", "see tern devices"));
}

// A named device probes only its own plugin, where the file's name tells which that is; a plugin that was named must
// load.
std::vector<accel::ProbedBackend> probe(const Arguments& arguments) {
  auto options = session::probe_options();
  options.forget = true;
  auto files = backend_files(arguments);
  const auto named = cat("libtern_", split(arguments.string("device"), ':')[0]);
  const auto is_named = [&](const std::filesystem::path& file) { return file.stem() == named; };
  if (std::any_of(files.begin(), files.end(), is_named)) {
    files.erase(std::remove_if(files.begin(), files.end(), std::not_fn(is_named)), files.end());
  }
  auto backends = accel::probe_backends(files, options);
  const auto file = arguments.maybe_string("backend");
  for (const auto& backend : backends) {
    if (file && backend.file == *file && backend.name.empty()) {
      throw Failure(
          device_error(cat("flag --backend ", *file), "a plugin that loads", backend.absent_reason, "check the path"));
    }
  }
  return backends;
}

}  // namespace

int run_devices(const Arguments& arguments) {
  session::set_up_host(runtime_options(arguments).num_threads);
  const auto& device = arguments.string("device");
  const auto backends = probe(arguments);
  require(device, backends);
  const bool json = arguments.boolean("json");
  std::vector<std::string> parts;
  for (const auto& backend : backends) {
    if (device != "auto" && device.substr(0, device.find(':')) != backend.name) continue;
    parts.push_back(json ? backend_json(backend, device) : backend_text(backend, device));
  }
  auto out = json ? cat("[", join(parts, ",\n "), "]\n") : join(parts, "");
  if (parts.empty() && !json) out = "no backend found; put plugins into a folder of $TERN_BACKEND_PATH\n";
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
