// Towers in mmproj files as llama.cpp's converter writes them: the same features as from the directories.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/convert.h"
#include "engine/image_encoder.h"
#include "engine/request_images.h"
#include "golden.h"
#include "models/mmproj.h"
#include "tests/support/temp_dir.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;

constexpr double kFeatures = 2e-5;

using SourcePtr = std::shared_ptr<checkpoint::CheckpointSource>;
SourcePtr open(const fs::path& path) {
  return std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
}

class MmprojModel : public testing::TestWithParam<const char*> {
 protected:
  MmprojModel() : folder_(fixture(GetParam())), numbers_(folder_ / "images.safetensors") {}
  [[nodiscard]] static fs::path file(const char* ending) {
    return fixture("mmproj") / (std::string(GetParam()) + ending);
  }
  // What transformers makes of the file's numbers, where they differ from the directory's (gguf_images.py).
  [[nodiscard]] Numbers expected() const {
    const fs::path own = file(".safetensors");
    return Numbers(fs::exists(own) ? own : folder_ / "images.safetensors");
  }
  // What a GGUF of the language model is called.
  [[nodiscard]] static std::string language() {
    const std::string_view name = GetParam();
    if (name == "qwen3-vl-moe-images") return "qwen3vlmoe";
    return name == "qwen3.5-images" ? "qwen35" : name == "qwen3.5-moe-images" ? "qwen35moe" : "";
  }
  // The directory's language model and the file's tower.
  [[nodiscard]] models::LoadedModel load(const fs::path& mmproj, tern_dtype dtype = TERN_F32) const {
    const SourcePtr source = open(folder_);
    models::ModelConfig config = models::read_config(*source).value();
    auto vision = std::make_shared<models::VisionConfig>(models::read_mmproj(open(mmproj), config, language()).value());
    vision->image_token_id = config.vision->image_token_id;
    vision->mrope_section = config.vision->mrope_section;
    config.vision = vision;
    models::LoadOptions options;
    options.dtype = dtype;
    options.vision = true;
    return models::load_model(config, source, cpu_device(), options).value();
  }
  [[nodiscard]] std::vector<float> features(models::LoadedModel& model, int index) const {
    session::ImagePatches image;
    image.patches = numbers_.floats("patches/" + std::to_string(index));
    const auto grids = numbers_.ints("grids/" + std::to_string(index));
    for (std::size_t i = 0; i < grids.size(); i += 3) image.grids.push_back({grids[i], grids[i + 1], grids[i + 2]});
    image.tokens = numbers_.shape("features/" + std::to_string(index))[0];
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(image.tokens),
                                        static_cast<std::int32_t>(model.config.vision->image_token_id));
    std::vector<session::ImagePatches> images;
    images.push_back(std::move(image));
    engine::RequestImages placed = engine::RequestImages::place(std::move(images), ids, *model.config.vision).value();
    session::Runtime runtime;
    engine::ImageEncoder encoder(model, {.numerics = {}, .max_patches = 128, .load = {}}, runtime);
    encoder.encode(placed.all().front());
    return placed.all().front().features;
  }
  // The largest error of both images, relative to the largest feature.
  [[nodiscard]] double error_of(const std::string& outtype) const {
    const test::TempDir scratch;
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    const fs::path converted = scratch.path() / "mmproj.gguf";
    (void)checkpoint::convert_checkpoint(*open(file(".gguf")), converted, options).value();
    models::LoadedModel model = load(converted);
    const Numbers want = expected();
    double error = 0;
    for (int i = 0; i < 2; ++i)
      error = std::max(error, relative_error(features(model, i), want.floats("features/" + std::to_string(i))));
    return error;
  }

  fs::path folder_;
  Numbers numbers_;
};

TEST_P(MmprojModel, GivesTheFeatures) {
  models::LoadedModel model = load(file(".gguf"));
  const Numbers want = expected();
  for (int i = 0; i < 2; ++i) {
    EXPECT_LE(max_difference(features(model, i), want.floats("features/" + std::to_string(i))), kFeatures)
        << "image " << i;
  }
}

// As people have them. What is rounded shows, and is no more than the type rounds away.
TEST_P(MmprojModel, GivesTheFeaturesInF16AndQ80) {
  const double half = error_of("f16"), eight = error_of("q8_0");
  EXPECT_LE(half, 2e-3);
  EXPECT_GT(half, 1e-5);
  EXPECT_LE(eight, 0.04);
  EXPECT_GT(eight, half);
}

INSTANTIATE_TEST_SUITE_P(Models, MmprojModel,
                         testing::Values("qwen2.5-vl-images", "qwen2-vl-images", "qwen3-vl-images", "gemma3-images",
                                         "internvl-images", "internvl-images-rms", "qwen3-vl-moe-images",
                                         "qwen3.5-images", "qwen3.5-moe-images"),
                         [](const auto& tested) { return name_of_test(tested.param); });

}  // namespace
}  // namespace tern::golden
