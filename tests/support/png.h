// A PNG file of an image, not compressed: what tests hand over as a file.
#pragma once

#include <cstdint>
#include <string>

#include "media/image.h"

namespace tern::test {

[[nodiscard]] inline std::string png_of(const media::Image& image) {
  const auto big_endian = [](std::uint32_t value) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
    return out;
  };
  const auto chunk = [&](const std::string& kind, const std::string& data) {
    std::uint32_t crc = 0xFFFFFFFF;
    for (const char c : kind + data) {
      crc ^= static_cast<std::uint8_t>(c);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
    }
    return big_endian(static_cast<std::uint32_t>(data.size())) + kind + data + big_endian(~crc);
  };
  std::string rows;
  const auto row_size = static_cast<std::size_t>(image.width) * 3;
  for (std::size_t at = 0; at < image.pixels.size(); at += row_size) {
    rows += '\0';
    rows.append(reinterpret_cast<const char*>(image.pixels.data()) + at, row_size);
  }
  std::string packed = "\x78\x01";  // zlib: blocks of stored bytes
  std::uint32_t a = 1, b = 0;
  for (const char c : rows) {
    a = (a + static_cast<std::uint8_t>(c)) % 65521;
    b = (b + a) % 65521;
  }
  for (std::size_t at = 0; at < rows.size(); at += 65535) {
    const std::string block = rows.substr(at, 65535);
    const auto size = static_cast<std::uint16_t>(block.size());
    packed += at + block.size() == rows.size() ? '\1' : '\0';
    for (const std::uint16_t half : {size, static_cast<std::uint16_t>(~size)}) {
      packed += static_cast<char>(half & 255);
      packed += static_cast<char>(half >> 8);
    }
    packed += block;
  }
  packed += big_endian(b << 16 | a);
  const std::string header = big_endian(static_cast<std::uint32_t>(image.width)) +
                             big_endian(static_cast<std::uint32_t>(image.height)) + std::string("\x08\x02\0\0\0", 5);
  return std::string("\x89PNG\r\n\x1A\n") + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace tern::test
