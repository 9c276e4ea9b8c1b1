#include "cli/diagnosis.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/strings.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

using Level = accel::Finding::Level;

const char* level_name(Level level) {
  return level == Level::error ? "error" : level == Level::warning ? "warning" : "ok";
}

std::string name_of(const accel::ProbedBackend& backend) {
  return backend.name.empty() ? backend.file.stem().string() : backend.name;
}

void append_checks(const accel::ProbedBackend& backend, std::vector<Check>& checks) {
  const std::string name = name_of(backend);
  // A machine without a vendor's hardware is in order; whether that's the case, its own checks say.
  if (backend.devices.empty()) checks.push_back({name, {Level::ok, cat("absent: ", backend.absent_reason)}});
  if (backend.name.empty()) return;  // nothing that could be asked
  const auto inspection = accel::inspect(backend, {.findings = true});
  for (const auto& finding : inspection.findings) checks.push_back({name, finding});
  if (!inspection.trouble.empty()) {
    checks.push_back({name,
                      {Level::error, cat("its checks did not end: ", inspection.trouble,
                                         "; check the driver with the vendor's own tool")}});
  }
}

std::optional<int> number(const char* text) {
  const std::string_view word = text == nullptr ? "" : text;
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// What hides devices, for a sentence: "; ASCEND_RT_VISIBLE_DEVICES=0,1 hides the others".
std::string hidden(const accel::ProbedBackend& backend) {
  const char* value = backend.visible_devices_env.empty() ? nullptr : std::getenv(backend.visible_devices_env.c_str());
  return value == nullptr ? "" : cat(" (", backend.visible_devices_env, "=", value, ")");
}

}  // namespace

std::vector<Check> backend_checks(const std::vector<accel::ProbedBackend>& backends) {
  std::vector<Check> checks;
  for (const auto& backend : backends) append_checks(backend, checks);
  return checks;
}

std::vector<Check> launch_checks(const std::vector<accel::ProbedBackend>& backends) {
  const char* asked = std::getenv("NPROC_PER_NODE");
  if (asked == nullptr) return {};
  const auto ranks = number(asked);
  if (!ranks || *ranks < 1) {
    return {{"launch",
             {Level::error, cat("NPROC_PER_NODE=", asked, " is not a number of ranks; set it to one, or unset it")}}};
  }
  std::vector<Check> checks;
  for (const auto& backend : backends) {
    const int devices = static_cast<int>(backend.devices.size());
    // Ranks share a device of the host; on a vendor's devices each needs its own.
    if (devices == 0 || backend.visible_devices_env.empty()) continue;
    const auto counts = cat("NPROC_PER_NODE=", *ranks, ", and ", backend.name, " shows ", devices,
                            devices == 1 ? " device" : " devices", hidden(backend));
    if (*ranks > devices) {
      checks.push_back(
          {"launch",
           {Level::error, cat(counts, ": ", *ranks - devices, " ranks would have no device; set ", "NPROC_PER_NODE to ",
                              devices, " or show more in ", backend.visible_devices_env)}});
    } else if (*ranks < devices) {
      checks.push_back({"launch",
                        {Level::warning, cat(counts, ": ", devices - *ranks, " of them would be idle; set ",
                                             "NPROC_PER_NODE to ", devices, " to use all")}});
    } else {
      checks.push_back({"launch", {Level::ok, counts}});
    }
  }
  return checks;
}

std::string checks_text(const std::vector<Check>& checks) {
  std::string out;
  for (const auto& check : checks) {
    const std::string level = level_name(check.finding.level);
    out += cat(level, std::string(9 - level.size(), ' '), check.about, ": ", check.finding.line, "\n");
  }
  return out;
}

std::string checks_json(const std::vector<Check>& checks) {
  std::vector<std::string> rows;
  rows.reserve(checks.size());
  for (const auto& check : checks) {
    rows.push_back(cat("{\"backend\": ", json_quote(check.about),
                       ", \"level\": ", json_quote(level_name(check.finding.level)),
                       ", \"line\": ", json_quote(check.finding.line), "}"));
  }
  return cat("[", join(rows, ",\n "), "]\n");
}

}  // namespace tern::cli
