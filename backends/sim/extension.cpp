#include "backends/sim/extension.h"

#include "backends/sim/interface.h"
#include "backends/sim/monitor.h"
#include "backends/sim/world.h"

namespace tern::sim {
namespace {

tern_status arm(tern_device device, const char* faults) {
  return guarded([&](auto&) {
    require(faults != nullptr, "sim.faults: no faults were given");
    Opened& opened = *world().present(device);
    opened.faults = parse_faults("sim.faults", faults);
    opened.counted = {};
  });
}

}  // namespace

const void* get_extension(const char* name) {
  static constexpr tern_sim_faults kFaults{sizeof(tern_sim_faults), 0, arm};
  const std::string_view wanted = name == nullptr ? "" : name;
  if (wanted == "sim.faults") return &kFaults;
  return wanted == "tern.monitor" ? &kMonitor : nullptr;
}

}  // namespace tern::sim
