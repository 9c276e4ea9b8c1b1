#include "backends/sim/monitor.h"

#include <unistd.h>

#include <cmath>

#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

// Devices of one board are linked directly; between boards lies the host.
constexpr int kBoard = 4;
constexpr float kTemperature = 40.0F;  // that of every simulated device
constexpr float kPower = 60.0F;

// The open device of the ordinal; null: this process has none.
std::shared_ptr<Device> find_open(int ordinal) {
  for (const auto& other : world().open) {
    if (auto device = other.lock(); device && device->ordinal == ordinal) return device;
  }
  return nullptr;
}

tern_status device_state(int32_t ordinal, tern_device_state* state) {
  return guarded([&](auto&) {
    require(state != nullptr, "device_state: no place for the state");
    const Config config = require_config();
    require_ordinal(config, ordinal);
    tern_device_state filled{};
    filled.temperature_celsius = kTemperature;
    filled.power_watts = kPower;
    filled.compute_percent = NAN;
    filled.memory_total = describe(config, ordinal).memory_bytes;
    if (const auto device = find_open(ordinal)) {
      filled.health = device->lost ? TERN_HEALTH_LOST : device->hung.empty() ? TERN_HEALTH_OK : TERN_HEALTH_DEGRADED;
      filled.memory_used = device->in_use();
      put_text({filled.reason, sizeof filled.reason},
               device->lost ? "the device was lost, as TERN_SIM_FAULT asked" : device->hung);
    }
    put_text({filled.place, sizeof filled.place}, cat("board ", ordinal / kBoard, " place ", ordinal % kBoard));
    tern_plugin::require(give_info(state, filled));
  });
}

tern_status device_process(int32_t ordinal, uint32_t index, tern_device_process* process) {
  tern_status status = TERN_OK;
  const tern_status called = guarded([&](auto&) {
    require(process != nullptr, "device_process: no place for the process");
    require_ordinal(require_config(), ordinal);
    const auto device = find_open(ordinal);
    if (index > 0 || !device) {
      status = TERN_UNSUPPORTED;
      return;
    }
    tern_device_process filled{};
    filled.pid = getpid();
    filled.memory_bytes = device->in_use();
    tern_plugin::require(give_info(process, filled));
  });
  return called == TERN_OK ? status : called;
}

tern_status device_link(int32_t from, int32_t to, tern_text link) {
  return guarded([&](auto&) {
    const Config config = require_config();
    require_ordinal(config, from);
    require_ordinal(config, to);
    const bool near = from / kBoard == to / kBoard;
    put_text(link, !near ? "SYS" : config.personality == Personality::ascend ? "HCCS" : "PIX");
  });
}

}  // namespace

const tern_monitor kMonitor{sizeof(tern_monitor), 0, device_state, device_process, device_link, nullptr, nullptr};

}  // namespace tern::sim
