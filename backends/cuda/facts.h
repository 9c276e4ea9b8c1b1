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
  bool host_memory = false;     // the device works in the host's memory, as on a Jetson
  bool reads_pageable = false;  // the device reads any memory of the host, so copies from it may be left for later
  bool described = false;       // a description alone
  std::uint64_t peer_mask = 0;  // a bit for each of our ordinals whose memory it reaches

  [[nodiscard]] int capability() const { return major * 10 + minor; }  // 80, 90, 100
};

struct Present {
  int device = 0;  // as the driver counts
  Facts facts;
};

// The devices that the driver shows (CUDA_VISIBLE_DEVICES is its own) and the kernels can run on. Found once. `reason`:
// why there are none.
struct Found {
  std::vector<Present> devices;
  std::string reason;
  std::vector<std::string> notes;  // what was left out, and why: for doctor
};
[[nodiscard]] const Found& found_devices();

// The device of an ordinal; throws Error where there is none.
[[nodiscard]] const Present& present_device(std::int32_t ordinal);

// Devices that can be described: null-terminated, and the facts of one.
extern const char* const kProfiles[];
[[nodiscard]] const Facts& described_facts(const char* profile);

inline constexpr int kLeastCapability = 80;
inline constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";
inline constexpr std::uint64_t kAlignment = 256;  // of a buffer's begin, and of what lies in one

// The driver's versions, as CUDA counts and as its release is called: "13.0, 580.65.06".
[[nodiscard]] std::string driver_version();

void fill_info(const Facts& facts, tern_device_info& info);

}  // namespace tern::cuda
