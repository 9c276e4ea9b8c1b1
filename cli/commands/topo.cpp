// tern topo: what joins the devices of each backend, and which processors are near them.
#include <cstdio>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/device_report.h"
#include "cli/probed_devices.h"
#include "cli/session_flags.h"

namespace tern::cli {

int run_topo(const Arguments& arguments) {
  session::set_up_host(runtime_options(arguments).num_threads);
  const auto& device = arguments.string("device");
  const bool json = arguments.boolean("json");
  std::vector<std::string> parts;
  for (const auto& backend : probe_wanted(arguments)) {
    if (backend.devices.empty()) continue;
    const auto inspection = accel::inspect(backend, {.links = true});
    parts.push_back(json ? links_json(backend, device, inspection) : links_text(backend, device, inspection));
  }
  auto out = json ? cat("[", join(parts, ",\n "), "]\n") : join(parts, "\n");
  if (parts.empty() && !json) out = "no device was found; tern devices says why\n";
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
