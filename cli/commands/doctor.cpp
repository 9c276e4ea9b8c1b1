// tern doctor: what each backend says of its drivers and libraries, with the mend.
#include <algorithm>
#include <array>
#include <cstdio>

#include "accel/device.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/json_text.h"
#include "cli/session_flags.h"

namespace tern::cli {
namespace {

struct Check {
  std::string backend;
  std::string level;  // "ok", "warning", "error"
  std::string line;
};

const char* level_name(std::int32_t level) {
  if (level >= TERN_LOG_ERROR) return "error";
  return level >= TERN_LOG_WARN ? "warning" : "ok";
}

constexpr std::uint32_t kMostChecks = 1000;  // of one backend: an end for a plugin that never says unsupported

void append_checks(const accel::ProbedBackend& probed, std::vector<Check>& checks) {
  const std::string name = probed.name.empty() ? probed.file.stem().string() : probed.name;
  if (probed.devices.empty()) {
    // A machine without a vendor's hardware is in order.
    checks.push_back({name, "ok", cat("absent: ", probed.absent_reason)});
    return;
  }
  const auto backend = accel::Backend::load(probed.file);
  if (!backend) {
    checks.push_back({name, "error", backend.error().line()});
    return;
  }
  if (!(*backend)->has(&tern_backend::doctor)) return;
  for (std::uint32_t check = 0; check < kMostChecks; ++check) {
    std::array<char, 1024> line{};
    std::int32_t level = TERN_LOG_INFO;
    const auto status = (*backend)->api().doctor(check, &level, {line.data(), line.size()});
    if (status == TERN_UNSUPPORTED) return;
    if (status != TERN_OK) {
      checks.push_back({name, "error", cat("check ", check, ": ", (*backend)->last_error())});
      return;
    }
    checks.push_back({name, level_name(level), line.data()});
  }
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  session::set_up_host(runtime_options(arguments).num_threads);
  auto options = session::probe_options();
  options.forget = true;
  const auto& device = arguments.string("device");
  const std::string wanted = device.substr(0, device.find(':'));
  std::vector<Check> checks;
  bool found = false;
  for (const auto& probed : accel::probe_backends(backend_files(arguments), options)) {
    if (wanted != "auto" && probed.name != wanted && probed.file.stem() != cat("libtern_", wanted)) continue;
    found = true;
    append_checks(probed, checks);
  }
  if (!found) {
    throw Failure(device_error(cat("no backend is called ", wanted), "see tern devices"));
  }
  std::vector<std::string> rows;
  rows.reserve(checks.size());
  for (const auto& check : checks) {
    rows.push_back(arguments.boolean("json")
                       ? cat("{\"backend\": ", json_quote(check.backend), ", \"level\": ", json_quote(check.level),
                             ", \"line\": ", json_quote(check.line), "}")
                       : cat(check.level, std::string(9 - std::min<std::size_t>(check.level.size(), 8), ' '),
                             check.backend, ": ", check.line, "\n"));
  }
  const std::string out = arguments.boolean("json") ? cat("[", join(rows, ",\n "), "]\n") : join(rows, "");
  std::fputs(out.c_str(), stdout);
  const auto errors = std::count_if(checks.begin(), checks.end(), [](const Check& c) { return c.level == "error"; });
  if (errors == 0) return 0;
  throw Failure(
      device_error(cat(errors, errors == 1 ? " check of tern doctor failed" : " checks of tern doctor failed"),
                   "fix what the lines above say"));
}

}  // namespace tern::cli
