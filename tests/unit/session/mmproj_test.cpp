// How images are prepared for towers of mmproj files.
#include "session/mmproj.h"

#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/convert.h"
#include "models/mmproj.h"
#include "session/image_prompt.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

using Change = std::function<void(checkpoint::GgufMetadata&)>;

// Of llama.cpp's file of a tiny tower, with other metadata.
Result<ImageConfig> mmproj_config(const std::string& name, const Change& change = {}) {
  const test::TempDir scratch;
  const auto golden = std::filesystem::path(TERN_TEST_DATA) / "golden" / "mmproj" / (name + ".gguf");
  const auto source = checkpoint::CheckpointSource::open(golden).value();
  checkpoint::ConvertOptions options;
  options.metadata.emplace();
  for (const auto& [key, value] : source.gguf()->metadata()) options.metadata->set(key, value);
  if (change) change(*options.metadata);
  (void)checkpoint::convert_checkpoint(source, scratch.path() / "changed.gguf", options).value();
  auto changed = std::make_shared<checkpoint::CheckpointSource>(
      checkpoint::CheckpointSource::open(scratch.path() / "changed.gguf").value());
  models::ModelConfig text;
  text.hidden_size = 32;
  const auto vision = models::read_mmproj(std::move(changed), text);
  return vision.ok() ? mmproj_image_config(*vision) : Result<ImageConfig>(vision.error());
}

std::string mmproj_problem(const std::string& name, const Change& change) {
  const auto config = mmproj_config(name, change);
  return config.ok() ? "" : config.error().line();
}

TEST(MmprojImages, AreThoseOfTheFamilysProcessor) {
  const ImageConfig qwen2 = mmproj_config("qwen2.5-vl-images").value();
  EXPECT_EQ(qwen2.cut, ImageCut::merged_blocks);
  EXPECT_EQ(qwen2.filter, media::Filter::bicubic);
  EXPECT_EQ(qwen2.patch_size, 4);
  EXPECT_EQ(qwen2.merge_size, 2);
  EXPECT_EQ(qwen2.temporal_patch_size, 2);
  EXPECT_EQ(qwen2.min_pixels, 4 * 64) << "4 tokens of 8 x 8 pixels";
  EXPECT_EQ(qwen2.max_pixels, 16384 * 64);
  EXPECT_EQ(qwen2.mean, (std::array<double, 3>{0.5, 0.25, 0.125}));
  EXPECT_EQ(mmproj_config("qwen3-vl-images")->min_pixels, 64 * 64) << "64 tokens";
  const ImageConfig gemma = mmproj_config("gemma3-images").value();
  EXPECT_EQ(gemma.cut, ImageCut::square);
  EXPECT_EQ(gemma.filter, media::Filter::bilinear);
  EXPECT_EQ(gemma.height, 32);
  EXPECT_EQ(gemma.tokens_a_picture, 16);
  const ImageConfig internvl = mmproj_config("internvl-images").value();
  EXPECT_EQ(internvl.cut, ImageCut::tiles);
  EXPECT_EQ(internvl.max_tiles, 4);
  EXPECT_EQ(internvl.tokens_a_picture, 9);
  EXPECT_EQ(mmproj_config("internvl-images", [](auto& m) { m.remove("clip.vision.preproc_max_tiles"); })->max_tiles,
            12);
}

TEST(MmprojImages, KeysSaySizes) {
  const auto limited = mmproj_config("qwen3-vl-images", [](auto& m) {
    m.set("clip.vision.image_min_pixels", std::uint32_t{640});
    m.set("clip.vision.image_max_pixels", std::uint32_t{1280});
  });
  EXPECT_EQ(limited->min_pixels, 640);
  EXPECT_EQ(limited->max_pixels, 1280);
}

TEST(MmprojImages, RefuseDamagedKeys) {
  const auto expect = [](const std::string& name, const Change& change, const char* part) {
    const std::string found = mmproj_problem(name, change);
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(
      "qwen3-vl-images", [](auto& m) { m.set("clip.vision.image_max_pixels", std::uint32_t{0}); },
      "key \"clip.vision.image_max_pixels\": expected an integer from 1 to 67108864, found 0");
  expect(
      "gemma3-images", [](auto& m) { m.remove("clip.vision.image_mean"); },
      "key \"clip.vision.image_mean\": expected three numbers");
  expect(
      "gemma3-images",
      [](auto& m) {
        m.set("clip.vision.image_std", std::vector<float>{1, 0, 1});
      },
      "key \"clip.vision.image_std\": expected numbers above 0, found 0");
  expect(
      "internvl-images",
      [](auto& m) {
        m.set("clip.vision.image_size", std::uint32_t{1028});
        m.set("clip.vision.patch_size", std::uint32_t{2});
      },
      "key \"clip.vision.image_size\": expected at most 256 patches of 2 pixels a side, found 1028");
}

// GGUFs of Gemma 3 have no token for images.
TEST(MmprojImages, PaddingStandsForAFeatureWhereNothingElseDoes) {
  tokenizer::GgufVocabulary vocabulary{
      .where = "f", .model = "gpt2", .pre = "gpt-2", .tokens = {"<pad>", "a", "b", "ab"}};
  vocabulary.token_types = {3, 1, 1, 1};
  vocabulary.merges = {"a b"};
  const auto place = [&] {
    return image_place(ImageCut::square, tokenizer::Tokenizer::from_gguf(vocabulary).value(), "f");
  };
  EXPECT_EQ(place().word, "<pad>");
  EXPECT_EQ(place().id, 0);
  vocabulary.tokens[1] = "<image_soft_token>";
  vocabulary.token_types[1] = 3;
  vocabulary.merges.clear();
  EXPECT_EQ(place().word, "<image_soft_token>");
  EXPECT_EQ(place().id, 1);
  EXPECT_ANY_THROW((void)image_place(ImageCut::tiles, tokenizer::Tokenizer::from_gguf(vocabulary).value(), "f"));
}

}  // namespace
}  // namespace tern::session
