// Columns stay with what they belong to, however steps are split and packed: broken, a loss reads another sample's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

#include "base/philox.h"
#include "data/micro_batch.h"

namespace tern::data {
namespace {

// What a preference loss would be told: of each token its logprob under the reference, positions of three axes; of each
// sample its class, and which features its media take; of each pair an advantage.
const std::vector<ColumnSpec> kColumns = {
    {"ref_logps", Per::token, TERN_F32, 1, 0}, {kPositions, Per::token, TERN_I32, 3, 0},
    {"class", Per::sample, TERN_I32, 1, -100}, {"media", Per::sample, TERN_I64, ColumnSpec::kAnyNumber, 0},
    {"advantage", Per::group, TERN_F32, 1, 0},
};

// Every value tells whose it is: the first id is the sample's, an advantage is its pair's chosen sample's.
Sample made(std::int32_t id, bool chosen) {
  const std::uint32_t length = 3 + philox(3, {static_cast<std::uint32_t>(id), 0, 0, 0})[0] % 20;
  Sample sample;
  std::vector<float> logps;
  std::vector<std::int32_t> positions;
  for (std::uint32_t t = 0; t < length; ++t) {
    const auto at = static_cast<std::int32_t>(t);
    sample.ids.push_back(id * 100 + at);
    sample.weights.push_back(t * 2 < length ? 0.0F : 1.0F);
    logps.push_back(static_cast<float>(-id * 100 - at));
    positions.insert(positions.end(), {at, id, at * id});
  }
  const std::vector<std::int64_t> media(static_cast<std::size_t>(id % 3), id);
  sample.columns = {column_bytes(logps),
                    column_bytes(positions),
                    column_bytes(std::vector<std::int32_t>{chosen ? 1 : 0}),
                    column_bytes(media),
                    {}};
  if (chosen) sample.columns[4] = column_bytes(std::vector<float>{0.5F * static_cast<float>(id)});
  return sample;
}

// Pairs of a chosen and a rejected answer.
EncodedDataset pairs(std::int32_t count) {
  auto store = std::make_shared<MemoryStore>(kColumns);
  for (std::int32_t id = 0; id < 2 * count; ++id) store->add(made(id, id % 2 == 0), 0, 0, id % 2 == 0);
  EncodedDataset data;
  data.add(std::move(store));
  return data;
}

// Every entry of the micro-batch is that of its sample or pair.
void expect_aligned(const MicroBatch& batch) {
  const auto samples = batch.values<std::uint32_t>(kSampleIds);
  ASSERT_EQ(samples.size(), batch.samples());
  ASSERT_EQ(batch.samples(), 2 * batch.groups());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto id = static_cast<std::int32_t>(samples[i]);
    EXPECT_EQ(batch.values<std::int32_t>("class")[i], id % 2 == 0 ? 1 : 0);
    const auto media = batch.column("media").entry<std::int64_t>(i);
    EXPECT_EQ(std::vector<std::int64_t>(media.begin(), media.end()),
              std::vector<std::int64_t>(static_cast<std::size_t>(id % 3), id));
    for (auto t = static_cast<std::size_t>(batch.cu_seqlens[i]); t < static_cast<std::size_t>(batch.cu_seqlens[i + 1]);
         ++t) {
      const auto at = static_cast<std::int32_t>(t) - batch.cu_seqlens[i];
      EXPECT_EQ(batch.values<std::int32_t>(kIds)[t], id * 100 + at);
      EXPECT_EQ(batch.values<float>("ref_logps")[t], static_cast<float>(-id * 100 - at));
      const auto axes = batch.column(kPositions).entry<std::int32_t>(t);
      EXPECT_EQ((std::vector<std::int32_t>(axes.begin(), axes.end())), (std::vector<std::int32_t>{at, id, at * id}));
    }
  }
  for (std::size_t g = 0; g < batch.groups(); ++g) {
    const std::size_t chosen = batch.cu_groups[g];
    ASSERT_EQ(batch.cu_groups[g + 1], chosen + 2);
    EXPECT_EQ(samples[chosen] % 2, 0U);
    EXPECT_EQ(samples[chosen + 1], samples[chosen] + 1) << "a pair was torn";
    EXPECT_EQ(batch.values<float>("advantage")[g], 0.5F * static_cast<float>(samples[chosen]));
  }
}

TEST(Columns, StayAlignedUnderEverySplitAndPacking) {
  const EncodedDataset data = pairs(37);
  EXPECT_EQ(data.groups(), 37U);
  for (const bool packing : {false, true}) {
    for (const bool grouped : {false, true}) {
      for (const auto& [batch, accumulation] : std::vector<std::array<std::uint32_t, 2>>{{1, 6}, {2, 3}, {6, 1}}) {
        auto planner = BatchPlanner::create(data, {batch, accumulation, 1, packing, 60, grouped, true, 9}).value();
        std::map<std::uint32_t, int> seen;
        for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step) {
          for (const auto& micro : planner.plan(1, step).micro_batches) {
            const MicroBatch gathered = gather(data, micro);
            EXPECT_EQ(gathered.tokens(), micro.tokens);
            if (!packing) {
              EXPECT_LE(gathered.groups(), batch);
            }
            expect_aligned(gathered);
            for (const std::uint32_t id : micro.samples) ++seen[id];
          }
        }
        EXPECT_EQ(seen.size(), 74U);
        for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
      }
    }
  }
}

// The longest pair sets the length of packs, not the longest sample.
TEST(Columns, APackHoldsWholeGroups) {
  const EncodedDataset data = pairs(20);
  const std::uint32_t longest = data.longest_group();
  ASSERT_GT(longest, data.longest());
  EXPECT_FALSE(BatchPlanner::create(data, {1, 1, 1, true, longest - 1, false, true, 3}).ok());
  auto planner = BatchPlanner::create(data, {1, 1, 1, true, longest, false, true, 3}).value();
  for (std::uint64_t step = 0; step < planner.steps_per_epoch(); ++step)
    EXPECT_LE(planner.plan(0, step).tokens, longest);
}

// Data with and without a column in one run: what lacks it has the column's padding.
TEST(Columns, OfSeveralStoresAreUnited) {
  auto plain = std::make_shared<MemoryStore>();
  plain->add({{7, 8}, {0, 1}});
  EncodedDataset data;
  data.add(plain);
  auto paired = std::make_shared<MemoryStore>(kColumns);
  paired->add(made(2, true));
  paired->add(made(3, false), 0, 0, false);
  data.add(paired);
  data.add(plain);
  EXPECT_EQ(data.groups(), 3U);
  const MicroBatch batch = gather(data, {{0, 1, 2, 3}, 4 + data.group_length(1)});
  EXPECT_EQ(batch.cu_groups, (std::vector<std::uint32_t>{0, 1, 3, 4}));
  const auto classes = batch.values<std::int32_t>("class");
  EXPECT_EQ(std::vector<std::int32_t>(classes.begin(), classes.end()), (std::vector<std::int32_t>{-100, 1, 0, -100}));
  const auto advantages = batch.values<float>("advantage");
  EXPECT_EQ(std::vector<float>(advantages.begin(), advantages.end()), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(batch.column("media").offsets, (std::vector<std::uint32_t>{0, 0, 2, 2, 2}));
  EXPECT_EQ(batch.values<float>("ref_logps").size(), batch.tokens());
  EXPECT_EQ(batch.values<float>("ref_logps")[0], 0);
  EXPECT_EQ(batch.values<float>("ref_logps")[2], -200);
  EXPECT_EQ(batch.values<std::int32_t>(kPositions).size(), 3 * batch.tokens());
}

TEST(Columns, RefuseWhatDoesNotFit) {
  MemoryStore store(kColumns);
  EXPECT_THROW(store.add(made(0, true), 0, 0, false), std::logic_error) << "no group before";
  Sample wrong = made(1, true);
  wrong.columns[0].pop_back();
  EXPECT_THROW(store.add(wrong), std::logic_error);
  store.add(made(0, true));
  EXPECT_THROW(store.add(made(2, true), 0, 0, false), std::logic_error) << "a group's value at its second sample";
  MemoryStore none;
  EXPECT_THROW(none.add(made(0, true)), std::logic_error);

  EncodedDataset data = pairs(3);
  auto shared = std::make_shared<MemoryStore>(kColumns);
  for (std::int32_t id = 0; id < 4; ++id) shared->add(made(id, id % 2 == 0), 0, 0, id % 2 == 0);
  for (const std::vector<std::uint32_t>& torn : {std::vector<std::uint32_t>{0}, {1}, {0, 2, 3}, {0, 1, 3}, {1, 0}}) {
    EXPECT_THROW(data.add(shared, torn), std::logic_error);
  }
  EncodedDataset whole;
  whole.add(shared, std::vector<std::uint32_t>{2, 3, 0, 1, 2, 3});
  EXPECT_EQ(whole.groups(), 3U);
  auto other = kColumns;
  other[0].dtype = TERN_I32;
  EXPECT_THROW(whole.add(std::make_shared<MemoryStore>(other)), std::logic_error) << "of two kinds";

  MicroBatch batch = gather(data, {{0, 1}, data.group_length(0)});
  EXPECT_THROW((void)batch.values<std::int32_t>("ref_logps"), std::logic_error);
  EXPECT_THROW((void)batch.column("nobody"), std::logic_error);
  EXPECT_THROW(batch.add({"class", Per::sample}, std::vector<float>{1, 2}), std::logic_error) << "taken";
  EXPECT_THROW(batch.add({"new", Per::sample}, std::vector<float>{1}), std::logic_error);
  batch.add({"new", Per::group}, std::vector<float>{1});
  EXPECT_EQ(batch.values<float>("new")[0], 1);
}

}  // namespace
}  // namespace tern::data
