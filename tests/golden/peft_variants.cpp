// Adapters of every kind that PEFT has of linear layers: logits, merging, 20 steps and the written file.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors.h"
#include "golden.h"
#include "models/dora.h"
#include "models/merge.h"
#include "session/save_model.h"
#include "tests/support/temp_dir.h"
#include "train/lora_init.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using Scratch = test::TempDir;

constexpr int kSteps = 20;
constexpr double kLogits = 1e-4;  // absolute
// The same of what PEFT took out of the weights: its fp32 singular vectors are off by up to 2e-5 of that part where the
// gap between two values is 0.4%, which is most of the weight.
constexpr double kLogitsOfDecomposed = 1e-3;
constexpr double kTwentiethStep = 1e-3;  // relative
// Of what training changed. Adam divides by the root of a gradient's square: where it is near zero, rounding decides.
constexpr double kTrained = 1e-2;
// Relative: PEFT decomposes in fp32, whose singular vectors are off by the rounding over the gap between their values.
constexpr double kInitial = 1e-4;

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

  [[nodiscard]] static double logits_bound() {
    const bool decomposed = !models::read_adapter_config(folder() / "adapter").value().began_as.empty();
    return decomposed ? kLogitsOfDecomposed : kLogits;
  }
  // What is written of an adapter that began as a part of the weights is one of twice the rank over the weights as they
  // are, and a run that resumes has again what it trained.
  void expect_plain(models::LoadedModel& model, const fs::path& written) {
    const auto plain = models::load_adapter(model, "plain", written).value();
    const auto resumed = models::load_adapter(model, "resumed", written, true).value();
    EXPECT_EQ(plain.config.rank, 2 * resumed.config.rank);
    EXPECT_EQ(plain.config.began_as, "");
    EXPECT_NE(resumed.config.began_as, "");
    const auto ids = tokens(model);
    for (const auto& adapter : {plain, resumed}) {
      const auto got = prefill_logits(model, ids, all_rows(ids.size()), TERN_F32, adapter.layers);
      EXPECT_LE(max_difference(got, numbers_.floats("logits")), logits_bound());
    }
    const Scratch again;
    models::save_adapter(*model.store, resumed, again.path());
    EXPECT_EQ(Numbers(again.path() / "adapter_model.safetensors").with_prefix(""),
              Numbers(written / "adapter_model.safetensors").with_prefix(""));
    EXPECT_EQ(models::adapter_config_json(models::read_adapter_config(again.path()).value()),
              models::adapter_config_json(models::read_adapter_config(written).value()));
  }

  Numbers numbers_{folder() / "golden.safetensors"};
  Numbers base_{model_folder() / "golden.safetensors"};
};

TEST_P(PeftVariant, Logits) {
  auto model = load(model_folder());
  const auto adapter = models::load_adapter(model, "lora", folder() / "adapter").value();
  const auto ids = tokens(model);
  const auto got = prefill_logits(model, ids, all_rows(ids.size()), TERN_F32, adapter.layers);
  EXPECT_LE(max_difference(got, numbers_.floats("logits")), logits_bound());
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
  EXPECT_LE(max_difference(got, numbers_.floats("merged")), logits_bound());
}

// A written pair, and what it began as where that stands behind it: of A below, of B beside it with the other sign.
std::vector<float> half(const std::vector<float>& both, const std::string& name, std::int64_t rank, bool second) {
  std::vector<float> out;
  const std::size_t size = both.size() / 2;
  const bool is_b = name.find(".lora_B.") != std::string::npos;
  for (std::size_t i = 0; i < both.size(); ++i) {
    const bool is_second = is_b ? i % static_cast<std::size_t>(2 * rank) >= static_cast<std::size_t>(rank) : i >= size;
    if (is_second == second) out.push_back(is_b && second ? -both[i] : both[i]);
  }
  return out;
}

bool is_pair(const std::string& name) { return name.ends_with(".weight"); }

// What PEFT wrote, loaded and written again, has PEFT's names and bits, and chooses the same modules.
TEST_P(PeftVariant, KeepsItsNamesAndBits) {
  auto model = load(model_folder());
  const auto adapter = models::load_adapter(model, "lora", folder() / "adapter").value();
  const Scratch scratch;
  models::save_adapter(*model.store, adapter, scratch.path());
  const Numbers ours(scratch.path() / "adapter_model.safetensors");
  const Numbers theirs(folder() / "adapter" / "adapter_model.safetensors");
  const auto want = theirs.with_prefix("");
  const bool is_doubled = !adapter.config.began_as.empty();
  const auto written = ours.with_prefix("");
  ASSERT_EQ(written.size(), want.size());
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(written.contains(name)) << name;
    const auto& got = written.at(name);
    EXPECT_EQ(is_doubled && is_pair(name) ? half(got, name, adapter.config.rank, false) : got, values) << name;
  }
  if (is_doubled) return expect_plain(model, scratch.path());
  for (const auto& [name, values] : want) EXPECT_EQ(ours.shape(name), theirs.shape(name)) << name;
  auto read = models::read_adapter_config(scratch.path()).value();
  auto wanted = models::read_adapter_config(folder() / "adapter").value();
  EXPECT_EQ(models::adapter_config_json(read), models::adapter_config_json(wanted));
  for (const auto& module : models::linear_modules(model.config)) {
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
  options.save_strategy = train::When::steps;
  options.save_steps = kSteps;
  options.graph.adapters = adapter.layers;
  options.graph.trainable = models::trained_tensors(adapter);
  data::BatchOptions batches;
  batches.per_device_batch_size = 2;
  batches.accumulation = 2;
  batches.shuffle = false;
  const auto [losses, norms, result] = train_steps(model, *saver, samples(base_), batches, std::move(options));
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
    const bool is_doubled = !adapter.config.began_as.empty() && is_pair(name);
    const auto& all = written.at(name);
    const auto got = is_doubled ? half(all, name, adapter.config.rank, false) : all;
    EXPECT_LE(relative_error(got, values), kTrained * trained) << name;
  }
}

// Pairs that are made of the weights, each component with a sign of its own.
class MadeOfWeights : public PeftVariant {};
TEST_P(MadeOfWeights, BeginsAsPeftDoes) {
  const auto want = numbers_.with_prefix("initial/");
  auto model = load(model_folder());
  const auto theirs = models::read_adapter_config(folder() / "adapter").value();
  const auto options = train::parse_init_weights(theirs.began_as).value();
  std::vector<models::LinearModule> modules;
  for (const auto& module : models::linear_modules(model.config)) {
    if (theirs.selects(module.name)) modules.push_back(module);
  }
  const auto adapter = models::create_adapter(model, "lora", theirs, modules);
  train::init_from_weights(model, adapter, 42, options);
  models::begin_magnitudes(model, adapter.layers);
  const Scratch scratch;
  models::save_adapter(*model.store, adapter, scratch.path());
  const auto got = Numbers(scratch.path() / "adapter_model.safetensors").with_prefix("");
  const auto rank = static_cast<std::size_t>(theirs.rank);
  ASSERT_EQ(want.size(), 2 * modules.size());
  for (const auto& module : modules) {
    const std::string a = models::peft_name(module.name, "lora_A");
    const std::string b = models::peft_name(module.name, "lora_B");
    for (const bool second : {false, true}) {
      auto ours_a = half(got.at(a), a, theirs.rank, second);
      auto ours_b = half(got.at(b), b, theirs.rank, second);
      for (std::size_t r = 0; r < rank; ++r) {
        const auto in = static_cast<std::size_t>(module.in);
        const bool flips = (ours_a[r * in + r] < 0) != (want.at(a)[r * in + r] < 0);
        for (std::size_t i = 0; flips && i < in; ++i) ours_a[r * in + i] *= -1;
        for (std::size_t i = r; flips && i < ours_b.size(); i += rank) ours_b[i] *= -1;
      }
      EXPECT_LE(relative_error(ours_a, want.at(a)), kInitial) << a;
      EXPECT_LE(relative_error(ours_b, want.at(b)), kInitial) << b;
    }
  }
  // The model is as it was, magnitudes included.
  const auto ids = tokens(model);
  const auto before = prefill_logits(model, ids, all_rows(ids.size()), TERN_F32);
  EXPECT_LE(max_difference(prefill_logits(model, ids, all_rows(ids.size()), TERN_F32, adapter.layers), before),
            kLogits);
}

INSTANTIATE_TEST_SUITE_P(Peft, MadeOfWeights,
                         testing::Values(Variant{"pissa", "llama-tied"}, Variant{"olora", "llama-untied"},
                                         Variant{"pissa-dora", "qwen3-next-untied"}),
                         [](const auto& tested) { return name_of_test(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(Peft, PeftVariant,
                         testing::Values(Variant{"dora", "llama-tied"}, Variant{"dora-biased", "llama-untied"},
                                         Variant{"dora-rows", "qwen3-next-untied"}, Variant{"patterns", "llama-tied"},
                                         Variant{"layers", "qwen3-tied"}, Variant{"regex", "qwen3-tied"},
                                         Variant{"pissa", "llama-tied"}, Variant{"olora", "llama-untied"},
                                         Variant{"pissa-dora", "qwen3-next-untied"}),
                         [](const auto& tested) { return name_of_test(tested.param.name); });

}  // namespace
}  // namespace tern::golden
