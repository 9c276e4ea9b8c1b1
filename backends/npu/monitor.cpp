#include "backends/npu/monitor.h"

#include <cmath>
#include <string_view>

#include "backends/npu/dcmi.h"
#include "backends/npu/machine.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

using tern_plugin::Error;
using tern_plugin::fail;
using tern_plugin::give_info;
using tern_plugin::guarded;
using tern_plugin::put_text;

// The driver's number of a device that this process counts as `ordinal`. Throws where it shows none of that ordinal.
int number_of(int32_t ordinal) {
  std::string why;
  const int installed = installed_chips(why);
  if (installed == 0) throw Error(TERN_UNSUPPORTED, why);
  const auto visible = visible_devices(installed).numbers;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= visible.size()) {
    throw Error(TERN_INVALID_ARGUMENT, "npu:" + std::to_string(ordinal) + ": there are " +
                                           std::to_string(visible.size()) + " visible devices");
  }
  return visible[static_cast<std::size_t>(ordinal)];
}

ChipState state_of(int32_t ordinal) {
  const auto state = chip_state(number_of(ordinal));
  if (!state) throw Error(TERN_UNSUPPORTED, "the driver tells nothing of npu:" + std::to_string(ordinal));
  return *state;
}

// The driver's alarms: 1 is minor, and the chip computes on; 3 is critical.
int32_t health_by_alarm(unsigned alarm) {
  if (alarm == 0) return TERN_HEALTH_OK;
  return alarm <= 2 ? TERN_HEALTH_DEGRADED : TERN_HEALTH_LOST;
}

std::string alarm_text(const ChipState& state) {
  if (state.health == 0) return "";
  const char* const names[] = {"", "a minor alarm", "a major alarm", "a critical alarm"};
  return std::string("the driver reports ") + (state.health <= 3 ? names[state.health] : "that the chip isn't there") +
         (state.errors.empty() ? "" : " (" + state.errors + ")") + "; see `npu-smi info -t health -i " +
         std::to_string(state.card) + "`";
}

tern_status device_state(int32_t ordinal, tern_device_state* state) {
  return guarded([&]() -> tern_status {
    if (state == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_state: no place for the state");
    const ChipState found = state_of(ordinal);
    tern_device_state filled{};
    filled.health = health_by_alarm(found.health);
    filled.temperature_celsius = found.temperature.value_or(NAN);
    filled.power_watts = found.watts.value_or(NAN);
    filled.compute_percent = found.computing.value_or(NAN);
    filled.memory_total = found.memory_total;
    filled.memory_used = found.memory_used;
    filled.huge_pages_total = found.huge_pages_total;
    filled.huge_pages_used = found.huge_pages_used;
    put_text({filled.place, sizeof filled.place},
             "card " + std::to_string(found.card) + " chip " + std::to_string(found.chip) + " (" + found.name + ")");
    put_text({filled.reason, sizeof filled.reason}, alarm_text(found));
    return give_info(state, filled);
  });
}

tern_status device_process(int32_t ordinal, uint32_t index, tern_device_process* process) {
  return guarded([&]() -> tern_status {
    if (process == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_process: no place for the process");
    const ChipState found = state_of(ordinal);
    if (index >= found.processes.size()) return TERN_UNSUPPORTED;
    tern_device_process filled{};
    filled.pid = found.processes[index].pid;
    filled.memory_bytes = found.processes[index].bytes;
    return give_info(process, filled);
  });
}

tern_status device_link(int32_t from, int32_t to, tern_text link) {
  return guarded([&]() -> tern_status {
    const std::string found = chip_link(number_of(from), number_of(to));
    put_text(link, found);
    return found.empty() ? TERN_UNSUPPORTED : TERN_OK;
  });
}

tern_status cpu_affinity(int32_t ordinal, tern_text cpus) {
  return guarded([&]() -> tern_status {
    const std::string found = chip_affinity(number_of(ordinal));
    put_text(cpus, found);
    return found.empty() ? TERN_UNSUPPORTED : TERN_OK;
  });
}

tern_status log_file(uint32_t index, tern_text path) {
  return guarded([&]() -> tern_status {
    const auto files = log_files();
    if (index >= files.size()) return TERN_UNSUPPORTED;
    put_text(path, files[index].string());
    return TERN_OK;
  });
}

}  // namespace

const tern_monitor kMonitor{sizeof(tern_monitor), 0, device_state, device_process, device_link, cpu_affinity, log_file};

const void* get_extension(const char* name) {
  return name != nullptr && std::string_view(name) == "tern.monitor" ? &kMonitor : nullptr;
}

int32_t health_of(int32_t ordinal, tern_text reason) {
  try {
    const ChipState found = state_of(ordinal);
    put_text(reason, alarm_text(found));
    return health_by_alarm(found.health);
  } catch (const Error&) {
    put_text(reason, "");  // without the library nobody knows of an alarm
    return TERN_HEALTH_OK;
  }
}

void fill_by_driver(int32_t ordinal, tern_device_info& info) {
  try {
    const ChipState found = state_of(ordinal);
    put_text({info.pci_address, sizeof info.pci_address}, found.pci);
    if (found.memory_total > 0) info.memory_bytes = info.largest_allocation_bytes = found.memory_total;
  } catch (const Error&) {
    // nobody tells
  }
}

}  // namespace tern::npu
