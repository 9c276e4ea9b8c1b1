#include "media/orientation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tern::media {
namespace {

using namespace std::string_view_literals;

// TIFF's integers, in the byte order that its header names.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}

  [[nodiscard]] std::optional<std::uint32_t> integer(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < size; ++i) {
      out = out << 8 | static_cast<std::uint8_t>(bytes_[at + (little_ ? size - 1 - i : i)]);
    }
    return out;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

std::optional<std::uint32_t> exif_orientation(std::string_view bytes) {
  constexpr std::uint32_t kOrientation = 0x0112;
  if (bytes.starts_with("Exif\0\0"sv)) bytes.remove_prefix(6);
  if (!bytes.starts_with("II") && !bytes.starts_with("MM")) return std::nullopt;
  const Tiff tiff(bytes);
  const auto directory = tiff.integer(4, 4);
  const auto entries = directory ? tiff.integer(*directory, 2) : std::nullopt;
  for (std::size_t i = 0; entries && i < *entries; ++i) {
    const std::size_t entry = std::size_t{*directory} + 2 + i * 12;
    const auto tag = tiff.integer(entry, 2);
    if (!tag) break;
    if (*tag != kOrientation) continue;
    const std::uint32_t type = tiff.integer(entry + 2, 2).value_or(0);  // 1 byte, 3 short, 4 long
    const std::size_t size = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
    return size == 0 ? std::nullopt : tiff.integer(entry + 8, size);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> xmp_orientation(std::string_view text) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view value = text.substr(at + kName.size());
    for (const std::string_view opening : {"=\""sv, ">"sv}) {
      if (!value.starts_with(opening)) continue;
      value.remove_prefix(opening.size());
      if (!value.empty() && value[0] >= '0' && value[0] <= '9') return static_cast<std::uint32_t>(value[0] - '0');
      break;
    }
  }
  return std::nullopt;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

int orientation_of(std::span<const std::byte> exif, std::span<const std::byte> xmp) {
  auto found = exif_orientation(as_text(exif));
  if (!found) found = xmp_orientation(as_text(xmp));
  return found && *found >= 1 && *found <= 8 ? static_cast<int>(*found) : 1;
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool transposed = orientation >= 5;
  Image out{transposed ? image.height : image.width, transposed ? image.width : image.height, {}};
  out.pixels.resize(image.pixels.size());
  // Where the stored picture is read from: mirrored along its width, along its height, after its axes are exchanged.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  std::uint8_t* to = out.pixels.data();
  for (std::int64_t y = 0; y < out.height; ++y) {
    for (std::int64_t x = 0; x < out.width; ++x, to += 3) {
      std::int64_t column = transposed ? y : x;
      std::int64_t row = transposed ? x : y;
      if (from_right) column = image.width - 1 - column;
      if (from_bottom) row = image.height - 1 - row;
      std::copy_n(image.pixels.data() + (row * image.width + column) * 3, 3, to);
    }
  }
  return out;
}

}  // namespace tern::media
