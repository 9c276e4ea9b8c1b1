// What ms-swift trains by code of its own, beside 20 steps of that code (script/golden.d/swift_tuners.py).
#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "golden.h"
#include "models/initial_pairs.h"
#include "models/registry.h"
#include "tests/support/temp_dir.h"
#include "train/lora_ga.h"
#include "train/lora_init.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using Scratch = test::TempDir;

constexpr std::size_t kSteps = 20;
constexpr double kFirstStep = 1e-5;      // relative, of losses and norms
constexpr double kTwentiethStep = 1e-3;  // relative
// Of what AdamW has moved by up to 20 steps of 1e-3: a gradient near zero has the sign of its rounding.
constexpr double kTrained = 2e-3;

fs::path model_of(const fs::path& numbers) {
  return fixture(checkpoint::Safetensors::open(numbers).value().metadata().at("model"));
}

data::BatchOptions batches() {
  data::BatchOptions out;
  out.per_device_batch_size = 2;
  out.accumulation = 2;
  out.shuffle = false;
  return out;
}

void expect_steps(const StepLog& log, const Numbers& numbers) {
  const auto want_losses = numbers.floats("losses");
  const auto want_norms = numbers.floats("grad_norms");
  ASSERT_EQ(log.losses.size(), kSteps);
  ASSERT_EQ(want_losses.size(), kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    const double bound = i == 0 ? kFirstStep : kTwentiethStep;
    EXPECT_NEAR(log.losses[i], want_losses[i], bound * want_losses[i]) << "loss of step " << i + 1;
    EXPECT_NEAR(log.grad_norms[i], want_norms[i], bound * want_norms[i]) << "gradient norm of step " << i + 1;
  }
}

// Every so many numbers, as the fixture has them.
std::vector<float> some(const std::vector<float>& all) {
  const std::size_t stride = (all.size() + 255) / 256;
  std::vector<float> out;
  for (std::size_t i = 0; i < all.size(); i += stride) out.push_back(all[i]);
  return out;
}

TEST(Lisa, TrainsTwentyStepsAsMsSwiftsCallbackDoes) {
  const fs::path file = fixture("swift/lisa.safetensors");
  const Numbers numbers(file);
  const Scratch scratch;
  auto model = load(model_of(file), true);
  train::TrainerOptions options;
  options.output_dir = scratch.path();
  options.max_steps = kSteps;
  options.save_strategy = train::When::no;
  options.lisa = train::LisaOptions{2, 6};
  for (const auto& spec : models::parameters_of(model.config)) options.graph.trainable.push_back(spec.name);
  const train::LayerSampler sampler(*options.lisa, model.config.num_hidden_layers, options.seed, {});
  const auto layers = numbers.ints("layers");
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(sampler.layers_at(static_cast<std::int64_t>(step)),
              (std::vector<std::int64_t>{layers[2 * step], layers[2 * step + 1]}))
        << step;
  }
  const auto saver = train::full_model_saver(model, model_of(file), 1'000'000'000);
  const auto log = train_steps(model, *saver, samples(Numbers(model_of(file) / "golden.safetensors")), batches(),
                               std::move(options));
  expect_steps(log, numbers);
  const auto trained = numbers.with_prefix("trained/");
  EXPECT_GT(trained.size(), 40U);
  for (const auto& [name, values] : trained) {
    EXPECT_LE(relative_error(some(download(*model.store, name)), values), kTrained) << name;
  }
  // The layer that was never drawn is as it was.
  const auto before = load(model_of(file), true);
  for (const auto& [name, values] : trained) {
    const bool same = download(*model.store, name) == download(*before.store, name);
    EXPECT_EQ(same, name.starts_with("model.layers.1.")) << name;
  }
}

struct LoraGaCase {
  const char* name;
  models::GradientStart start;
};

class LoraGa : public testing::TestWithParam<LoraGaCase> {
 protected:
  LoraGa()
      : file_(fixture(cat("swift/lora-ga-", GetParam().name, ".safetensors"))),
        numbers_(file_),
        model_(load(model_of(file_))),
        dataset_(samples(Numbers(model_of(file_) / "golden.safetensors"))) {
    models::AdapterConfig config;
    config.rank = 8;
    config.alpha = 32;
    config.began_as = models::kLoraGa;
    config.target_modules = {"all-linear"};
    adapter_ = models::create_adapter(model_, "lora", config, models::linear_modules(model_.config));
    train::init_adapter(*model_.store, adapter_, 42);
  }
  void begin(train::LoraGaOptions options) {
    options.start = GetParam().start;
    session::Runtime runtime;
    train::TrainingGraphOptions graph;
    graph.numerics.needs = TERN_NEED_DETERMINISTIC;
    train::init_by_gradients(model_, adapter_, train::gradient_samples(dataset_, batches(), options), options, graph,
                             dataset_.longest(), 42, runtime);
  }
  // By PEFT's names.
  [[nodiscard]] std::map<std::string, std::vector<float>> tensors() const {
    std::map<std::string, std::vector<float>> out;
    for (const auto& [module, layer] : adapter_.layers) {
      for (const auto& tensor : models::tensors_of(module, layer))
        out[tensor.name] = download(*model_.store, tensor.stored);
    }
    return out;
  }
  void expect_tensors(const std::string& prefix, double tolerance) const {
    const auto got = tensors();
    const auto want = numbers_.with_prefix(prefix);
    EXPECT_EQ(got.size(), want.size());
    for (const auto& [name, values] : want) {
      ASSERT_TRUE(got.contains(name)) << name;
      EXPECT_LE(relative_error(some(got.at(name)), values), tolerance) << prefix << name;
    }
  }
  [[nodiscard]] std::vector<float> last_logits(const models::LoadedAdapter& adapter) {
    auto tokens = Numbers(model_of(file_) / "golden.safetensors").ints("tokens");
    tokens.resize(64);
    const auto rows = all_rows(tokens.size());
    return prefill_logits(model_, tokens, {rows.end() - 8, rows.end()}, TERN_F32, adapter.layers);
  }

  fs::path file_;
  Numbers numbers_;
  models::LoadedModel model_;
  data::EncodedDataset dataset_;
  models::LoadedAdapter adapter_;
};

TEST_P(LoraGa, BeginsAndTrainsAsMsSwiftsPeerDoes) {
  begin({});
  // A singular vector turns by the rounding of the gradient over the distance to the next singular value.
  expect_tensors("begun/", 2e-3);
  const Scratch scratch;
  train::TrainerOptions options;
  options.output_dir = scratch.path();
  options.max_steps = kSteps;
  options.save_strategy = train::When::no;
  options.graph.adapters = adapter_.layers;
  options.graph.trainable = models::trained_tensors(adapter_);
  const auto saver = train::adapter_saver(model_, adapter_);
  const auto log = train_steps(model_, *saver, dataset_, batches(), std::move(options));
  expect_steps(log, numbers_);
  expect_tensors("trained/", 5e-3);
  const auto trained = last_logits(adapter_);
  EXPECT_LE(max_difference(trained, numbers_.floats("logits")), 2e-2);

  // Written, it's a plain adapter of twice the rank over the weights as they are; resumed, it comes apart again.
  saver->save(scratch.path());
  auto plain = models::load_adapter(model_, "plain", scratch.path()).value();
  EXPECT_EQ(plain.config.rank, 16);
  EXPECT_LE(max_difference(last_logits(plain), trained), 1e-3);
  auto resumed = models::load_adapter(model_, "resumed", scratch.path(), true).value();
  EXPECT_EQ(resumed.config.began_as, models::kLoraGa);
  EXPECT_EQ(last_logits(resumed), trained);
}

// How many gradients are kept at a time is nobody's business but the memory's.
TEST_P(LoraGa, IsTheSameHoweverManyRunsItTakes) {
  begin({});
  const auto whole = tensors();
  train::LoraGaOptions options;
  options.gradient_bytes = 1;
  begin(options);
  EXPECT_EQ(tensors(), whole);
}

INSTANTIATE_TEST_SUITE_P(
    Peers, LoraGa,
    testing::Values(LoraGaCase{"ArB2r-stable", {models::GradientDirection::ArB2r, models::GradientScale::stable, 16}},
                    LoraGaCase{"ArBr-gd", {models::GradientDirection::ArBr, models::GradientScale::gd, 16}},
                    LoraGaCase{"A2rBr-weightS", {models::GradientDirection::A2rBr, models::GradientScale::weight, 16}},
                    LoraGaCase{"ArB2r-unit", {models::GradientDirection::ArB2r, models::GradientScale::unit, 16}}),
    [](const auto& tested) { return name_of_test(tested.param.name); });

TEST(LoraGaLimits, AreWhatThereIs) {
  auto model = load(fixture("olmo2-tied"));
  const auto dataset = samples(Numbers(fixture("olmo2-tied") / "golden.safetensors"));
  train::LoraGaOptions options;
  options.iters = 5;
  const auto few = catching([&] { return train::gradient_samples(dataset, batches(), options); });
  ASSERT_FALSE(few.ok());
  EXPECT_NE(few.error().line().find("looks at 10 samples, and there are 8"), std::string::npos) << few.error().line();
  options = {};
  options.max_length = 3;
  const auto cut = train::gradient_samples(dataset, batches(), options);
  EXPECT_EQ(cut.size(), 4U);
  EXPECT_EQ(cut.longest(), 3U);
  models::AdapterConfig config;
  config.rank = 9;  // of k_proj [16, 32]
  config.began_as = models::kLoraGa;
  const auto adapter = models::create_adapter(model, "lora", config, models::linear_modules(model.config));
  session::Runtime runtime;
  const auto begun = catching([&] {
    train::init_by_gradients(model, adapter, cut, options, {}, 3, 42, runtime);
    return Unit{};
  });
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().line().find("needs a rank of at most 8"), std::string::npos) << begun.error().line();
}

}  // namespace
}  // namespace tern::golden
