// What tests ask of the fake, which CANN doesn't have.
#pragma once

#include <cstdint>

extern "C" {
// Tensors, scalars, arrays and lists; and executors: those that nobody has destroyed or run.
std::uint64_t ternFakeCannObjects();
std::uint64_t ternFakeCannExecutors();
}
