// The codebooks of the IQ block formats. Element i of an entry is the index of its value in 2 bits (IQ1, IQ2: eight
// elements) or 4 bits (IQ3: four), lowest first.
#pragma once

#include <cstdint>

namespace tern::checkpoint::blocks {

extern const std::uint16_t kIq2xxsGrid[256];
extern const std::uint16_t kIq2xsGrid[512];
extern const std::uint16_t kIq2sGrid[1024];
extern const std::uint16_t kIq3xxsGrid[256];
extern const std::uint16_t kIq3sGrid[512];
extern const std::uint16_t kIq1sGrid[2048];

}  // namespace tern::checkpoint::blocks
