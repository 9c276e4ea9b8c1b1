// The checks of `tern doctor`: each answers one question of those who meet this device for the first time, on the
// machine at hand, and says how to mend what is wrong. None needs a driver to be there.
#pragma once

#include <string>
#include <vector>

#include "backends/npu/machine.h"
#include "tern/accel.h"

namespace tern::npu {

struct Finding {
  int32_t level = TERN_LOG_INFO;
  std::string line;  // what was looked at, what was found, and the mend
};

[[nodiscard]] inline Finding all_well(std::string line) { return {TERN_LOG_INFO, std::move(line)}; }
[[nodiscard]] inline Finding warning(std::string line) { return {TERN_LOG_WARN, std::move(line)}; }
[[nodiscard]] inline Finding error(std::string line) { return {TERN_LOG_ERROR, std::move(line)}; }

// doctor_install.cpp: what has to be installed and mounted.
Finding check_nodes();        // /dev/davinciN and its fellows are here and may be opened
Finding check_driver();       // the driver's libraries
Finding check_toolkit();      // a toolkit, and set_env.sh of it
Finding check_stubs();        // no stub library comes before a real one
Finding check_one_toolkit();  // variables and paths name one toolkit
Finding check_kernels();      // the operators' package fits the chip

// doctor_devices.cpp: what the devices say.
Finding check_visible();  // ASCEND_RT_VISIBLE_DEVICES
Finding check_runtime();  // CANN starts and counts devices
Finding check_health();   // alarms of the driver
Finding check_memory();   // memory is free, and those who hold it live
Finding check_dtypes();   // what the chip doesn't multiply by

// doctor_ports.cpp: what HCCL needs to join ranks.
Finding check_hccl_settings();
Finding check_hccl_ports();

// Whether the machine has, or had, anything of Ascend's: if not, nothing is wrong with it.
[[nodiscard]] bool has_hardware();

tern_status doctor(uint32_t check, int32_t* level, tern_text line);

}  // namespace tern::npu
