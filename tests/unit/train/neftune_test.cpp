#include "train/neftune.h"

#include <cmath>
#include <map>
#include <utility>

#include "tiny_run.h"

namespace tern::train {
namespace {

constexpr std::int64_t kHidden = 30;  // no multiple of the four numbers of a Philox block

// By sample and place: [hidden].
using Noise = std::map<std::pair<std::uint32_t, int>, std::vector<float>>;

Noise noise_of(const data::BatchOptions& batches, const MicroBatchInputs& inputs, std::map<std::uint32_t, int>& lengths) {
  const data::EncodedDataset dataset = tiny_samples();
  auto steps = data::SetSteps::create(dataset, batches).value();
  Noise out;
  for (std::uint64_t step = 0; step < *steps.steps_per_epoch(); ++step) {
    for (const auto& micro : steps.plan(0, step).micro_batches) {
      if (micro.samples.empty()) continue;
      const data::MicroBatch batch = steps.gather(micro);
      const auto noise = embedding_noise(batch, inputs, 5.0, kHidden);
      EXPECT_EQ(noise.size(), batch.tokens() * kHidden);
      const auto samples = batch.values<std::uint32_t>(data::kSampleIds);
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const int begin = batch.cu_seqlens[i];
        lengths[samples[i]] = batch.cu_seqlens[i + 1] - begin;
        for (int t = begin; t < batch.cu_seqlens[i + 1]; ++t) {
          out[{samples[i], t - begin}] = {noise.begin() + t * kHidden, noise.begin() + (t + 1) * kHidden};
        }
      }
    }
  }
  return out;
}

// transformers' neftune_post_forward_hook: uniform in +-alpha / sqrt(L d), here by each sample's own length.
TEST(Neftune, IsUniformWithTheSizeOfThePaper) {
  std::map<std::uint32_t, int> lengths;
  const Noise noise = noise_of({}, {}, lengths);
  std::map<std::uint32_t, std::pair<double, double>> sums;  // of squares, and of values, as shares of the bound
  std::map<std::uint32_t, double> counts;
  for (const auto& [place, values] : noise) {
    const double bound = 5.0 / std::sqrt(static_cast<double>(lengths.at(place.first)) * kHidden);
    for (const float value : values) {
      EXPECT_LE(std::fabs(value), bound * (1 + 1e-6));
      sums[place.first].first += value / bound * (value / bound);
      sums[place.first].second += value / bound;
      counts[place.first] += 1;
    }
  }
  ASSERT_GE(lengths.size(), 3U);
  for (const auto& [sample, sum] : sums) {
    const double n = counts.at(sample);
    // of a uniform number in [-1, 1): the variance is 1 / 3, that of its square 4 / 45
    EXPECT_NEAR(sum.first / n, 1.0 / 3.0, 5 * std::sqrt(4.0 / 45.0 / n)) << sample;
    EXPECT_NEAR(sum.second / n, 0.0, 5 * std::sqrt(1.0 / 3.0 / n)) << sample;
  }
}

TEST(Neftune, DependsOnNoBatchAndNoPack) {
  std::map<std::uint32_t, int> lengths;
  const Noise alone = noise_of({.per_device_batch_size = 1}, {}, lengths);
  EXPECT_EQ(noise_of({.per_device_batch_size = 3, .accumulation = 2}, {}, lengths), alone);
  data::BatchOptions packed;
  packed.packing = true;
  packed.packing_length = 64;
  EXPECT_EQ(noise_of(packed, {}, lengths), alone);
  MicroBatchInputs later;
  later.epoch = 1;
  EXPECT_NE(noise_of({.per_device_batch_size = 1}, later, lengths), alone) << "an epoch has noise of its own";
}

// The split law: dropout and noise included, no split of a step changes it.
TEST(Neftune, AnySplitOfAStepGivesTheSameGradient) {
  std::vector<double> losses;
  for (const std::uint32_t batch : {1U, 4U}) {
    const Scratch scratch;
    TinyRun run(scratch.path());
    run.options.graph.neftune_noise_alpha = 5;
    run.options.save_strategy = When::no;
    run.batches.per_device_batch_size = batch;
    run.batches.accumulation = 4 / batch;
    (void)run.train();
    if (losses.empty()) {
      losses = run.losses;
      continue;
    }
    ASSERT_EQ(run.losses.size(), losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(run.losses[i], losses[i], 1e-4 * losses[i]);
  }
}

TEST(Neftune, ChangesTrainingAndNoEvaluation) {
  const auto first = [](double alpha) {
    const Scratch scratch;
    TinyRun run(scratch.path());
    run.options.graph.neftune_noise_alpha = alpha;
    run.options.save_strategy = When::no;
    run.options.max_steps = 1;
    run.options.learning_rate = 0;
    run.validation = tiny_samples();
    (void)run.train();
    return std::pair(run.losses.at(0), run.trainer->evaluate());
  };
  const auto plain = first(0);
  const auto noisy = first(50);
  EXPECT_GT(std::fabs(noisy.first - plain.first), 1e-3);
  EXPECT_EQ(noisy.second, plain.second);
}

}  // namespace
}  // namespace tern::train
