// What tests ask of the fake, which CANN doesn't have.
#pragma once

#include <cstdint>

extern "C" {
// Forgets every device, stream and setting, and reads the environment again. Nothing may run meanwhile.
void ternFakeCannRestart();
// Allocations of device and pinned memory, and streams, events and graphs, that nobody has given back.
std::uint64_t ternFakeCannAllocations();
std::uint64_t ternFakeCannHandles();
}
