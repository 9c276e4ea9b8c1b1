#include "backends/npu/doctor.h"

#include <array>

#include "tern/plugin.h"

namespace tern::npu {
namespace {

// In the order in which one mends them.
constexpr auto kChecks = std::to_array<Finding (*)()>(
    {check_nodes, check_driver, check_toolkit, check_stubs, check_one_toolkit, check_kernels, check_visible,
     check_runtime, check_health, check_memory, check_dtypes, check_hccl_settings, check_hccl_ports});

}  // namespace

bool has_hardware() { return cards_on_bus() > 0 || !device_nodes().empty(); }

tern_status doctor(uint32_t check, int32_t* level, tern_text line) {
  return tern_plugin::guarded([&]() -> tern_status {
    if (level == nullptr) return tern_plugin::fail(TERN_INVALID_ARGUMENT, "doctor: no place for the level");
    const bool present = has_hardware();
    if (check >= (present ? kChecks.size() : 1)) return TERN_UNSUPPORTED;
    const Finding found =
        present ? kChecks[check]()
                : all_well(
                      "hardware: no Ascend card in this machine (neither on the PCI bus nor as /dev/davinci0); in a "
                      "virtual machine, pass the card through; nothing else is checked");
    *level = found.level;
    tern_plugin::put_text(line, found.line);
    return TERN_OK;
  });
}

}  // namespace tern::npu
