// Adapters of every kind that PEFT has of linear layers: logits, merging, 20 steps and the written file.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors.h"
#include "golden.h"
#include "models/dora.h"
#include "models/merge.h"
#include "session/save_model.h"
#include "tests/support/temp_dir.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using Scratch = test::TempDir;

constexpr int kSteps = 20;
constexpr double kLogits = 1e-4;         // absolute
constexpr double kTwentiethStep = 1e-3;  // relative
// Of what training changed. Adam divides by the root of a gradient's square: where it is near zero, rounding decides.
constexpr double kTrained = 1e-2;

struct Variant {
  const char* name;
  const char* model;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class PeftVariant : public testing::TestWithParam<Variant> {
 protected:
  [[nodiscard]] static fs::path folder() { return fixture("peft") / GetParam().name; }
  [[nodiscard]] static fs::path model_folder() { return fixture(GetParam().model); }
  [[nodiscard]] std::vector<std::int32_t> tokens(const models::LoadedModel& model) const {
    auto tokens = base_.ints("tokens");
    tokens.resize(numbers_.floats("logits").size() / static_cast<std::size_t>(model.config.vocab_size));
    return tokens;
  }

  Numbers numbers_{folder() / "golden.safetensors"};
  Numbers base_{model_folder() / "golden.safetensors"};
};

TEST_P(PeftVariant, Logits) {
  auto model = load(model_folder());
  const auto adapter = models::load_adapter(model, "lora", folder() / "adapter").value();
  const auto ids = tokens(model);
  const auto got = prefill_logits(model, ids, all_rows(ids.size()), TERN_F32, adapter.layers);
  EXPECT_LE(max_difference(got, numbers_.floats("logits")), kLogits);
  EXPECT_LE(max_difference(paged_logits(model, ids, {1}, TERN_F32, adapter.layers), got), kLogits);
  EXPECT_GT(max_difference(prefill_logits(model, ids, all_rows(ids.size()), TERN_F32), got), 0.01) << "no adapter";
}

// Merged is the adapter, and what PEFT merges.
TEST_P(PeftVariant, Merged) {
  const Scratch scratch;
  const auto target = scratch.path() / "merged";
  models::MergeOptions options;
  options.adapters = {folder() / "adapter"};
  options.dtype = TERN_F32;
  session::merge_adapters(model_folder(), options, TERN_F32, target, false).value();
  auto model = load(target);
  const auto ids = tokens(model);
  const auto got = prefill_logits(model, ids, all_rows(ids.size()), TERN_F32);
  EXPECT_LE(max_difference(got, numbers_.floats("merged")), kLogits);
}

// What PEFT wrote, loaded and written again, has PEFT's names and bits, and chooses the same modules.
TEST_P(PeftVariant, KeepsItsNamesAndBits) {
  auto model = load(model_folder());
  const auto adapter = models::load_adapter(model, "lora", folder() / "adapter").value();
  const Scratch scratch;
  models::save_adapter(*model.store, adapter, scratch.path());
  const Numbers ours(scratch.path() / "adapter_model.safetensors");
  const Numbers theirs(folder() / "adapter" / "adapter_model.safetensors");
  const auto want = theirs.with_prefix("");
  EXPECT_EQ(ours.with_prefix(""), want);
  for (const auto& [name, values] : want) EXPECT_EQ(ours.shape(name), theirs.shape(name)) << name;
  auto read = models::read_adapter_config(scratch.path()).value();
  auto wanted = models::read_adapter_config(folder() / "adapter").value();
  EXPECT_EQ(models::adapter_config_json(read), models::adapter_config_json(wanted));
  for (const auto& module : models::linear_modules(model)) {
    EXPECT_EQ(read.selects(module.name), adapter.layers.contains(module.name)) << module.name;
  }
}

// The whole Trainer, whose losses and norms by step must be PyTorch's, and the file that it writes PEFT's.
TEST_P(PeftVariant, TwentySteps) {
  auto model = load(model_folder());
  const auto adapter = models::load_adapter(model, "lora", folder() / "adapter").value();
  const auto saver = train::adapter_saver(model, adapter);
  const Scratch scratch;
  train::TrainerOptions options;  // AdamW, clipping and schedule as they are by default
  options.output_dir = scratch.path();
  options.max_steps = kSteps;
  options.logging_steps = 1;
  options.save_strategy = train::When::steps;
  options.save_steps = kSteps;
  options.learning_rate = 1e-3;
  options.graph.adapters = adapter.layers;
  options.graph.trainable = models::trained_tensors(adapter);
  std::vector<double> losses;
  std::vector<double> norms;
  train::TrainerHooks hooks;
  hooks.on_log = [&](const train::LogRow& row) {
    losses.push_back(row.loss.value());
    norms.push_back(row.grad_norm);
  };
  session::Runtime runtime;
  const auto dataset = samples(base_);
  data::BatchOptions batches;
  batches.per_device_batch_size = 2;
  batches.accumulation = 2;
  batches.shuffle = false;
  auto steps = data::SetSteps::create(dataset, batches).value();
  train::Trainer trainer(model, *saver, steps, {}, std::move(options), runtime, std::move(hooks));
  const auto result = trainer.run();
  const auto want_losses = numbers_.floats("losses");
  const auto want_norms = numbers_.floats("grad_norms");
  ASSERT_EQ(losses.size(), kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(losses[i], want_losses[i], kTwentiethStep * want_losses[i]) << "loss of step " << i + 1;
    EXPECT_NEAR(norms[i], want_norms[i], kTwentiethStep * want_norms[i]) << "gradient norm of step " << i + 1;
  }
  EXPECT_LT(losses.back(), losses[1]);
  const auto written = Numbers(fs::path(result.last_checkpoint) / "adapter_model.safetensors").with_prefix("");
  const auto before = Numbers(folder() / "adapter" / "adapter_model.safetensors").with_prefix("");
  const auto want = numbers_.with_prefix("trained/");
  ASSERT_EQ(written.size(), want.size());
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(written.contains(name)) << name;
    const double trained = relative_error(values, before.at(name));
    EXPECT_GT(trained, kTwentiethStep) << name << " was not trained";
    EXPECT_LE(relative_error(written.at(name), values), kTrained * trained) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Peft, PeftVariant,
                         testing::Values(Variant{"dora", "llama-tied"}, Variant{"dora-biased", "llama-untied"},
                                         Variant{"dora-rows", "qwen3-next-untied"}, Variant{"patterns", "llama-tied"},
                                         Variant{"layers", "qwen3-tied"}, Variant{"regex", "qwen3-tied"}),
                         [](const auto& tested) { return name_of_test(tested.param.name); });

}  // namespace
}  // namespace tern::golden
