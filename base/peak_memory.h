// The most memory that this process held at once, as Linux counts it.
#pragma once

#include <cstdint>

namespace tern {

// Bytes of its resident set, the pages of mapped files that it read included; since it began, or since
// forget_peak_memory. 0 where the system doesn't say.
[[nodiscard]] std::uint64_t peak_memory();
// Counts from now on. Where the system doesn't let it, nothing changes.
void forget_peak_memory();

}  // namespace tern
