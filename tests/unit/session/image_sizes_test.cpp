// What --max_pixels and the environment make of images' sizes, against ms-swift's arithmetic.
#include "session/image_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "session/image_processor.h"
#include "tests/support/pattern.h"

namespace tern::session {
namespace {

const std::filesystem::path kImageFiles = std::filesystem::path(TERN_TEST_DATA) / "media";

// Within 1 of 255, as Pillow takes the columns of some tall images before their rows; for wide ones to the bit.
TEST(ImageSizes, ShrinksAsMsSwiftDoes) {
  std::ifstream table(kImageFiles / "shrink.txt");
  int cases = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::int64_t width = 0, height = 0, most = 0, new_width = 0, new_height = 0;
    std::uint32_t seed = 0;
    std::string hex;
    fields >> width >> height >> seed >> most >> new_width >> new_height >> hex;
    const media::Image found = shrunk(test::pattern(width, height, seed), most, "a.png");
    ASSERT_EQ(found.width, new_width) << line;
    ASSERT_EQ(found.height, new_height) << line;
    ASSERT_EQ(found.pixels.size() * 2, hex.size()) << line;
    int largest = 0;
    for (std::size_t i = 0; i < found.pixels.size(); ++i)
      largest = std::max(largest, std::abs(std::stoi(hex.substr(2 * i, 2), nullptr, 16) - found.pixels[i]));
    EXPECT_LE(largest, width < height ? 1 : 0) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 10);
}

TEST(ImageSizes, NamesAnImageOfWhichNothingIsLeft) {
  const auto made = catching([] { return shrunk(test::pattern(300, 2, 1), 100, "a.png"); });
  EXPECT_EQ(made.error().line(),
            "a.png: expected an image of which 100 pixels leave both sides one, found 300 x 2; raise --max_pixels, or "
            "cut it into pieces");
}

class Environment : public testing::Test {
 protected:
  ~Environment() override {
    for (const auto& [name, value] : set_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    set_[name] = value;
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  // The limits that a processor then has, or the error.
  static std::string limits(const char* family) {
    const auto sizes = image_sizes_of_environment(0);
    if (!sizes) return sizes.error().line();
    const auto config = with_sizes(read_image_config(kImageFiles / "processors" / family).value(), *sizes);
    if (!config) return config.error().line();
    std::ostringstream out;
    out << config->min_pixels << ' ' << config->max_pixels << ' ' << config->max_ratio;
    return out.str();
  }
  std::map<std::string, std::string> set_;
};

TEST_F(Environment, SaysNothing) {
  EXPECT_EQ(limits("qwen2_5_vl"), "3136 12845056 200");
  EXPECT_EQ(image_sizes_of_environment(7).value(), (ImageSizes{.max_pixels = 7}));
  EXPECT_FALSE(image_sizes_of_environment(7)->concern_blocks());
}

TEST_F(Environment, GivesLimitsInWholeTokens) {
  set("MAX_PIXELS", "1003520");
  EXPECT_EQ(limits("qwen2_5_vl"), "3136 1003520 200");
  EXPECT_EQ(limits("qwen3_vl"), "65536 1003520 200") << "980 tokens of 32 x 32";
  set("MAX_PIXELS", "1003519");
  EXPECT_EQ(limits("qwen2_5_vl"), "3136 1002736 200") << "1,279 tokens of 28 x 28";
  set("MIN_PIXELS", "100");
  set("MAX_RATIO", "30");
  EXPECT_EQ(limits("qwen2_5_vl"), "784 1002736 30") << "at least a token";
  set("IMAGE_MAX_TOKEN_NUM", "16384");
  set("IMAGE_MIN_TOKEN_NUM", "256");
  EXPECT_EQ(limits("qwen3_vl"), "262144 16777216 30") << "tokens go before pixels";
  EXPECT_TRUE(image_sizes_of_environment(0)->concern_blocks());
  EXPECT_EQ(limits("gemma3"), "0 0 200") << "no processor of that kind";
}

TEST_F(Environment, IsRefusedWhereItIsNotThisModels) {
  set("IMAGE_FACTOR", "28");
  set("SPATIAL_MERGE_SIZE", "2");
  EXPECT_EQ(limits("qwen2_5_vl"), "3136 12845056 200");
  EXPECT_EQ(limits("qwen3_vl"), "IMAGE_FACTOR is 28, and the model's own is 32; take it out of the environment.");
  set("MAX_PIXELS", "many");
  EXPECT_EQ(
      limits("qwen3_vl"),
      "MAX_PIXELS is many, and it is an integer from 1 to 67108864; change it, or take it out of the environment.");
  set("MAX_PIXELS", "3000");
  EXPECT_EQ(limits("qwen2_5_vl"),
            "the environment asks for images of 3136 to 2352 pixels, and a token is 28 x 28; change MIN_PIXELS and "
            "MAX_PIXELS, or IMAGE_MIN_TOKEN_NUM and IMAGE_MAX_TOKEN_NUM.");
}

// What is told before a run of the largest image bounds every image.
TEST(ImageSizes, BoundPatches) {
  ImageConfig config = read_image_config(kImageFiles / "processors" / "qwen2_5_vl").value();
  EXPECT_EQ(most_patches(config, 0), 65536);
  EXPECT_EQ(most_patches_of_tokens(config, 100), 400);
  config.max_pixels = 60 * 28 * 28;
  config.min_pixels = 9 * 28 * 28;
  for (const std::int64_t max_pixels : {0, 400, 5000, 20000}) {
    std::int64_t largest = 0;
    const std::int64_t bound = most_patches(config, max_pixels);
    for (std::int64_t width = 1; width < 2000; width += 7) {
      for (std::int64_t height = 1; height < 2000; height += 11) {
        const double area = static_cast<double>(width * height);
        if (std::max(width, height) > 200 * std::min(width, height) || (max_pixels > 0 && area > 1.0 * max_pixels))
          continue;
        const ImageSize size = block_size(config, {height, width}, "a.png");
        largest = std::max(largest, size.height * size.width / (14 * 14));
      }
    }
    EXPECT_LE(largest, bound) << max_pixels;
    EXPECT_GE(largest * 3, bound) << max_pixels;
  }
  const ImageConfig tiles = read_image_config(kImageFiles / "processors" / "internvl3").value();
  EXPECT_EQ(most_patches(tiles, 0), 13 * 1024);
  EXPECT_EQ(most_patches_of_tokens(tiles, 1000), 3 * 1024);
  EXPECT_EQ(most_patches(read_image_config(kImageFiles / "processors" / "gemma3").value(), 5), 4096);
}

}  // namespace
}  // namespace tern::session
