// The tower at work: when it is read, what it takes, and what becomes of a request that it can't serve.
#include "engine/image_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "engine/llm_engine.h"
#include "models/vision.h"
#include "tiny.h"

namespace tern::engine::seeing_later {
namespace {

constexpr std::int32_t kImage = 150;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TERN_TEST_DATA) / "golden" / name;
}

accel::DevicePtr cpu_device() {
  static const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_cpu.so").value();
  return accel::Device::open(backend, 0).value();
}

models::LoadedModel seeing_model(const std::string& name, bool vision, const accel::DevicePtr& device = cpu_device()) {
  auto source =
      std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(golden(name)).value());
  models::LoadOptions options;
  options.vision = vision;
  options.vision_later = !vision;
  return models::load_model(models::read_config(*source).value(), source, device, options).value();
}

std::vector<float> numbers_of(const std::filesystem::path& file, const std::string& name) {
  const auto opened = checkpoint::Safetensors::open(file).value();
  for (const auto& tensor : opened.tensors()) {
    if (tensor.name != name) continue;
    std::vector<float> out(tensor.bytes.size() / sizeof(float));
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return out;
  }
  return {};
}

// Numbers that any language can make.
float number_of(std::int64_t patch, std::int64_t feature) {
  return static_cast<float>((patch * 7919 + feature * 104729) % 2001) / 500.0F - 2.0F;
}

RequestImage image_of(const models::VisionConfig& vision, std::vector<nn::PatchGrid> grids) {
  RequestImage made;
  made.columns = vision.tower->columns(vision, grids);
  made.image.grids = std::move(grids);
  made.image.tokens = made.columns.features;
  const std::int64_t width = vision.tower->patch_dim(vision);
  for (std::int64_t patch = 0; patch < made.columns.counts[models::kPatches]; ++patch) {
    for (std::int64_t feature = 0; feature < width; ++feature) made.image.patches.push_back(number_of(patch, feature));
  }
  return made;
}

double most_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

// More patches than 16,384, against transformers.
TEST(ImageEncoder, ReadsAnImageAsLargeAsTheProcessorMakesIt) {
  auto model = seeing_model("qwen2.5-vl-images", true);
  const auto wanted = numbers_of(golden("qwen2.5-vl-images") / "large.safetensors", "features");
  const models::VisionConfig& vision = *model.config.vision;
  session::Runtime runtime;
  ImageEncoder encoder(model, {.numerics = {}, .max_patches = 114 * 150, .load = {}}, runtime);
  const std::uint64_t told = encoder.memory_needed().intermediates;
  RequestImage image = image_of(vision, {{1, 114, 150}});
  encoder.encode(image);
  EXPECT_GE(encoder.memory().live_peak, told);
  EXPECT_LE(encoder.memory().live_peak, told * 5 / 4) << "but for workspaces";
  ASSERT_EQ(image.features.size(), 4275U * 32);
  std::vector<float> found;
  for (std::size_t row = 0; row < 4275; row += 100)
    found.insert(found.end(), image.features.begin() + static_cast<std::ptrdiff_t>(row * 32),
                 image.features.begin() + static_cast<std::ptrdiff_t>(row * 32 + 32));
  EXPECT_LE(most_difference(found, wanted), 2e-5);
}

// What is told before the first image is what the largest one's program needs at once, but for workspaces of kernels.
TEST(ImageEncoder, SaysWhatItWillTake) {
  for (const char* name : {"qwen2.5-vl-images", "qwen3-vl-images", "gemma3-images", "internvl-images"}) {
    auto model = seeing_model(name, false);
    const models::VisionConfig& vision = *model.config.vision;
    const std::uint64_t before = model.store->bytes();
    session::Runtime runtime;
    const std::int64_t most = vision.tower->has_one_size ? 64 : 576;
    int loads = 0;
    ImageEncoderOptions options;
    options.max_patches = most;
    options.load = [&] {
      ++loads;
      return models::load_vision(model, {});
    };
    ImageEncoder encoder(model, std::move(options), runtime);
    const ImageMemory needed = encoder.memory_needed();
    EXPECT_EQ(model.store->bytes(), before) << "nothing is taken yet";
    EXPECT_EQ(encoder.bytes(), 0U);
    std::uint64_t weights = 0;
    for (const auto& spec : vision.tower->parameters(vision)) weights += total_bytes(make_desc(TERN_F32, spec.shape));
    EXPECT_EQ(needed.weights, weights) << name;
    const bool tiles = std::string(name).starts_with("intern");
    RequestImage image =
        image_of(vision, tiles ? std::vector<nn::PatchGrid>(16, {1, 6, 6})
                               : std::vector<nn::PatchGrid>{{1, most / 8 / (most / 64), 8 * (most / 64)}});
    encoder.encode(image);
    EXPECT_EQ(loads, 1);
    EXPECT_EQ(encoder.memory_needed().weights, 0U) << "they are there";
    const std::uint64_t peak = encoder.memory().live_peak;
    EXPECT_GE(peak, needed.intermediates) << name;
    EXPECT_LE(peak, needed.intermediates + (std::uint64_t{2} << 20)) << name << ", and workspaces, whose size is fixed";
    EXPECT_GE(encoder.bytes(), peak) << name;
  }
}

// Tiles know nothing of each other: as many as a program holds at once, and the rest behind them.
TEST(ImageEncoder, ReadsTilesInTurns) {
  auto model = seeing_model("internvl-images", true);
  const models::VisionConfig& vision = *model.config.vision;
  session::Runtime runtime;
  const std::vector<nn::PatchGrid> grids(7, {1, 6, 6});
  std::vector<float> wanted;
  std::uint64_t whole_bytes = 0;
  for (const std::int64_t at_once : {36 * 16, 36 * 3, 36, 1}) {
    ImageEncoder encoder(model, {.numerics = {}, .max_patches = 36 * 8, .patches_at_once = at_once, .load = {}},
                         runtime);
    EXPECT_EQ(encoder.max_patches(), 36 * 8);
    RequestImage image = image_of(vision, grids);
    encoder.encode(image);
    if (wanted.empty()) {
      wanted = image.features;
      whole_bytes = encoder.bytes();
      EXPECT_EQ(encoder.num_runs(), 1);
      continue;
    }
    EXPECT_EQ(encoder.num_runs(), at_once > 36 ? 3 : 7);
    EXPECT_LE(most_difference(image.features, wanted), 1e-6);
    EXPECT_LT(encoder.bytes(), whole_bytes);
    EXPECT_EQ(encoder.num_encoded(), 1);
  }
}

struct Request {
  std::vector<std::int32_t> ids;
  std::vector<session::ImagePatches> images;
};
Request request_of(const models::VisionConfig& vision, const nn::PatchGrid& grid) {
  Request request;
  request.images.push_back(image_of(vision, {grid}).image);
  request.ids = prompt_of(3, 4);
  request.ids.insert(request.ids.end(), static_cast<std::size_t>(request.images.back().tokens), kImage);
  request.ids.push_back(7);
  return request;
}

EngineOptions lazy_engine(models::LoadedModel& model, int& loads) {
  EngineOptions options = small_engine();
  options.max_image_patches = 4096;
  options.max_model_len = 1200;
  options.numerics.needs = TERN_NEED_ROW_INVARIANT | TERN_NEED_DETERMINISTIC;
  options.load_vision = [&model, &loads] {
    ++loads;
    return models::load_vision(model, {});
  };
  return options;
}

bool has_image_steps(const LLMEngine& engine) {
  const auto buckets = engine.runner().buckets();
  return std::any_of(buckets.begin(), buckets.end(), [](const auto& bucket) { return bucket.images; });
}

// Runs of words alone pay nothing for the tower; the first image reads it, and once.
TEST(SeeingLater, TheFirstImageReadsTheTower) {
  const auto tokens_of = [](bool loaded, int& loads) {
    auto model = seeing_model("qwen3-vl-images", loaded);
    session::Runtime runtime;
    EngineOptions options = lazy_engine(model, loads);
    if (loaded) options.load_vision = {};
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    const auto words = engine.add_request(prompt_of(1, 9), greedy(5)).value();
    Drawn drawn;
    drawn.run(engine);
    EXPECT_EQ(loads, 0);
    EXPECT_EQ(engine.images()->bytes(), 0U);
    EXPECT_FALSE(has_image_steps(engine));
    std::vector<std::vector<std::int32_t>> out = {drawn.tokens.at(words)};
    for (int turn = 0; turn < 2; ++turn) {
      Request request = request_of(*model.config.vision, {1, 4, 6});
      const auto id = engine.add_request(request.ids, greedy(6), std::move(request.images)).value();
      drawn.run(engine);
      out.push_back(drawn.tokens.at(id));
    }
    EXPECT_TRUE(has_image_steps(engine));
    return out;
  };
  int loads = 0, none = 0;
  EXPECT_EQ(tokens_of(false, loads), tokens_of(true, none));
  EXPECT_EQ(loads, 1);
}

// A tower that can't be read costs the requests that need it, and no other.
TEST(SeeingLater, WithoutATowerWordsGoOn) {
  auto model = seeing_model("qwen3-vl-images", false);
  session::Runtime runtime;
  int loads = 0;
  EngineOptions options = lazy_engine(model, loads);
  options.load_vision = [&loads]() -> Status {
    ++loads;
    return device_error("no memory for visual.blocks.3", "free some");
  };
  std::vector<std::int32_t> alone;
  {
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    const auto id = engine.add_request(prompt_of(1, 9), greedy(8)).value();
    Drawn drawn;
    drawn.run(engine);
    alone = drawn.tokens.at(id);
  }
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  const auto words = engine.add_request(prompt_of(1, 9), greedy(8)).value();
  std::vector<SequenceId> seeing;
  for (int i = 0; i < 2; ++i) {
    Request request = request_of(*model.config.vision, {1, 4, 6});
    seeing.push_back(engine.add_request(request.ids, greedy(6), std::move(request.images)).value());
  }
  Drawn drawn;
  drawn.run(engine);
  EXPECT_EQ(drawn.tokens.at(words), alone);
  for (const SequenceId id : seeing) {
    EXPECT_FALSE(drawn.tokens.contains(id));
    const RequestOutput& last = drawn.last.at(id);
    EXPECT_TRUE(last.finished);
    EXPECT_EQ(last.reason, FinishReason::failed);
    ASSERT_TRUE(last.error.has_value());
    EXPECT_EQ(last.error->line(),
              "an image of 6 tokens, which the vision tower can't read: no memory for visual.blocks.3; free some.");
  }
  EXPECT_EQ(loads, 1) << "it isn't tried again";
}

// Weights that can't be read whole leave nothing behind.
TEST(SeeingLater, ATowerThatDoesNotFitIsTakenBack) {
  const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_sim.so").value();
  std::uint64_t words = 0;
  {
    const auto device = accel::Device::open(backend, 0, {{"memory_limit", "100000000"}}).value();
    words = device->memory().free;
    const auto model = seeing_model("qwen3-vl-images", false, device);
    words -= device->memory().free;
  }
  const std::string limit = std::to_string(words + 100'000);  // of the tower's 240,000
  const auto device = accel::Device::open(backend, 0, {{"memory_limit", limit}}).value();
  auto model = seeing_model("qwen3-vl-images", false, device);
  const std::uint64_t before = model.store->bytes();
  const Status loaded = models::load_vision(model, {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::device) << loaded.error().line();
  EXPECT_EQ(model.store->bytes(), before);
  EXPECT_FALSE(models::has_vision_weights(model));
}

// An image too large for the memory is refused; a smaller one behind it is read, as is one that fits alone in the place
// of the programs of others.
TEST(SeeingLater, AnImageThatDoesNotFitIsRefusedAlone) {
  const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_sim.so").value();
  const auto device = accel::Device::open(backend, 0, {{"memory_limit", "6000000"}}).value();
  auto model = seeing_model("qwen3-vl-images", false, device);
  session::Runtime runtime;
  int loads = 0;
  EngineOptions options = lazy_engine(model, loads);
  options.kv_cache_memory = 1'200'000;
  options.max_num_seqs = 1;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  const auto outcome = [&](const nn::PatchGrid& grid) {
    Request request = request_of(*model.config.vision, grid);
    const auto id = engine.add_request(request.ids, greedy(2), std::move(request.images)).value();
    Drawn drawn;
    drawn.run(engine);
    const RequestOutput& last = drawn.last.at(id);
    return last.error ? last.error->line() : std::string();
  };
  EXPECT_EQ(outcome({1, 8, 8}), "");
  EXPECT_NE(outcome({1, 64, 64}).find("an image of 1024 tokens, which the vision tower can't read: "),
            std::string::npos);
  EXPECT_EQ(outcome({1, 8, 8}), "");
  EXPECT_EQ(outcome({1, 16, 18}), "");
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace tern::engine::seeing_later
