// What script/golden.d/images.py draws and hashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "media/image.h"

namespace tern::test {

[[nodiscard]] inline media::Image pattern(std::int64_t width, std::int64_t height, std::uint32_t seed) {
  media::Image out{width, height, {}};
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const std::uint32_t block = (x / 5 + y / 7 + seed) % 4;
      for (std::uint32_t c = 0; c < 3; ++c) {
        const std::uint32_t noise = x * x * 3 + y * y * 5 + x * y * 7 + c * 97 + seed * 31;
        out.pixels.push_back(static_cast<std::uint8_t>(block == 0 ? 0 : block == 1 ? 255 : noise & 255));
      }
    }
  }
  return out;
}

[[nodiscard]] inline std::string fnv(std::span<const std::byte> bytes) {
  std::uint64_t hashed = 0xCBF29CE484222325;
  for (const std::byte byte : bytes) hashed = (hashed ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3;
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[hashed >> shift & 15];
  return out;
}

}  // namespace tern::test
