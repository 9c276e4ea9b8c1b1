// Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): random bits as a pure
// function of key and counter, so that they depend on the data and never on the place or the order of work.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tern {

using PhiloxBlock = std::array<std::uint32_t, 4>;

[[nodiscard]] constexpr PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

// Uniform in [0, 1) with 24 bits, the same on every device.
[[nodiscard]] constexpr float uniform24(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

// Two independent normally distributed numbers around 0 (Box and Muller, 1958).
[[nodiscard]] inline std::array<double, 2> normals(std::uint32_t first, std::uint32_t second, double deviation = 1) {
  const double radius = deviation * std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(uniform24(first))));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(uniform24(second));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// A key from parts, for streams that must not collide: splitmix64 finaliser over each part in turn.
[[nodiscard]] constexpr std::uint64_t mix_key(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a + 0x9E3779B97F4A7C15ULL * (b + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace tern
