// What the decoders of the formats share; for sources of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "media/image.h"

namespace tern::media {

// A file to decode: each decoder throws Failure through these, so that all errors read alike.
struct EncodedImage {
  std::span<const std::byte> bytes;
  const std::string& name;
  const ImageLimits& limits;

  // The picture's memory, once the header is known to keep the limits.
  [[nodiscard]] Image allocate(std::int64_t width, std::int64_t height) const;
  [[nodiscard]] Failure damaged(std::string_view format, std::string_view problem) const;
};

[[nodiscard]] Image decode_jpeg(const EncodedImage& from);
[[nodiscard]] Image decode_png(const EncodedImage& from);
[[nodiscard]] Image decode_webp(const EncodedImage& from);

}  // namespace tern::media
