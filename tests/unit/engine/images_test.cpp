// Requests with images: where they are placed, in which steps they are computed, and how often a tower reads them.
#include <gtest/gtest.h>

#include <random>

#include "engine/llm_engine.h"
#include "models/vision.h"
#include "tiny.h"

namespace tern::engine {
namespace {

constexpr std::int32_t kImage = 150;

models::LoadedModel seeing_model(const std::string& name, bool vision = true) {
  const auto folder = std::filesystem::path(TERN_TEST_DATA) / "golden" / name;
  static const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_cpu.so").value();
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(folder).value());
  models::LoadOptions options;
  options.vision = vision;
  return models::load_model(models::read_config(*source).value(), source, accel::Device::open(backend, 0).value(),
                            options)
      .value();
}

// Made-up pixels, others for each seed.
session::ImagePatches image_of(const models::VisionConfig& vision, std::vector<nn::PatchGrid> grids, int seed) {
  session::ImagePatches image;
  image.grids = std::move(grids);
  image.tokens = vision.tower->columns(vision, image.grids).features;
  std::int64_t patches = 0;
  for (const auto& grid : image.grids) patches += grid.h * grid.w;
  std::mt19937 draws(static_cast<unsigned>(seed));
  for (std::int64_t i = 0; i < patches * vision.tower->patch_dim(vision); ++i)
    image.patches.push_back(static_cast<float>(draws() % 2001) / 500.0F - 2.0F + static_cast<float>(seed % 3));
  return image;
}

// Words, an image, words, an image, words.
struct Request {
  std::vector<std::int32_t> ids;
  std::vector<session::ImagePatches> images;
};
Request request_of(const models::VisionConfig& vision, const std::vector<nn::PatchGrid>& grids, int seed) {
  Request request;
  const auto words = [&](std::int32_t first, std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) request.ids.push_back(3 + (first + 7 * i) % 130);
  };
  words(1, 5);
  for (int i = 0; i < 2; ++i) {
    request.images.push_back(image_of(vision, grids, seed + i));
    request.ids.insert(request.ids.end(), static_cast<std::size_t>(request.images.back().tokens), kImage);
    words(20 * i, 4);
  }
  return request;
}

const std::vector<nn::PatchGrid>& grids_of(const std::string& model) {
  static const std::vector<nn::PatchGrid> qwen = {{1, 4, 6}}, gemma = {{1, 8, 8}}, intern = {{1, 6, 6}, {1, 6, 6}};
  return model.starts_with("gemma") ? gemma : model.starts_with("intern") ? intern : qwen;
}

EngineOptions options_of(std::int64_t step, std::int64_t seats) {
  EngineOptions options = small_engine();
  options.max_num_seqs = seats;
  options.max_num_batched_tokens = step;
  options.max_model_len = 80;
  options.max_image_patches = 256;
  options.numerics.needs = TERN_NEED_ROW_INVARIANT | TERN_NEED_DETERMINISTIC;
  return options;
}

class SeeingEngine : public testing::TestWithParam<const char*> {};

// The same ids, other pixels: the answers differ, and each is what it is alone, whatever runs beside it and however its
// prompt is cut. A tower reads each image once.
TEST_P(SeeingEngine, AnswersAsIfAlone) {
  auto model = seeing_model(GetParam());
  const models::VisionConfig& vision = *model.config.vision;
  std::vector<std::vector<std::int32_t>> alone;
  for (int seed = 0; seed < 3; ++seed) {
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), options_of(64, 1), runtime);
    Request request = request_of(vision, grids_of(GetParam()), 5 * seed);
    const auto id = engine.add_request(request.ids, greedy(9), std::move(request.images)).value();
    Drawn drawn;
    drawn.run(engine);
    alone.push_back(drawn.tokens.at(id));
  }
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_NE(alone[1], alone[2]);
  for (const std::int64_t step : {64, 20}) {
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), options_of(step, 4), runtime);
    std::vector<SequenceId> ids;
    for (int seed = 0; seed < 3; ++seed) {
      Request request = request_of(vision, grids_of(GetParam()), 5 * seed);
      ids.push_back(engine.add_request(request.ids, greedy(9), std::move(request.images)).value());
      ids.push_back(engine.add_request(prompt_of(seed, 11), greedy(14)).value());  // words beside them
    }
    Drawn drawn;
    drawn.run(engine);
    for (std::size_t seed = 0; seed < 3; ++seed)
      EXPECT_EQ(drawn.tokens.at(ids[2 * seed]), alone[seed]) << "steps of " << step << ", request " << seed;
    EXPECT_EQ(engine.images()->num_encoded(), 6);
  }
}

// The same ids over other pixels share no block that sees them, and an image that was read once isn't read again where
// its blocks are found.
TEST_P(SeeingEngine, SharesBlocksOfTheSameImagesAlone) {
  auto model = seeing_model(GetParam());
  const models::VisionConfig& vision = *model.config.vision;
  const auto with_images = [&](int first, int second) {
    Request request = request_of(vision, grids_of(GetParam()), 0);
    request.images = {image_of(vision, grids_of(GetParam()), first), image_of(vision, grids_of(GetParam()), second)};
    for (std::int32_t i = 0; i < 12; ++i) request.ids.push_back(20 + i);
    return request;
  };
  EngineOptions options = options_of(64, 4);
  session::Runtime runtime;
  options.enable_prefix_caching = true;
  LLMEngine warm(model, any_tokenizer(), options, runtime);
  std::vector<std::int64_t> cached;
  for (const auto& [first, second] : {std::pair{0, 1}, {0, 1}, {5, 1}, {0, 5}, {0, 1}}) {
    options.enable_prefix_caching = false;
    LLMEngine cold(model, any_tokenizer(), options, runtime);
    Drawn of_warm, of_cold;
    Request request = with_images(first, second);
    const auto id = warm.add_request(request.ids, greedy(9), request.images).value();
    of_warm.run(warm);
    const auto other = cold.add_request(request.ids, greedy(9), std::move(request.images)).value();
    of_cold.run(cold);
    EXPECT_EQ(of_warm.tokens.at(id), of_cold.tokens.at(other)) << first << " " << second;
    cached.push_back(of_warm.last.at(id).cached_tokens);
  }
  EXPECT_EQ(cached[0], 0);
  EXPECT_GT(cached[1], 0);
  EXPECT_EQ(cached[2], 0) << "the first block sees the first image";
  EXPECT_LT(cached[3], cached[1]);
  EXPECT_EQ(cached[4], cached[1]);
}

// Where blocks are few, requests are thrown out and computed again: from the features that there are.
TEST_P(SeeingEngine, IsComputedAgainWithoutTheTower) {
  auto model = seeing_model(GetParam());
  const models::VisionConfig& vision = *model.config.vision;
  const auto answers = [&](std::uint64_t memory, std::int64_t& preemptions) {
    session::Runtime runtime;
    EngineOptions options = options_of(48, 3);
    options.kv_cache_memory = memory;
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    std::vector<SequenceId> ids;
    for (int seed = 0; seed < 3; ++seed) {
      Request request = request_of(vision, grids_of(GetParam()), seed);
      ids.push_back(engine.add_request(request.ids, greedy(30), std::move(request.images)).value());
    }
    Drawn drawn;
    drawn.run(engine);
    preemptions = engine.num_preemptions();
    EXPECT_EQ(engine.images()->num_encoded(), 6);
    std::vector<std::vector<std::int32_t>> out;
    for (const auto id : ids) out.push_back(drawn.tokens.at(id));
    return out;
  };
  std::int64_t none = 0, some = 0;
  const auto roomy = answers(std::uint64_t{1} << 24, none);
  const std::uint64_t of_one = [&] {
    session::Runtime runtime;
    LLMEngine engine(model, any_tokenizer(), options_of(48, 1), runtime);
    return engine.cache().bytes();
  }();
  EXPECT_EQ(none, 0);
  std::int64_t all = 0;
  for (std::uint64_t quarters = 4; quarters < 12; ++quarters) {
    EXPECT_EQ(answers(of_one / 4 * quarters + of_one / 8, some), roomy) << quarters << " quarters of a sequence";
    all += some;
  }
  EXPECT_GT(all, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, SeeingEngine,
                         testing::Values("qwen2.5-vl-images", "qwen3-vl-images", "gemma3-images", "internvl-images"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

std::string problem_of(LLMEngine& engine, const std::vector<std::int32_t>& ids,
                       std::vector<session::ImagePatches> images) {
  const auto id = engine.add_request(ids, greedy(1), std::move(images));
  return id ? "" : id.error().line();
}
void expect_words(const std::string& problem, const char* words) {
  EXPECT_NE(problem.find(words), std::string::npos) << problem;
}

TEST(SeeingEngineErrors, NameWhatDoesNotFit) {
  auto model = seeing_model("qwen2.5-vl-images");
  const models::VisionConfig& vision = *model.config.vision;
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), options_of(32, 2), runtime);
  const Request good = request_of(vision, grids_of("qwen"), 0);
  EXPECT_EQ(problem_of(engine, good.ids, good.images), "");
  expect_words(problem_of(engine, prompt_of(0, 9), good.images),
               "image 1: expected 6 image tokens (150) on end, found 0");
  auto fewer = good;
  fewer.images.pop_back();
  expect_words(problem_of(engine, fewer.ids, fewer.images), "image tokens (150) of 1 images");
  auto cut = good;
  cut.ids.erase(std::find(cut.ids.begin(), cut.ids.end(), kImage));
  expect_words(problem_of(engine, cut.ids, cut.images), "expected 6 image tokens (150) on end, found 5");
  auto tokens = good;
  tokens.images[1].tokens = 7;
  expect_words(problem_of(engine, tokens.ids, tokens.images), "image 2: expected 6 tokens by its grids, found 7");
  auto patches = good;
  patches.images[0].patches.pop_back();
  expect_words(problem_of(engine, patches.ids, patches.images),
               "expected 2304 numbers of patches by its grids, found 2303");
  Request large;
  large.images.push_back(image_of(vision, {{1, 20, 20}}, 1));
  EngineOptions wide = options_of(32, 1);
  wide.max_model_len = 200;
  LLMEngine longer(model, any_tokenizer(), wide, runtime);
  large.ids.assign(100, kImage);
  large.ids.push_back(9);
  expect_words(problem_of(longer, large.ids, large.images), "image 1: expected at most 256 patches, found 400");
}

TEST(SeeingEngineErrors, RefuseImagesWhereNothingSees) {
  session::Runtime runtime;
  auto model = seeing_model("qwen2.5-vl-images");
  const Request request = request_of(*model.config.vision, grids_of("qwen"), 0);
  auto words = tiny_model();
  LLMEngine blind(words, any_tokenizer(), small_engine(), runtime);
  EXPECT_EQ(blind.images(), nullptr);
  expect_words(problem_of(blind, request.ids, request.images), "LlamaForCausalLM sees no images");
  auto unloaded = seeing_model("qwen2.5-vl-images", false);
  LLMEngine without(unloaded, any_tokenizer(), small_engine(), runtime);
  expect_words(problem_of(without, request.ids, request.images), "was loaded without its vision tower");
}

// Gemma 3: what sees itself both ways must fit into one step.
TEST(SeeingEngineErrors, RefuseSpansLongerThanAStep) {
  auto model = seeing_model("gemma3-images");
  session::Runtime runtime;
  LLMEngine engine(model, any_tokenizer(), options_of(15, 1), runtime);
  const Request request = request_of(*model.config.vision, grids_of("gemma"), 0);
  expect_words(problem_of(engine, request.ids, request.images), "images of at most 15 tokens on end");
}

// Steps of words alone are computed by the programs that there were before anything saw, and give the same.
TEST(SeeingEngine, StepsOfWordsCostWhatTheyDid) {
  for (const char* name : {"qwen2.5-vl-images", "qwen3-vl-images", "gemma3-images"}) {
    std::vector<std::vector<float>> logits;
    for (const bool vision : {false, true}) {
      auto model = seeing_model(name, vision);
      session::Runtime runtime;
      CacheOptions cache_options;
      cache_options.max_model_len = 64;
      CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
      RunnerOptions options;
      options.max_num_batched_tokens = 32;
      options.images = vision;
      options.return_logits = true;
      ModelRunner runner(model, cache, options, runtime);
      Sequence sequence;
      sequence.tokens = prompt_of(3, 20);
      sequence.prompt_length = 20;
      sequence.seat = 1;
      for (std::int32_t block = 1; block <= cache.num_blocks(); ++block) sequence.blocks.push_back(block);
      (void)runner.run({{&sequence, 0, 20, true}});
      logits.emplace_back(runner.logits().begin(), runner.logits().end());
      const auto buckets = runner.buckets();
      EXPECT_EQ(std::count_if(buckets.begin(), buckets.end(), [](const auto& bucket) { return bucket.images; }),
                vision ? 1 : 0)
          << "but for the largest, which is built ahead";
    }
    EXPECT_EQ(logits[0], logits[1]);
  }
}

// What a step gives to each sequence, until the one with images has its prompt: {id, tokens}.
std::vector<std::vector<std::pair<SequenceId, std::int64_t>>> steps_of(const models::LoadedModel& gemma,
                                                                       std::int64_t budget, bool prepares) {
  BlockPool cache(64, 16);
  Scheduler scheduler({4, budget}, cache);
  const auto add = [&](SequenceId id, std::vector<std::int32_t> ids, std::vector<session::ImagePatches> images) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = id;
    sequence->images = RequestImages::place(std::move(images), ids, *gemma.config.vision).value();
    sequence->tokens = std::move(ids);
    sequence->prompt_length = sequence->length();
    scheduler.add(std::move(sequence));
  };
  Request request = request_of(*gemma.config.vision, grids_of("gemma"), 0);  // words 5, image 16, words 4, 16, 4
  add(0, prompt_of(1, 3), {});
  add(1, request.ids, request.images);
  std::vector<std::vector<std::pair<SequenceId, std::int64_t>>> steps;
  for (bool done = false; !done && steps.size() < 20;) {
    const Batch& batch = scheduler.schedule();
    steps.emplace_back();
    if (prepares) (void)scheduler.prepare();
    for (const auto& part : batch) {
      steps.back().emplace_back(part.sequence->id, part.count);
      part.sequence->computed = part.begin + part.count;
      if (!part.samples) continue;
      part.sequence->tokens.push_back(2);
      done = done || part.sequence->id == 1;
      if (part.sequence->id == 0 && steps.size() == 4) part.sequence->finish = FinishReason::length;
    }
    (void)scheduler.collect_finished();
  }
  return steps;
}

// Broken if a step ended within an image, or if a sequence that sits a step out lost its turn for good.
TEST(Scheduler, ComputesASpanInOneStep) {
  const auto gemma = seeing_model("gemma3-images");
  using Steps = std::vector<std::vector<std::pair<SequenceId, std::int64_t>>>;
  for (const bool prepares : {false, true}) {
    EXPECT_EQ(steps_of(gemma, 30, prepares), (Steps{{{0, 3}, {1, 25}}, {{0, 1}, {1, 20}}}));
    // Beside another's token there's no room for an image, until that one is done.
    EXPECT_EQ(steps_of(gemma, 16, prepares),
              (Steps{{{0, 3}, {1, 5}}, {{0, 1}}, {{0, 1}}, {{0, 1}}, {{1, 16}}, {{1, 4}}, {{1, 16}}, {{1, 4}}}));
  }
}

TEST(RequestImages, CountPositionsAndSpans) {
  const auto model = seeing_model("qwen2.5-vl-images");
  const Request request = request_of(*model.config.vision, grids_of("qwen"), 0);  // 2 x 3 features, three positions
  const auto placed = RequestImages::place(request.images, request.ids, *model.config.vision).value();
  EXPECT_EQ(placed.position(4), 4);
  EXPECT_EQ(placed.all()[0].position, 5);
  EXPECT_EQ(placed.position(11), 8) << "behind an image of six tokens and three positions";
  EXPECT_EQ(placed.all()[1].position, 12);
  EXPECT_EQ(placed.position(21), 15);
  EXPECT_TRUE(placed.any_within(4, 6));
  EXPECT_FALSE(placed.any_within(11, 15));
  EXPECT_EQ(placed.whole(3, 4), 4) << "an image that sees itself one way may be cut";

  const auto gemma = seeing_model("gemma3-images");
  Request both = request_of(*gemma.config.vision, grids_of("gemma"), 0);
  const auto spans = RequestImages::place(both.images, both.ids, *gemma.config.vision).value();
  EXPECT_EQ(spans.whole(0, 5), 5);
  EXPECT_EQ(spans.whole(0, 20), 5);
  EXPECT_EQ(spans.whole(0, 21), 21);
  EXPECT_EQ(spans.whole(5, 15), 0);
  EXPECT_EQ(spans.position(30), 30);
  // One behind the other they see each other: transformers joins what has no word in between.
  std::vector<std::int32_t> ids(40, kImage);
  std::fill(ids.begin() + 32, ids.end(), 7);
  const auto joined = RequestImages::place(both.images, ids, *gemma.config.vision).value();
  ASSERT_EQ(joined.spans().size(), 1U);
  EXPECT_EQ(joined.spans()[0].end, 32);
}

}  // namespace
}  // namespace tern::engine
