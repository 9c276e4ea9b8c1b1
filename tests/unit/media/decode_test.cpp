// Every kind of file against Pillow's pixels, and what is said of files that are none.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "media/image.h"

namespace tern::media {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<Image> decoded(std::string_view bytes, const ImageLimits& limits = {}) {
  return decode_image(std::as_bytes(std::span(bytes)), "cat", limits);
}

std::string line(std::string_view bytes, const ImageLimits& limits = {}) {
  const auto found = decoded(bytes, limits);
  return found.ok() ? "ok" : found.error().line();
}

const fs::path kFiles = fs::path(TERN_TEST_DATA) / "media" / "decode";

TEST(Decode, GivesThePixelsOfPillow) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFiles)) {
    if (entry.path().extension() != ".ppm") continue;
    const std::string expected = bytes_of(entry.path());
    const fs::path file = fs::path(entry.path()).replace_extension();
    SCOPED_TRACE(file.filename());
    ++files;
    const auto image = decoded(bytes_of(file));
    ASSERT_TRUE(image.ok()) << image.error().line();
    std::ostringstream header;
    header << "P6\n" << image->width << ' ' << image->height << "\n255\n";
    ASSERT_TRUE(expected.starts_with(header.str())) << header.str();
    const std::string_view pixels = std::string_view(expected).substr(header.str().size());
    ASSERT_EQ(pixels.size(), image->pixels.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      different += static_cast<std::uint8_t>(pixels[i]) != image->pixels[i] ? 1 : 0;
    }
    EXPECT_EQ(different, 0U);
  }
  EXPECT_GE(files, 46);
}

TEST(Decode, NamesWhatIsNoImage) {
  constexpr const char* kEnd = "; convert it to PNG or JPEG";
  const auto found = [&](std::string_view bytes) { return line(bytes); };
  const std::string start = "cat: expected a JPEG, PNG or WebP image, found ";
  EXPECT_EQ(found(""), start + "an empty file" + kEnd);
  EXPECT_EQ(found("GIF89a......"), start + "a GIF" + kEnd);
  EXPECT_EQ(found("....ftypavif"), start + "an AVIF" + kEnd);
  EXPECT_EQ(found("<!DOCTYPE html>"), start + "a page of HTML" + kEnd);
  EXPECT_EQ(found("hello"), start + "other bytes" + kEnd);
}

// The limits hold before the pixels' memory is taken: these headers claim gigabytes.
TEST(Decode, RefusesWhatIsBeyondTheLimits) {
  std::string png = bytes_of(kFiles / "rgb.png");
  EXPECT_EQ(line(png, {.max_bytes = 100}), "cat: expected an image file of at most 100 B, found " +
                                               std::to_string(png.size()) + " B; give a smaller file");
  EXPECT_EQ(line(png, {.max_side = 28}),
            "cat: expected an image of at most 28 pixels a side, found 29 x 19; give a smaller image");
  for (const char* name : {"rgb-420.jpg", "rgb.png", "lossless.webp", "animated.webp"}) {
    EXPECT_EQ(line(bytes_of(kFiles / name), {.max_pixels = 29 * 19 - 1}),
              "cat: expected an image of at most 550 pixels, found 29 x 19; give a smaller image");
    EXPECT_EQ(line(bytes_of(kFiles / name), {.max_pixels = 29 * 19}), "ok");
  }
}

// Cut anywhere, a file is an error, and never a picture with a part made up.
TEST(Decode, NamesEachCut) {
  for (const char* name : {"rgb-420.jpg", "progressive.jpg", "grey.jpg", "rgb.png", "interlaced.png", "lossy.webp",
                           "lossless.webp", "animated.webp"}) {
    const std::string whole = bytes_of(kFiles / name);
    const Image image = decoded(whole).value();
    int refused = 0;
    for (std::size_t size = 16; size < whole.size(); ++size) {
      const auto cut = decoded(std::string_view(whole).substr(0, size));
      if (cut.ok()) {  // only what follows the pixels is missing
        EXPECT_EQ(cut->pixels, image.pixels) << name << " cut at " << size;
        continue;
      }
      ++refused;
      EXPECT_TRUE(cut.error().line().starts_with("cat: expected a whole ")) << cut.error().line();
      EXPECT_TRUE(cut.error().line().ends_with("; write or fetch the file again")) << cut.error().line();
    }
    EXPECT_GT(refused, static_cast<int>(whole.size() / 2)) << name;
  }
}

TEST(Decode, RefusesWhereAJpegsPixelsWouldBeGuessed) {
  std::string jpeg = bytes_of(kFiles / "restarts.jpg");
  const std::size_t scan = jpeg.find("\xFF\xDA");
  ASSERT_NE(scan, std::string::npos);
  const std::size_t restart = jpeg.find("\xFF\xD2", scan);
  ASSERT_NE(restart, std::string::npos);
  jpeg[restart + 1] = '\xD5';
  EXPECT_TRUE(line(jpeg).starts_with("cat: expected a whole JPEG image, found Corrupt JPEG data")) << line(jpeg);
  // One that was cut, and given its end again.
  const std::string whole = bytes_of(kFiles / "grey.jpg");
  for (std::size_t size = whole.size() - 60; size < whole.size() - 12; ++size) {
    const std::string cut = line(whole.substr(0, size) + "\xFF\xD9");
    EXPECT_TRUE(cut.starts_with("cat: expected a whole JPEG image, found Corrupt JPEG data")) << size << ": " << cut;
  }
}

TEST(Decode, NamesAWrongChecksumOfAPng) {
  std::string png = bytes_of(kFiles / "rgb.png");
  png[png.find("IEND") - 5] ^= 1;
  EXPECT_EQ(line(png), "cat: expected a whole PNG image, found IDAT: CRC error; write or fetch the file again");
}

}  // namespace
}  // namespace tern::media
