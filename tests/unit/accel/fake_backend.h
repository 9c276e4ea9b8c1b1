// A backend in the test's own process: host memory with a limit, so that what the layer above asks for can be counted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "accel/device.h"

namespace tern::accel::test {

// Reset before each test.
struct FakeState {
  std::uint64_t limit = std::uint64_t{64} << 20;
  std::uint64_t allocated = 0;
  int creates = 0;
  int destroys = 0;
  std::uint32_t flags = 0;                  // of the last buffer
  int plans_measured = 0;                   // plan calls without a choice
  std::set<std::string> forgotten_choices;  // kernels that an update of the driver took away
  std::string error;
  std::map<tern_buffer, std::uint64_t> sizes;
};
FakeState& fake_state();

[[nodiscard]] const tern_backend& fake_table();
[[nodiscard]] DevicePtr open_fake();

}  // namespace tern::accel::test
