// What the driver's management library (libdcmi.so) tells of each chip: npu-smi shows the same. It counts all chips
// that are installed, whatever ASCEND_RT_VISIBLE_DEVICES hides; a chip here is found by the driver's number of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern::npu {

struct ChipProcess {
  int pid = 0;
  std::uint64_t bytes = 0;  // of the chip's memory
};

struct ChipState {
  int card = 0;
  int chip = 0;         // of the card
  unsigned health = 0;  // 0 in order, 1 minor alarm, 2 major alarm, 3 critical
  std::string errors;   // the driver's words for what is wrong
  std::string name;     // "910B1"
  std::string pci;      // "0000:c1:00.0"; "": not told
  std::optional<float> temperature;
  std::optional<float> watts;
  std::optional<float> computing;  // percent
  std::uint64_t memory_total = 0;  // bytes
  std::uint64_t memory_used = 0;
  std::uint64_t huge_pages_total = 0;
  std::uint64_t huge_pages_used = 0;
  std::vector<ChipProcess> processes;
};

// Chips by the driver's number; empty: `why` says what is missing.
[[nodiscard]] int installed_chips(std::string& why);
[[nodiscard]] std::optional<ChipState> chip_state(int number);
// "HCCS", "SYS" ...; "": not known.
[[nodiscard]] std::string chip_link(int from, int to);
[[nodiscard]] std::string chip_affinity(int number);
[[nodiscard]] std::string driver_version();  // "": not known

}  // namespace tern::npu
