#include "media/image.h"

#include <array>

#include "base/strings.h"
#include "media/decoder.h"

namespace tern::media {
namespace {

using namespace std::string_view_literals;

constexpr const char* kFormats = "a JPEG, PNG or WebP image";

std::string_view text_at(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
  if (bytes.size() < at + size) return {};
  return {reinterpret_cast<const char*>(bytes.data()) + at, size};
}

// What isn't decoded, by name where its first bytes tell it.
std::string other_format(std::span<const std::byte> bytes) {
  struct Magic {
    std::size_t at;
    std::string_view bytes, name;
  };
  constexpr std::array<Magic, 12> kOthers = {{{0, "GIF8"sv, "a GIF"sv},
                                              {0, "BM"sv, "a BMP"sv},
                                              {0, "II*\0"sv, "a TIFF"sv},
                                              {0, "MM\0*"sv, "a TIFF"sv},
                                              {4, "ftypavif"sv, "an AVIF"sv},
                                              {4, "ftypheic"sv, "a HEIC"sv},
                                              {4, "ftypmif1"sv, "a HEIF"sv},
                                              {4, "ftyp"sv, "a video"sv},
                                              {0, "%PDF"sv, "a PDF"sv},
                                              {0, "<svg"sv, "an SVG"sv},
                                              {0, "<?xml"sv, "an XML file"sv},
                                              {0, "<!"sv, "a page of HTML"sv}}};
  if (bytes.empty()) return "an empty file";
  for (const Magic& other : kOthers) {
    if (text_at(bytes, other.at, other.bytes.size()) == other.bytes) return std::string(other.name);
  }
  return "other bytes";
}

}  // namespace

Image EncodedImage::allocate(std::int64_t width, std::int64_t height) const {
  if (width > limits.max_side || height > limits.max_side) {
    throw Failure(data_error(name, cat("an image of at most ", limits.max_side, " pixels a side"),
                             cat(width, " x ", height), "give a smaller image"));
  }
  if (width * height > limits.max_pixels) {
    throw Failure(data_error(name, cat("an image of at most ", limits.max_pixels, " pixels"), cat(width, " x ", height),
                             "give a smaller image"));
  }
  Image out{width, height, {}};
  out.pixels.resize(static_cast<std::size_t>(width * height * 3));
  return out;
}

Failure EncodedImage::damaged(std::string_view format, std::string_view problem) const {
  return Failure(data_error(name, cat("a whole ", format, " image"), problem, "write or fetch the file again"));
}

Result<Image> decode_image(std::span<const std::byte> bytes, const std::string& name, const ImageLimits& limits) {
  return catching([&] {
    if (bytes.size() > limits.max_bytes) {
      throw Failure(data_error(name, cat("an image file of at most ", human_bytes(limits.max_bytes)),
                               human_bytes(bytes.size()), "give a smaller file"));
    }
    const EncodedImage from{bytes, name, limits};
    if (text_at(bytes, 0, 3) == "\xFF\xD8\xFF"sv) return decode_jpeg(from);
    if (text_at(bytes, 0, 8) == "\x89PNG\r\n\x1A\n"sv) return decode_png(from);
    if (text_at(bytes, 0, 4) == "RIFF"sv && text_at(bytes, 8, 4) == "WEBP"sv) return decode_webp(from);
    throw Failure(data_error(name, kFormats, other_format(bytes), "convert it to PNG or JPEG"));
  });
}

}  // namespace tern::media
