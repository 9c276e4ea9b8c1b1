// Twenty steps of an adapter on SmolLM2 beside PyTorch's: in float32 the losses are equal, and in bfloat16 they're no
// further from float32's than PyTorch's are from its own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "golden.h"
#include "session/model_names.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

struct Trained {
  std::vector<float> losses;   // of each step
  std::vector<float> before;   // the adapter's tensors, end to end
  std::vector<float> adapter;  // ... after the last step
};

class Bf16Training : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto path = session::resolve_model("smollm2-135m"); !path.ok()) GTEST_SKIP() << path.error().line();
  }

  // One sample a step, in order.
  [[nodiscard]] Trained train(tern_dtype dtype) const {
    models::LoadedModel model = load(session::resolve_model("smollm2-135m").value(), false, dtype);
    const models::LoadedAdapter adapter = models::load_adapter(model, "lora", folder_).value();
    train::TrainerOptions options;
    options.output_dir = scratch_.path() / (dtype == TERN_F32 ? "float32" : "bfloat16");
    std::filesystem::create_directory(options.output_dir);
    options.max_steps = static_cast<std::int64_t>(numbers_.ints("lengths").size());
    options.save_strategy = train::When::no;
    options.learning_rate = 2e-3;
    options.schedule = train::ScheduleKind::constant;
    options.graph.adapters = adapter.layers;
    options.graph.numerics.compute = dtype;
    options.graph.trainable = models::trained_tensors(adapter);
    const auto weights = [&] {
      std::vector<float> all;
      for (const auto& name : options.graph.trainable) {
        const auto one = download(*model.store, name);
        all.insert(all.end(), one.begin(), one.end());
      }
      return all;
    };
    Trained out;
    out.before = weights();
    train::TrainerHooks hooks;
    hooks.on_step = [&](const train::StepProgress& at) { out.losses.push_back(static_cast<float>(at.loss)); };
    data::BatchOptions batches;
    batches.shuffle = false;
    const data::EncodedDataset dataset = samples(numbers_);
    auto steps = data::SetSteps::create(dataset, batches).value();
    const auto saver = train::adapter_saver(model, adapter);
    session::Runtime runtime;
    const data::EncodedDataset none;
    train::Trainer(model, *saver, steps, none, options, runtime, hooks).run();
    out.adapter = weights();
    return out;
  }

  // The Euclidean distance of two adapters, relative to what training in float32 changed.
  [[nodiscard]] static double drift(const Trained& narrow, const Trained& exact) {
    double apart = 0;
    double changed = 0;
    for (std::size_t i = 0; i < exact.adapter.size(); ++i) {
      apart += std::pow(static_cast<double>(narrow.adapter.at(i)) - exact.adapter[i], 2);
      changed += std::pow(static_cast<double>(exact.adapter[i]) - exact.before[i], 2);
    }
    return std::sqrt(apart / changed);
  }
  [[nodiscard]] static double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::fabs(static_cast<double>(a[i]) - b.at(i));
    return sum / static_cast<double>(a.size());
  }

  std::filesystem::path folder_ = fixture("bf16-training");
  Numbers numbers_{folder_ / "numbers.safetensors"};
  test::TempDir scratch_;
};

TEST_F(Bf16Training, IsNoFurtherFromFloat32ThanPyTorchs) {
  const Trained exact = train(TERN_F32);
  const auto theirs = numbers_.floats("float32/loss");
  ASSERT_EQ(exact.losses.size(), theirs.size());
  // Losses of 2 to 3: rounding alone is some 1e-6, and Adam's steps of small gradients double it now and then.
  EXPECT_LE(max_difference(exact.losses, theirs), 2e-4);

  const Trained narrow = train(TERN_BF16);
  const double ours = mean_difference(narrow.losses, exact.losses);
  const double pytorchs = mean_difference(numbers_.floats("bfloat16/loss"), theirs);
  const double their_drift = numbers_.floats("bfloat16/drift").at(0);
  std::printf("bf16 from fp32: losses %.2e (PyTorch %.2e), adapter %.3f (PyTorch %.3f)\n", ours, pytorchs,
              drift(narrow, exact), their_drift);
  EXPECT_GT(ours, 0) << "nothing was computed in bfloat16";
  EXPECT_LE(ours, pytorchs);
  EXPECT_LE(drift(narrow, exact), their_drift);
}

}  // namespace
}  // namespace tern::golden
