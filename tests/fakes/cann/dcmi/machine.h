// The cards that the fake's driver counts: all that are installed, whatever ASCEND_RT_VISIBLE_DEVICES hides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_dcmi {

struct Process {
  int device = 0;
  int pid = 0;
  unsigned long megabytes = 0;
};

struct Machine {
  std::string chip;        // "910B1"
  int devices = 1;         // installed
  int chips_per_card = 1;  // an A3's card has two
  unsigned long long memory_megabytes = 4096;
  std::map<int, unsigned> health;          // by device; else 0
  std::map<int, unsigned long long> used;  // megabytes by device; else what the processes hold
  std::vector<Process> processes;
  std::map<std::string, int> faults;  // the code of every call of a function
};

// From TERN_FAKE_CANN_CHIP, _DEVICES and _HBM, and TERN_FAKE_DCMI_HEALTH (`0=2,1=3`), _USED (`0=60000`, megabytes),
// _PROCESSES (`0:4242:1024`: device, process, megabytes) and _FAULT (`dcmi_init=-8005`), read at each call.
[[nodiscard]] Machine read_machine();

// DCMI_TOPO_TYPE_* of two devices: boards of eight, cards of an A3 behind a switch; a 310P has PCIe alone.
[[nodiscard]] int link_of(const Machine& machine, int a, int b);

}  // namespace fake_dcmi
