// Models that see: what the vision towers make of patches, and the logits of prompts with images among their words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "accel/backend.h"
#include "engine/image_encoder.h"
#include "engine/model_runner.h"
#include "golden.h"

namespace tern::golden {
namespace {

constexpr double kLogits = 1e-4;
constexpr double kFeatures = 2e-5;  // as far as the tower alone may be off

models::LoadedModel load_whole(const std::filesystem::path& folder, const accel::DevicePtr& device = cpu_device(),
                               tern_dtype dtype = TERN_F32) {
  models::LoadOptions options;
  options.dtype = dtype;
  options.vision = true;
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(folder).value());
  return models::load_model(models::read_config(*source).value(), source, device, options).value();
}

class ImagesModel : public testing::TestWithParam<const char*> {
 protected:
  ImagesModel()
      : folder_(fixture(GetParam())),
        numbers_(folder_ / "images.safetensors"),
        model_(load_whole(folder_)),
        vocab_(static_cast<std::size_t>(model_.config.vocab_size)) {}

  [[nodiscard]] session::ImagePatches image(int index) const {
    session::ImagePatches image;
    image.patches = numbers_.floats("patches/" + std::to_string(index));
    const auto grids = numbers_.ints("grids/" + std::to_string(index));
    for (std::size_t i = 0; i < grids.size(); i += 3) image.grids.push_back({grids[i], grids[i + 1], grids[i + 2]});
    image.tokens = numbers_.shape("features/" + std::to_string(index))[0];
    return image;
  }
  // The prompt of the fixture, its images read by the tower.
  [[nodiscard]] std::unique_ptr<engine::Sequence> sequence(engine::ImageEncoder& encoder, bool swapped = false) const {
    auto out = std::make_unique<engine::Sequence>();
    out->tokens = numbers_.ints("tokens");
    out->prompt_length = out->length();
    std::vector<session::ImagePatches> images = {image(0), image(1)};
    if (swapped) {  // the other pixels of script/golden.d/images_models.py
      auto& patches = images[0].patches;
      const auto width = static_cast<std::ptrdiff_t>(model_.config.vision->tower->patch_dim(*model_.config.vision));
      // Tiles, or patches, come in the other order.
      const std::ptrdiff_t unit =
          images[0].grids.size() == 1 && model_.config.vision->mrope_section.empty()
              ? static_cast<std::ptrdiff_t>(patches.size())
              : (images[0].grids.size() > 1 ? static_cast<std::ptrdiff_t>(patches.size() / images[0].grids.size())
                                            : width);
      std::vector<float> other;
      for (auto end = patches.end(); end != patches.begin(); end -= unit) other.insert(other.end(), end - unit, end);
      for (float& number : other) number = -number;
      patches = other;
    }
    out->images = engine::RequestImages::place(std::move(images), out->tokens, *model_.config.vision).value();
    for (auto& each : out->images.all()) encoder.encode(each);
    return out;
  }

  struct Engine {
    explicit Engine(models::LoadedModel& model, std::int64_t step, std::uint32_t needs = 0) {
      engine::CacheOptions cache_options;
      cache_options.max_model_len = 96;
      cache_options.max_num_seqs = 2;
      cache.emplace(model.store, model.architecture->cache_specs(model.config), cache_options);
      engine::RunnerOptions options;
      options.max_num_seqs = 2;
      options.max_num_batched_tokens = step;
      options.max_drafts = step;
      options.numerics.needs = needs;
      options.return_logits = true;
      options.images = true;
      runner.emplace(model, *cache, options, runtime);
      encoder.emplace(model, engine::ImageEncoderOptions{.numerics = options.numerics, .max_patches = 128, .load = {}},
                      runtime);
    }
    // Blocks for the whole sequence, no two sequences' side by side.
    void seat(engine::Sequence& sequence, std::int32_t seat) const {
      sequence.seat = seat;
      for (std::int64_t i = 0; i < cache->num_blocks() / 2; ++i)
        sequence.blocks.push_back(static_cast<std::int32_t>(cache->num_blocks() - 2 * i - (seat - 1)));
    }
    session::Runtime runtime;
    std::optional<engine::CacheEngine> cache;
    std::optional<engine::ModelRunner> runner;
    std::optional<engine::ImageEncoder> encoder;
  };
  // Tokens [begin, begin + count), of each of which logits are told.
  static engine::ScheduledSequence rows(engine::Sequence& sequence, std::int64_t begin, std::int64_t count) {
    return {&sequence, begin, count, true, count - 1};
  }
  [[nodiscard]] std::vector<float> logits_in(const std::vector<std::int64_t>& chunks, bool swapped = false) {
    Engine engine(model_, 64);
    const auto prompt = sequence(*engine.encoder, swapped);
    engine.seat(*prompt, 2);
    std::vector<float> out;
    std::int64_t begin = 0;
    for (const std::int64_t size : chunks) {
      const std::int64_t count = std::min(size, prompt->length() - begin);
      if (count == 0) break;
      (void)engine.runner->run({rows(*prompt, begin, count)});
      out.insert(out.end(), engine.runner->logits().begin(), engine.runner->logits().end());
      begin += count;
    }
    return out;
  }
  // Sizes of chunks up to `most` tokens that cut no span.
  [[nodiscard]] std::vector<std::int64_t> chunks_of(std::int64_t most) {
    Engine engine(model_, 64);
    const auto prompt = sequence(*engine.encoder);
    std::vector<std::int64_t> out;
    for (std::int64_t begin = 0; begin < prompt->length(); begin += out.back()) {
      std::int64_t size = std::min(most, prompt->length() - begin);
      if (const auto whole = prompt->images.whole(begin, size); whole > 0) {
        size = whole;
      } else {
        size = prompt->images.span_at(begin).end - begin;
      }
      out.push_back(size);
    }
    return out;
  }

  std::filesystem::path folder_;
  Numbers numbers_;
  models::LoadedModel model_;
  std::size_t vocab_;
};

TEST_P(ImagesModel, TowerGivesTheFeatures) {
  Engine engine(model_, 64);
  const auto prompt = sequence(*engine.encoder);
  ASSERT_EQ(prompt->images.all().size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto want = numbers_.floats("features/" + std::to_string(i));
    EXPECT_LE(max_difference(prompt->images.all()[i].features, want), kFeatures) << "image " << i;
  }
}

TEST_P(ImagesModel, LogitsInOneStep) { EXPECT_LE(max_difference(logits_in({64}), numbers_.floats("logits")), kLogits); }

// Else another test could pass without looking.
TEST_P(ImagesModel, OtherPixelsGiveOtherLogits) {
  const auto got = logits_in({64}, true);
  EXPECT_LE(max_difference(got, numbers_.floats("swapped.logits")), kLogits);
  EXPECT_GT(max_difference(got, numbers_.floats("logits")), 1.0);
}

TEST_P(ImagesModel, LogitsInChunksThatCrossImages) {
  for (const std::int64_t most : {19, 8, 3}) {
    const auto chunks = chunks_of(most);
    EXPECT_GT(chunks.size(), 2U);
    EXPECT_LE(max_difference(logits_in(chunks), numbers_.floats("logits")), kLogits) << "chunks of " << most;
  }
}

TEST_P(ImagesModel, LogitsTokenByToken) {
  EXPECT_LE(max_difference(logits_in(chunks_of(1)), numbers_.floats("logits")), kLogits);
}

// What follows the prompt, one token at a time, where positions go on behind the images.
TEST_P(ImagesModel, DecodesBehindImages) {
  Engine engine(model_, 64);
  const auto prompt = sequence(*engine.encoder);
  engine.seat(*prompt, 1);
  (void)engine.runner->run({rows(*prompt, 0, prompt->length())});
  const auto next = numbers_.ints("next");
  const auto want = numbers_.floats("next.logits");
  for (std::size_t i = 0; i < next.size(); ++i) {
    prompt->tokens.push_back(next[i]);
    (void)engine.runner->run({{prompt.get(), prompt->length() - 1, 1, true}});
    EXPECT_LE(max_difference(engine.runner->logits(), std::span(want).subspan(i * vocab_, vocab_)), kLogits)
        << "token " << i << " behind the prompt";
  }
}

// Beside another request with the very same ids and other pixels, to the bit where that is asked for.
TEST_P(ImagesModel, BatchedIsAloneToTheBit) {
  const std::uint32_t needs = TERN_NEED_ROW_INVARIANT | TERN_NEED_DETERMINISTIC;
  std::vector<float> alone[2];
  for (const bool swapped : {false, true}) {
    Engine engine(model_, 128, needs);
    const auto prompt = sequence(*engine.encoder, swapped);
    engine.seat(*prompt, 2);
    (void)engine.runner->run({rows(*prompt, 0, prompt->length())});
    alone[swapped ? 1 : 0].assign(engine.runner->logits().begin(), engine.runner->logits().end());
  }
  Engine engine(model_, 128, needs);
  const auto first = sequence(*engine.encoder, false);
  const auto second = sequence(*engine.encoder, true);
  engine.seat(*first, 1);
  engine.seat(*second, 2);
  (void)engine.runner->run({rows(*second, 0, second->length()), rows(*first, 0, first->length())});
  const auto got = engine.runner->logits();
  ASSERT_EQ(got.size(), alone[0].size() + alone[1].size());
  EXPECT_TRUE(std::equal(alone[1].begin(), alone[1].end(), got.begin()));
  EXPECT_TRUE(std::equal(alone[0].begin(), alone[0].end(), got.begin() + static_cast<std::ptrdiff_t>(alone[1].size())));
}

// Weights and what lies between layers in 16 bits, as published models are run: each of the towers' ops takes them, and
// what is rounded adds up to little.
TEST_P(ImagesModel, TowerGivesTheFeaturesInBf16) {
  model_ = load_whole(folder_, cpu_device(), TERN_BF16);
  session::Runtime runtime;
  nn::Numerics numerics;
  numerics.compute = TERN_BF16;
  numerics.activations = TERN_BF16;
  engine::ImageEncoder encoder(model_, {.numerics = numerics, .max_patches = 128, .load = {}}, runtime);
  const auto prompt = sequence(encoder);
  for (std::size_t i = 0; i < 2; ++i) {
    const double error =
        relative_error(prompt->images.all()[i].features, numbers_.floats("features/" + std::to_string(i)));
    EXPECT_LE(error, 0.05) << "image " << i;
    EXPECT_GT(error, 1e-4) << "computed in fp32";
  }
}

// Devices that read lengths on the host, compile whole graphs, or have little memory at a time.
TEST_P(ImagesModel, LogitsOnEachPersonality) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    // Its paged attention knows heads of 16 and more: half of the models have such.
    if (std::string_view(personality) == "ascend" && model_.config.head_dim < 16) continue;
    ASSERT_EQ(::setenv("TERN_SIM", personality, 1), 0);
    const auto backend = accel::Backend::load(TERN_SIM_PLUGIN).value();
    const auto device = accel::Device::open(backend, 0).value();
    ASSERT_EQ(::unsetenv("TERN_SIM"), 0);
    model_ = load_whole(folder_, device);
    EXPECT_LE(max_difference(logits_in(chunks_of(19)), numbers_.floats("logits")), kLogits) << personality;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ImagesModel,
                         testing::Values("qwen2.5-vl-images", "qwen2-vl-images", "qwen3-vl-images", "gemma3-images",
                                         "internvl-images", "internvl-images-rms", "qwen3-vl-moe-images",
                                         "qwen3.5-images", "qwen3.5-moe-images", "llava-images", "llava-images-full"),
                         [](const auto& tested) { return name_of_test(tested.param); });

}  // namespace
}  // namespace tern::golden
