// What the simulated devices do at this moment, and how they are linked.
#pragma once

#include "backends/sim/config.h"
#include "tern/accel_monitor.h"

namespace tern::sim {

extern const tern_monitor kMonitor;  // "tern.monitor"

// device.cpp: what the environment asks for, and whether it has that device. Throw where not.
[[nodiscard]] Config require_config();
void require_ordinal(const Config& config, int ordinal);

}  // namespace tern::sim
