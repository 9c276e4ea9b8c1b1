// What is known of a device before it is opened: the present ones, and those that are only described.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/accel.h"

namespace tern::cuda {

struct Facts {
  std::string name;
  std::string driver_version;
  std::string pci_address;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 1;
  std::uint64_t memory_bytes = 0;
  std::uint64_t shared_memory = 0;  // bytes that a block may have, once its kernel's limit is raised
  std::uint64_t l2_bytes = 0;
  int numa_node = -1;
  bool virtual_memory = false;  // addresses apart from memory: buffers that can be evicted
  bool described = false;       // a description alone

  [[nodiscard]] int capability() const { return major * 10 + minor; }  // 80, 90, 100
};

}  // namespace tern::cuda
