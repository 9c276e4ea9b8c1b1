// Sizes that programs are built for.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tern::engine {

// The smallest power of two that holds `needed`, cut to `most`.
[[nodiscard]] inline std::int64_t bucket_of(std::int64_t needed, std::int64_t most) {
  const auto least = static_cast<std::uint64_t>(std::max<std::int64_t>(needed, 1));
  return std::min(static_cast<std::int64_t>(std::bit_ceil(least)), most);
}

}  // namespace tern::engine
