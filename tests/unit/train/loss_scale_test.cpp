// Gradients in fp16: scaled so that the small ones are kept, and steps of those that overflow are left out.
#include "train/loss_scale.h"

#include "base/strings.h"
#include "tiny_run.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

TEST(LossScale, DoublesAfterTwoThousandSoundStepsAndHalvesDownToOne) {
  LossScale scale;
  for (int step = 0; step < 1999; ++step) scale.grow();
  EXPECT_EQ(scale.scale, 65536);
  scale.grow();
  EXPECT_EQ(scale.scale, 131072);
  for (int step = 0; step < 1999; ++step) scale.grow();
  EXPECT_TRUE(scale.shrink());
  EXPECT_EQ(scale.scale, 65536);
  scale.grow();
  EXPECT_EQ(scale.scale, 65536) << "the count begins again";
  for (int halved = 0; halved < 16; ++halved) EXPECT_TRUE(scale.shrink());
  EXPECT_EQ(scale.scale, 1);
  EXPECT_FALSE(scale.shrink());
  EXPECT_EQ(scale.scale, 1);
}

TEST(LossScale, GrowsToABorder) {
  LossScale scale;
  for (int step = 0; step < 100 * 2000; ++step) scale.grow();
  EXPECT_EQ(scale.scale, 0x1p32);
}

TEST(LossScale, IsForFp16Alone) {
  EXPECT_FALSE(needs_loss_scale({}));
  EXPECT_FALSE(needs_loss_scale({.compute = TERN_COMPUTE_BF16, .activations = TERN_BF16}));
  EXPECT_TRUE(needs_loss_scale({.compute = TERN_COMPUTE_F16}));
  EXPECT_TRUE(needs_loss_scale({.activations = TERN_F16}));
}

// The gradients of one step over all samples, divided by the scale; `divisor` makes them small.
std::vector<double> gradients(const nn::Numerics& numerics, double divisor, double loss_scale) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.graph.numerics = numerics;
  run.options.graph.dropout = false;
  run.options.graph.capacity = {512, 64, 512, 300};
  // B begins at zero, and with it the gradient of A.
  for (const auto& name : run.options.graph.trainable) {
    auto values = download(*run.model.store, name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.05F * static_cast<float>(i % 7) - 0.15F;
    upload(*run.model.store, name, values);
  }
  Optimizer optimizer(run.model.store, run.options.graph.trainable, {}, run.runtime);
  MicroBatchRunner runner(run.model, run.options.graph, run.runtime);
  data::MicroBatchPlan plan;
  plan.samples = {0, 1};
  MicroBatchInputs inputs;
  inputs.loss_divisor = divisor;
  inputs.loss_scale = loss_scale;
  (void)runner.run(data::gather(run.dataset, plan), inputs);
  std::vector<double> out;
  for (const auto& name : run.options.graph.trainable) {
    for (const float value : download(*run.model.store, gradient_name(name))) out.push_back(value / loss_scale);
  }
  return out;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> apart;
  for (std::size_t i = 0; i < one.size(); ++i) apart.push_back(one[i] - other[i]);
  return norm(apart) / norm(other);
}

TEST(LossScale, APowerOfTwoChangesNoBitInFp32) { EXPECT_EQ(gradients({}, 10, 1), gradients({}, 10, 1024)); }

// Without a scale most of them are below fp16's smallest number; with one that makes up for it not a bit is lost.
TEST(LossScale, KeepsGradientsThatFp16Loses) {
  const nn::Numerics half{.compute = TERN_COMPUTE_F16, .activations = TERN_F16};
  std::vector<double> exact = gradients(half, 1, 1);
  for (double& value : exact) value *= 0x1p-20;
  EXPECT_EQ(gradients(half, 0x1p20, 0x1p20), exact);
  EXPECT_GT(distance(gradients(half, 0x1p20, 1), exact), 0.1);
}

struct HalfRun : TinyRun {
  explicit HalfRun(const fs::path& output_dir, const fs::path& resume_from = {}) : TinyRun(output_dir, resume_from) {
    fs::create_directories(output);
    options.graph.numerics.compute = TERN_COMPUTE_F16;
    options.loss_scale.scale = 0x1p22;  // the first steps overflow
    options.learning_rate = 1e-4;       // and none later
  }
};

TEST(LossScale, OverflowingStepsChangeNothingAndTheRunGoesOnToTheBit) {
  const Scratch scratch;
  HalfRun whole(scratch.path() / "whole");
  std::vector<double> scales;
  whole.hooks.on_log = [&](const LogRow& row) { scales.push_back(row.loss_scale.value_or(0)); };
  (void)whole.train();
  const TrainState last = read_train_state(whole.output / "checkpoint-6").value();
  EXPECT_GT(last.skipped_steps, 0);
  EXPECT_LT(last.skipped_steps, 6);
  ASSERT_TRUE(last.loss_scale.has_value());
  EXPECT_EQ(last.loss_scale->scale, std::ldexp(1.0, 22 - static_cast<int>(last.skipped_steps)));
  EXPECT_EQ(last.loss_scale->sound_steps, 6 - last.skipped_steps);
  EXPECT_EQ(scales.back(), last.loss_scale->scale);
  EXPECT_EQ(whole.losses[0], whole.losses[0]) << "finite";
  for (const int done : {2, 4}) {
    HalfRun rest(scratch.path() / cat("from-", done), whole.output / cat("checkpoint-", done));
    (void)rest.train();
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + done, whole.losses.end())) << done;
    EXPECT_EQ(rest.state(), whole.state()) << done;
  }
}

// The rate and Adam's bias corrections count the steps that were taken: those left out are as if they had not been.
TEST(LossScale, SkippedStepsCountForNoUpdate) {
  const Scratch scratch;
  HalfRun run(scratch.path() / "run");
  std::vector<double> rates;
  run.options.logging_steps = 1;
  run.options.schedule = ScheduleKind::constant_with_warmup;
  run.options.warmup_steps = 100;
  run.hooks.on_log = [&](const LogRow& row) { rates.push_back(row.learning_rate); };
  (void)run.train();
  const auto skipped = static_cast<std::size_t>(read_train_state(run.output / "checkpoint-6").value().skipped_steps);
  ASSERT_GT(skipped, 0U);
  ASSERT_EQ(rates.size(), 6U);
  for (std::size_t step = 0; step < 6; ++step) {
    const double taken = step < skipped ? 0 : static_cast<double>(step - skipped);
    EXPECT_DOUBLE_EQ(rates[step], run.options.learning_rate * taken / 100) << step;
  }
}

TEST(LossScale, AGradientThatNoScaleMendsEndsTheRun) {
  const Scratch scratch;
  HalfRun run(scratch.path() / "run");
  run.options.loss_scale.scale = 1;
  run.options.learning_rate = 1e30;  // the second step's weights are no numbers any more
  try {
    (void)run.train();
    FAIL() << "it went on";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("step "), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace tern::train
