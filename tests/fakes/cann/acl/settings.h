// What the fake is, from the environment: read once, and again by ternFakeCannRestart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fakes/cann/acl/chips.h"

namespace fake {

struct Fault {
  std::string
      function;  // a C function's name; or "kernel": a launch that fails on the device, or "hang": one that never ends
  std::int64_t at = 1;  // counted from 1
  int code = 0;
};

struct Settings {
  const Chip* chip = nullptr;         // TERN_FAKE_CANN_CHIP, 910B1; null: the name is none, as where no driver is
  std::vector<int> devices;           // the driver's numbers of those that ASCEND_RT_VISIBLE_DEVICES leaves
  std::int32_t installed = 1;         // TERN_FAKE_CANN_DEVICES
  std::uint64_t memory = 0;           // TERN_FAKE_CANN_HBM, bytes a device
  std::uint64_t taken = 0;            // TERN_FAKE_CANN_HBM_TAKEN: bytes of it that another process holds
  std::int32_t major = 9, minor = 1;  // TERN_FAKE_CANN_VERSION: 8.1 lacks what is newer, and words its errors as it did
  std::uint32_t lateness = 0;         // TERN_FAKE_CANN_LATE: the most microseconds that a stream waits before a task
  std::uint32_t seed = 0;             // TERN_FAKE_CANN_SEED of what the device is free to choose: delays, orders
  std::vector<Fault> faults;          // TERN_FAKE_CANN_FAULT
  std::vector<std::string> without;   // TERN_FAKE_CANN_WITHOUT: symbols that the libraries then don't have
};

[[nodiscard]] Settings read_settings();
// Ascending, without duplicates, each below `installed`; what comes after the first bad entry isn't read.
[[nodiscard]] std::vector<int> visible_devices(const char* list, std::int32_t installed);
// "kernel@3=507015,aclrtMalloc@2=207001,oom@2,hang@1"
[[nodiscard]] std::vector<Fault> parse_faults(const std::string& text);
[[nodiscard]] std::vector<std::string> split(const std::string& text, char at);

}  // namespace fake
