#include "train/lisa.h"

#include <set>

#include "base/strings.h"
#include "models/registry.h"
#include "tiny_run.h"
#include "train/training_graph.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

TEST(LayerSampler, DrawsAsOftenAsMsSwiftsCallback) {
  const LayerSampler sampler({2, 5}, 8, 42, {});
  for (const std::int64_t done : {0, 1, 5, 10, 15}) EXPECT_TRUE(sampler.draws_at(done)) << done;
  for (const std::int64_t done : {2, 4, 6, 9, 11}) EXPECT_FALSE(sampler.draws_at(done)) << done;
  for (std::int64_t done = 2; done < 60; ++done) {
    if (sampler.draws_at(done)) continue;
    EXPECT_EQ(sampler.layers_at(done), sampler.layers_at(done - 1)) << done;
  }
}

// Each layer as often as any other, no layer twice at once, other layers with another seed.
TEST(LayerSampler, DrawsEvenly) {
  constexpr int kDraws = 4000;
  const LayerSampler sampler({3, 1}, 12, 42, {});
  const LayerSampler other({3, 1}, 12, 43, {});
  std::vector<int> times(12);
  int same = 0;
  for (int step = 0; step < kDraws; ++step) {
    const auto layers = sampler.layers_at(step);
    ASSERT_EQ(std::set<std::int64_t>(layers.begin(), layers.end()).size(), 3U);
    for (const std::int64_t layer : layers) ++times.at(static_cast<std::size_t>(layer));
    same += layers == other.layers_at(step) ? 1 : 0;
  }
  for (const int count : times) EXPECT_NEAR(count, kDraws * 3 / 12, 150);  // five deviations
  EXPECT_LT(same, 100);                                                    // of 220 choices
}

TEST(LayerSampler, TrainsWhatLiesOutsideOfLayersAlways) {
  const LayerSampler sampler(
      {1, 1}, 2, 42, {"model.embed_tokens.weight", "model.layers.0.a", "model.layers.1.a", "model.norm.weight"});
  EXPECT_EQ(sampler.of_layers({1}),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.layers.1.a", "model.norm.weight"}));
  EXPECT_EQ(sampler.missed_of({3, 4}),
            (std::map<std::string, std::int64_t>{{"model.layers.0.a", 3}, {"model.layers.1.a", 4}}));
}

TEST(LayerSampler, HasNoMoreLayersThanTheModel) {
  const auto made = catching([] { return LayerSampler({3, 1}, 2, 42, {}); });
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().line().find("the model has 2 layers"), std::string::npos) << made.error().line();
}

// All of the tiny model's weights, a layer at a time.
struct LisaRun : TinyRun {
  explicit LisaRun(const fs::path& output_dir, const fs::path& resume = {}, OptimizerKind kind = OptimizerKind::adamw)
      : TinyRun(output_dir) {
    fs::create_directories(output);
    options.graph.adapters.clear();
    options.graph.dropout = false;
    options.graph.trainable.clear();
    for (const auto& spec : models::parameters_of(model.config)) options.graph.trainable.push_back(spec.name);
    if (!resume.empty()) load_full_checkpoint(model, options.graph.trainable, resume);
    options.resume_from = resume;
    options.optimizer.kind = kind;
    options.lisa = LisaOptions{1, 3};
    options.max_steps = 12;
  }
  TrainResult train() {
    const auto saver = full_model_saver(model, golden("llama-tied"), 1'000'000'000);
    return TinyRun::train(*saver);
  }
  [[nodiscard]] std::map<std::string, std::vector<float>> weights() const {
    std::map<std::string, std::vector<float>> out;
    for (const auto& name : options.graph.trainable) out[name] = download(*model.store, name);
    return out;
  }
};

TEST(Lisa, ResumesToTheBitFromEachCheckpoint) {
  for (const auto kind : {OptimizerKind::adamw, OptimizerKind::adafactor, OptimizerKind::muon}) {
    const Scratch scratch;
    LisaRun whole(scratch.path() / "whole", {}, kind);
    (void)whole.train();
    ASSERT_EQ(whole.losses.size(), 12U);
    for (const int done : {2, 4, 6, 10}) {
      LisaRun rest(scratch.path() / cat("from-", done), whole.output / cat("checkpoint-", done), kind);
      (void)rest.train();
      EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + done, whole.losses.end())) << done;
      EXPECT_EQ(rest.weights(), whole.weights()) << done;
    }
  }
}

// What doesn't train has no gradients, and the plan has room for any layer.
TEST(Lisa, KeepsGradientsOfWhatTrainsAlone) {
  const Scratch scratch;
  LisaRun run(scratch.path());
  run.options.save_strategy = When::no;
  std::set<std::vector<std::string>> seen;
  (void)run.train();
  const LayerSampler sampler(*run.options.lisa, 2, run.options.seed, run.options.graph.trainable);
  const auto active = sampler.parameters_at(11);
  for (const auto& name : run.options.graph.trainable) {
    const bool trains = std::find(active.begin(), active.end(), name) != active.end();
    EXPECT_EQ(run.model.store->find(gradient_name(name)) != nullptr, trains) << name;
  }
  EXPECT_LT(active.size(), run.options.graph.trainable.size());
}

TEST(Lisa, IsNoFlagThatARunMayChange) {
  const Scratch scratch;
  LisaRun whole(scratch.path() / "whole");
  (void)whole.train();
  LisaRun rest(scratch.path() / "rest", whole.output / "checkpoint-6");
  rest.options.lisa->step_interval = 4;
  const auto trained = catching([&] { return rest.train(); });
  ASSERT_FALSE(trained.ok());
  EXPECT_NE(trained.error().line().find("LISA"), std::string::npos) << trained.error().line();
}

}  // namespace
}  // namespace tern::train
