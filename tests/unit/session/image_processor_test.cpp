// Images against transformers' processors, and what is said of configurations that ask for something else.
#include "session/image_processor.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "io/checksum.h"
#include "tests/support/pattern.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

const std::filesystem::path kMedia = std::filesystem::path(TERN_TEST_DATA) / "media";

// What the fixture says of an image: grid, pictures, tokens and the hash of all patches.
std::string said(const ImageConfig& config, const media::Image& image) {
  const auto made = make_patches(config, image, "cat.png");
  if (!made.ok()) return " refused";
  const nn::PatchGrid& grid = made->grids.front();
  for (const nn::PatchGrid& other : made->grids)
    EXPECT_TRUE(other.t == grid.t && other.h == grid.h && other.w == grid.w);
  std::ostringstream out;
  out << ' ' << grid.t << ' ' << grid.h << ' ' << grid.w << ' ' << made->grids.size() << ' ' << made->tokens << ' '
      << io::xxh3_64(std::as_bytes(std::span(made->patches)));
  return out.str();
}

// To the bit, which is more than within 1/255: the same bytes of pixels, and the same arithmetic of floats.
TEST(ImageProcessor, GivesThePatchesOfTransformers) {
  std::ifstream table(kMedia / "processors.txt");
  int cases = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string family, expected;
    std::int64_t width = 0, height = 0;
    std::uint32_t seed = 0;
    fields >> family >> width >> height >> seed;
    std::getline(fields, expected);
    const ImageConfig config = read_image_config(kMedia / "processors" / family).value();
    EXPECT_EQ(said(config, test::pattern(width, height, seed)), expected) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 70);
}

// PyTorch stops at one pixel; it has one colour at any size.
TEST(ImageProcessor, TakesOnePixel) {
  for (const char* family : {"qwen2_5_vl", "gemma3", "internvl3"}) {
    const ImageConfig config = read_image_config(kMedia / "processors" / family).value();
    const auto made = make_patches(config, {1, 1, {10, 20, 30}}, "dot").value();
    const std::int64_t a_picture = config.cut == ImageCut::merged_blocks ? 4 : config.tokens_a_picture;
    EXPECT_EQ(made.tokens, a_picture * static_cast<std::int64_t>(made.grids.size())) << family;
    EXPECT_FLOAT_EQ(made.patches.front(), static_cast<float>((10 / 255.0 - config.mean[0]) / config.std[0])) << family;
    EXPECT_FLOAT_EQ(made.patches.back(), static_cast<float>((30 / 255.0 - config.mean[2]) / config.std[2])) << family;
  }
}

TEST(ImageProcessor, RefusesAnotherSizeWhereNothingIsResized) {
  const auto refused = [](const char* family, std::int64_t width, std::int64_t height) {
    const ImageConfig config = read_image_config(kMedia / "processors" / family).value();
    return make_patches(config, test::pattern(width, height, 1), "a.png").error().line();
  };
  const std::string mend =
      ", as the model's processor resizes none (do_resize is false), found 57 x 56; bring it to that size, or take "
      "do_resize out";
  EXPECT_EQ(refused("qwen_as_it_is", 57, 56), "a.png: expected an image whose sides are multiples of 28 pixels" + mend);
  EXPECT_EQ(refused("gemma3_as_it_is", 57, 56), "a.png: expected an image of 112 x 112 pixels" + mend);
}

TEST(ImageProcessor, NamesAnImageThatIsTooLong) {
  const ImageConfig config = read_image_config(kMedia / "processors" / "qwen3_vl").value();
  EXPECT_EQ(make_patches(config, test::pattern(10000, 3, 1), "a.png").error().line(),
            "a.png: expected an image at most 200 times as long as wide, found 10000 x 3; cut it into pieces");
}

class ImageConfigs : public testing::Test {
 protected:
  // The error of a preprocessor_config.json; "ok" where there is none.
  std::string line(const std::string& preprocessor,
                   const std::string& config = R"({"vision_config": {"patch_size": 14}})") {
    dir_.write("preprocessor_config.json", preprocessor);
    dir_.write("config.json", config);
    const auto read = read_image_config(dir_.path());
    return read.ok() ? "ok" : dir_.line(read.error());
  }
  static std::string of(const std::string& type, const std::string& more) {
    return R"({"image_processor_type": ")" + type + "\"" + more + "}";
  }

  test::TempDir dir_;
  const std::string start_ = "DIR/preprocessor_config.json: field \"";
  const std::string end_ = "; take the model's repository again, or choose another model";
};

TEST_F(ImageConfigs, RefuseWhatWouldChangeThePixels) {
  const std::string qwen = "Qwen2VLImageProcessor";
  EXPECT_EQ(line(of(qwen, "")), "ok");
  EXPECT_EQ(line(of(qwen, R"(, "do_pad": false, "crop_size": {"height": 3}, "return_tensors": null, "new": null)")),
            "ok");
  EXPECT_EQ(line(of("GotOcr2ImageProcessor", R"(, "do_resize": false)")),
            start_ + "do_resize\": expected true, found false" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "do_center_crop": true)")),
            start_ + "do_center_crop\": expected false, found true" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "sharpen": 1)")),
            start_ + "sharpen\": expected no such field: what it asks for is not known, found 1" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "resample": 1)")),
            start_ + "resample\": expected 2, bilinear, or 3, bicubic, found 1" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "rescale_factor": 0)")),
            start_ + "rescale_factor\": expected a number above 0, found 0" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "image_mean": [0.5, 0.5])")),
            start_ + "image_mean\": expected three numbers, found [0.5,0.5]" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "image_std": [0.5, 0, 1])")),
            start_ + "image_std[1]\": expected a number above 0, found 0" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "patch_size": 0)")),
            start_ + "patch_size\": expected an integer from 1 to 256, found 0" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "size": {"shortest_edge": 3})")),
            start_ + "size\": expected a field \"longest_edge\", found none" + end_);
  EXPECT_EQ(line(of(qwen, R"(, "image_std": 0)")), start_ + "image_std\": expected a number above 0, found 0" + end_);
  EXPECT_EQ(line(of("Gemma3ImageProcessor", R"(, "size": [28, 28, 3])")),
            start_ + "size\": expected one number of pixels, or height and width, found [28,28,3]" + end_);
  EXPECT_EQ(line(of("Gemma3ImageProcessor", R"(, "size": [28, 0])")),
            start_ + "size\": expected integers from 1 to 4096, found [28,0]" + end_);
  EXPECT_EQ(
      line(R"({"feature_extractor_type": "ViTFeatureExtractor"})"),
      start_ +
          "feature_extractor_type\": expected Qwen2VLImageProcessor, Gemma3ImageProcessor, GotOcr2ImageProcessor or "
          "CLIPImageProcessor, found \"ViTFeatureExtractor\"" +
          end_);
  EXPECT_EQ(line("{}"),
            start_.substr(0, start_.size() - 9) + R"(: expected a field "image_processor_type", found none)" + end_);
  EXPECT_EQ(line(of("CLIPImageProcessor", R"(, "size": 28, "crop_size": {"height": 28, "width": 42})")),
            start_ +
                "crop_size\": expected at most the shortest edge, 28, as nothing is padded, found "
                "{\"height\":28,\"width\":42}" +
                end_);
  EXPECT_EQ(line(of("CLIPImageProcessor", R"(, "do_center_crop": false)")),
            start_ + "do_center_crop\": expected true, found false" + end_);
  EXPECT_EQ(line(of("Gemma3ImageProcessor", R"(, "do_pan_and_scan": true)")),
            start_ + "do_pan_and_scan\": expected false, found true" + end_);
  EXPECT_EQ(
      line(of("SiglipImageProcessor", "")),
      start_ +
          "image_processor_type\": expected Qwen2VLImageProcessor, Gemma3ImageProcessor, GotOcr2ImageProcessor or "
          "CLIPImageProcessor, found \"SiglipImageProcessor\"" +
          end_);
}

TEST_F(ImageConfigs, RefusePatchesThatDoNotFillAPicture) {
  const std::string start = "DIR/config.json: field \"vision_config.patch_size\": expected ";
  EXPECT_EQ(line(of("Gemma3ImageProcessor", "")), "ok");
  EXPECT_EQ(line(of("Gemma3ImageProcessor", ""), R"({"vision_config": {"patch_size": 15}})"),
            start + "a size of which 224 x 224 pixels are a multiple, found 15" + end_);
  EXPECT_EQ(line(of("GotOcr2ImageProcessor", ""), R"({"vision_config": {"patch_size": [14, 16]}})"),
            start + "one integer from 1 to 256 for both sides, found [14,16]" + end_);
  EXPECT_EQ(line(of("GotOcr2ImageProcessor", ""), R"({"vision_config": {"patch_size": []}})"),
            start + "an integer, found []" + end_);
}

TEST_F(ImageConfigs, SayWhereThereIsNone) {
  const auto read = read_image_config(dir_.path());
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(
      dir_.line(read.error()),
      "DIR: expected a model that takes images, found one without preprocessor_config.json; leave the images out, or "
      "choose another model");
}

}  // namespace
}  // namespace tern::session
