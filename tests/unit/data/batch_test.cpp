#include "data/batch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/philox.h"
#include "data/micro_batch.h"

namespace tern::data {
namespace {

// Samples of 3 to 34 tokens whose ids tell sample and place; weights 0, 1 and 0.5 mixed.
std::shared_ptr<MemoryStore> store(std::uint32_t count) {
  auto out = std::make_shared<MemoryStore>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t length = 3 + philox(7, {i, 0, 0, 0})[0] % 32;
    Sample sample;
    for (std::uint32_t t = 0; t < length; ++t) {
      sample.ids.push_back(static_cast<std::int32_t>(i * 100 + t));
      sample.weights.push_back(t == 0 || t * 3 < length ? 0.0F : t % 5 == 0 ? 0.5F : 1.0F);
    }
    out->add(std::move(sample), i);
  }
  return out;
}

EncodedDataset dataset(std::uint32_t count) {
  EncodedDataset out;
  out.add(store(count));
  return out;
}

std::multiset<std::uint32_t> samples_of(const StepPlan& plan) {
  std::multiset<std::uint32_t> out;
  for (const auto& micro : plan.micro_batches) out.insert(micro.samples.begin(), micro.samples.end());
  return out;
}

template <typename T>
std::vector<T> list(const MicroBatch& batch, const char* name) {
  const auto values = batch.values<T>(name);
  return {values.begin(), values.end()};
}

TEST(Batch, GatherLaysSamplesEndToEnd) {
  EncodedDataset data;
  auto memory = std::make_shared<MemoryStore>();
  memory->add({{10, 11, 12}, {0, 0, 1}});
  memory->add({{20, 21}, {0, 0.5F}});
  data.add(memory);
  const MicroBatch batch = gather(data, {{1, 0}, 5});
  EXPECT_EQ(list<std::int32_t>(batch, kIds), (std::vector<std::int32_t>{20, 21, 10, 11, 12}));
  EXPECT_EQ(list<std::int32_t>(batch, kPositions), (std::vector<std::int32_t>{0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<std::int32_t>{0, 2, 5}));
  EXPECT_EQ(list<std::int32_t>(batch, kLabels), (std::vector<std::int32_t>{21, kNoLabel, kNoLabel, 12, kNoLabel}));
  EXPECT_EQ(list<float>(batch, kLossWeights), (std::vector<float>{0.5F, 0, 0, 1, 0}));
  EXPECT_EQ(list<std::uint32_t>(batch, kSampleIds), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(batch.cu_groups, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(batch.longest, 3U);
}

TEST(Batch, AnEpochTakesEverySampleOnce) {
  const EncodedDataset data = dataset(101);
  for (const bool packing : {false, true}) {
    for (const bool grouped : {false, true}) {
      for (const bool shuffle : {false, true}) {
        BatchOptions options{3, 2, 2, packing, 64, grouped, shuffle, 42};
        auto planner = BatchPlanner::create(data, options).value();
        for (const std::uint64_t epoch : {0U, 1U}) {
          std::multiset<std::uint32_t> seen;
          for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step) {
            seen.merge(samples_of(planner.plan(epoch, step)));
          }
          EXPECT_EQ(seen.size(), 101U);
          EXPECT_EQ(std::set<std::uint32_t>(seen.begin(), seen.end()).size(), 101U);
        }
      }
    }
  }
}

// Law 4: how a step is split over micro-batches, accumulation and ranks changes neither its samples nor its divisor.
TEST(Batch, AnySplitGivesTheSameStep) {
  const EncodedDataset data = dataset(50);
  for (const bool packing : {false, true}) {
    for (const bool grouped : {false, true}) {
      std::vector<StepPlan> first;
      for (const auto& [batch, accumulation, world] : std::vector<std::array<std::uint32_t, 3>>{
               {12, 1, 1}, {1, 12, 1}, {1, 1, 12}, {3, 2, 2}, {2, 3, 2}, {6, 1, 2}}) {
        auto planner = BatchPlanner::create(data, {batch, accumulation, world, packing, 40, grouped, true, 9}).value();
        std::vector<StepPlan> plans;
        for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step) plans.push_back(planner.plan(1, step));
        if (first.empty()) first = plans;
        ASSERT_EQ(plans.size(), first.size());
        for (std::size_t step = 0; step < plans.size(); ++step) {
          EXPECT_EQ(samples_of(plans[step]), samples_of(first[step]));
          EXPECT_EQ(plans[step].tokens, first[step].tokens);
          EXPECT_EQ(plans[step].supervised_tokens, first[step].supervised_tokens);
          EXPECT_DOUBLE_EQ(plans[step].weight, first[step].weight);
        }
      }
    }
  }
}

// The divisor counted ahead is what the micro-batches hold.
TEST(Batch, PlannedWeightsAreTheBatchesWeights) {
  const EncodedDataset data = dataset(40);
  auto planner = BatchPlanner::create(data, {2, 3, 2, false, 0, false, true, 5}).value();
  for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step) {
    const StepPlan plan = planner.plan(0, step);
    double weight = 0;
    std::uint64_t supervised = 0;
    std::uint64_t tokens = 0;
    std::size_t micro_batches = 0;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (const auto* micro : plan.of_rank(rank, 2)) {
        const MicroBatch batch = gather(data, *micro);
        const auto weights = batch.values<float>(kLossWeights);
        const auto labels = batch.values<std::int32_t>(kLabels);
        weight += std::accumulate(weights.begin(), weights.end(), 0.0);
        supervised += static_cast<std::uint64_t>(
            std::count_if(labels.begin(), labels.end(), [](auto id) { return id != kNoLabel; }));
        tokens += batch.tokens();
        EXPECT_EQ(micro->tokens, batch.tokens());
        ++micro_batches;
      }
    }
    EXPECT_DOUBLE_EQ(weight, plan.weight);
    EXPECT_EQ(supervised, plan.supervised_tokens);
    EXPECT_EQ(tokens, plan.tokens);
    EXPECT_EQ(micro_batches, plan.micro_batches.size());
  }
}

TEST(Batch, WithoutShuffleTheOrderIsTheDatasets) {
  const EncodedDataset data = dataset(10);
  auto planner = BatchPlanner::create(data, {4, 1, 1, false, 0, false, false, 5}).value();
  for (const std::uint64_t epoch : {0U, 3U}) {
    EXPECT_EQ(planner.plan(epoch, 0).micro_batches[0].samples, (std::vector<std::uint32_t>{0, 1, 2, 3}));
    EXPECT_EQ(planner.plan(epoch, 2).micro_batches[0].samples, (std::vector<std::uint32_t>{8, 9}));
  }
}

TEST(Batch, AStepDoesNotDependOnStepsBefore) {
  const EncodedDataset data = dataset(60);
  for (const bool grouped : {false, true}) {
    const BatchOptions options{2, 2, 1, false, 0, grouped, true, 3};
    auto straight = BatchPlanner::create(data, options).value();
    for (std::uint64_t step = 0; step < 5; ++step) (void)straight.plan(0, step);
    auto resumed = BatchPlanner::create(data, options).value();
    EXPECT_EQ(samples_of(straight.plan(2, 7)), samples_of(resumed.plan(2, 7)));
  }
}

TEST(Batch, GroupedByLengthWastesLessPadding) {
  const EncodedDataset data = dataset(512);
  const auto padding = [&](bool grouped) {
    auto planner = BatchPlanner::create(data, {8, 1, 1, false, 0, grouped, true, 3}).value();
    std::uint64_t padded = 0;
    for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step) {
      const auto plan = planner.plan(0, step);
      const auto batch = gather(data, plan.micro_batches[0]);
      padded += std::uint64_t{batch.longest} * batch.samples() - batch.tokens();
      if (grouped && step == 0) {
        EXPECT_EQ(batch.longest, data.longest());
      }
    }
    return padded;
  };
  EXPECT_LT(padding(true) * 5, padding(false));
}

TEST(Batch, PacksHoldAtMostTheirLengthAndFillIt) {
  const EncodedDataset data = dataset(400);
  auto planner = BatchPlanner::create(data, {1, 1, 1, true, 128, false, true, 3}).value();
  for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step) {
    EXPECT_LE(planner.plan(0, step).tokens, 128U);
  }
  // Best fit decreasing is within 11/9 of the optimum, which is at least the tokens over the length.
  EXPECT_GT(planner.packing_efficiency(), 9.0 / 11.0);
  EXPECT_FALSE(BatchPlanner::create(data, {1, 1, 1, true, 20, false, true, 3}).ok()) << "a sample is longer";
  EXPECT_FALSE(BatchPlanner::create(data, {1, 1, 1, true, 0, false, true, 3}).ok());
  EXPECT_EQ(BatchPlanner::create(data, {0, 1, 1, false, 0, false, true, 3}).error().line(),
            "--per_device_train_batch_size is 0, and a batch needs a sample; give 1 or more.");
  EXPECT_EQ(BatchPlanner::create(data, {1, 0, 1, false, 0, false, true, 3}).error().line(),
            "--gradient_accumulation_steps is 0, and a step needs a batch; give 1 or more.");
  EXPECT_THROW((void)BatchPlanner::create(data, {1, 1, 0, false, 0, false, true, 3}), std::logic_error);
  EXPECT_THROW((void)planner.plan(0, planner.steps_per_epoch()), std::logic_error);
}

// The ids of samples are one word of dropout's counter: a set must not outgrow it. The choice is never read.
TEST(EncodedDataset, RefusesMoreSamplesThanItCanNumber) {
  EncodedDataset data = dataset(1);
  const std::size_t bytes = (std::size_t{1} << 32) * sizeof(std::uint32_t);
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<const std::uint32_t> chosen(static_cast<const std::uint32_t*>(memory), bytes / sizeof(std::uint32_t));
  try {
    data.add(store(1), chosen);
    ADD_FAILURE() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().line(),
              "--dataset: expected at most 4294967295 samples in all, found 4294967297; lower N of path#N");
  }
  ::munmap(memory, bytes);
}

TEST(BestFit, TakesTheFullestBinThatFits) {
  const std::vector<std::uint32_t> lengths{6, 5, 4, 3, 2, 12};
  const auto bins = best_fit(lengths, 10);
  const std::vector<std::vector<std::uint32_t>> want{{0, 2}, {1, 3, 4}, {5}};
  EXPECT_EQ(bins, want);
}

}  // namespace
}  // namespace tern::data
