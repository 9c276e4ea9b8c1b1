// What the driver's management library tells, as the extension "tern.monitor" and the health of a device.
#pragma once

#include "tern/accel_monitor.h"

namespace tern::npu {

extern const tern_monitor kMonitor;

const void* get_extension(const char* name);

// TERN_HEALTH_* of the device of that ordinal, and why.
[[nodiscard]] int32_t health_of(int32_t ordinal, tern_text reason);

// What the driver knows of the device and its chip's name doesn't tell: its memory and its place on the PCI bus.
// Without the management library the info stays as it is.
void fill_by_driver(int32_t ordinal, tern_device_info& info);

}  // namespace tern::npu
