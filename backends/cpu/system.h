// What the operating system says about this machine.
#pragma once

#include <cstdint>
#include <string>

namespace tern::cpu {

// The processor's name from /proc/cpuinfo, or its architecture where that does not tell.
[[nodiscard]] std::string processor_name();

struct SystemMemory {
  std::uint64_t total = 0;  // of the machine, or of the tightest cgroup limit
  std::uint64_t free = 0;   // what can be taken without swapping
};
[[nodiscard]] SystemMemory system_memory();

}  // namespace tern::cpu
