// Sizes against torchvision's bytes.
#include "media/resize.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/pattern.h"

namespace tern::media {
namespace {

TEST(Resize, GivesTheBytesOfTorchvision) {
  std::ifstream table(std::string(TERN_TEST_DATA) + "/media/resize.txt");
  int cases = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::int64_t width = 0, height = 0, new_width = 0, new_height = 0;
    std::uint32_t seed = 0;
    std::string filter, hash;
    fields >> width >> height >> seed >> filter >> new_width >> new_height >> hash;
    const Image found = resize(test::pattern(width, height, seed), new_width, new_height,
                               filter == "bilinear" ? Filter::bilinear : Filter::bicubic);
    EXPECT_EQ(found.width, new_width);
    EXPECT_EQ(found.height, new_height);
    EXPECT_EQ(test::fnv(std::as_bytes(std::span(found.pixels))), hash) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 36);
}

TEST(Resize, CropsWhatLiesInside) {
  const Image image = test::pattern(7, 5, 1);
  const Image part = crop(image, {3, 2, 10, 2});
  EXPECT_EQ(part.width, 4);
  EXPECT_EQ(part.height, 2);
  EXPECT_EQ(part.pixels.size(), 4U * 2 * 3);
  EXPECT_TRUE(std::equal(part.pixels.begin(), part.pixels.begin() + 12, image.pixels.begin() + (2 * 7 + 3) * 3));
  EXPECT_TRUE(std::equal(part.pixels.begin() + 12, part.pixels.end(), image.pixels.begin() + (3 * 7 + 3) * 3));
}

}  // namespace
}  // namespace tern::media
