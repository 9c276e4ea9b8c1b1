// tern devices: every backend, each device, and why an absent one is absent.
#include <cstdio>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/device_report.h"
#include "cli/probed_devices.h"
#include "cli/session_flags.h"

namespace tern::cli {

int run_devices(const Arguments& arguments) {
  session::set_up_host(runtime_options(arguments).num_threads);
  const auto& device = arguments.string("device");
  const auto backends = probe_wanted(arguments);
  const bool json = arguments.boolean("json");
  std::vector<std::string> parts;
  for (const auto& backend : backends) {
    if (device != "auto" && device.substr(0, device.find(':')) != backend.name) continue;
    const auto inspection = backend.devices.empty() ? accel::Inspection{} : accel::inspect(backend, {.status = true});
    parts.push_back(json ? backend_json(backend, device, inspection) : backend_text(backend, device, inspection));
  }
  auto out = json ? cat("[", join(parts, ",\n "), "]\n") : join(parts, "");
  if (parts.empty() && !json) out = "no backend was found; put plugins into a folder of $TERN_BACKEND_PATH\n";
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
