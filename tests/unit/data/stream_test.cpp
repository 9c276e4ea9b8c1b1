#include "data/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "tests/unit/data/scratch.h"

namespace tern::data {
namespace {

class Numbers final : public RowEncoder {
 public:
  Result<EncodedRow> encode(const Row& row) const override {
    EncodedRow out;
    const int number = std::stoi(row.messages[0].content);
    if (number >= 0) append_truncated(out, {{number, 1, 2}, {0, 1, 1}}, 0, Truncation::remove);
    return out;
  }
  std::string fingerprint() const override { return "numbers"; }
};

std::string rows(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += cat("{\"query\":\"", i, "\",\"response\":\"r\"}\n");
  return out;
}

LoadOptions options(std::vector<std::string> dataset) {
  LoadOptions load;
  load.dataset = std::move(dataset);
  load.dataset_num_proc = 2;
  return load;
}

std::vector<int> take(SampleStream& stream, int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(stream.next()->sample.ids[0]);
  return out;
}

TEST(Stream, EveryEpochTakesEverySampleOnceInItsOwnOrder) {
  const Scratch scratch;
  const Numbers encoder;
  auto stream = SampleStream::open(options({scratch.file("a.jsonl", rows(1000))}), encoder, {64, 3}).value();
  std::vector<std::vector<int>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int> seen;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const StreamSample sample = stream->next().value();
      ASSERT_EQ(sample.epoch, epoch);
      ASSERT_EQ(sample.id, i);
      seen.push_back(sample.sample.ids[0]);
    }
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 1000U);
    EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
    epochs.push_back(seen);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  auto again = SampleStream::open(options({scratch.file("a.jsonl", rows(1000))}), encoder, {64, 3}).value();
  EXPECT_EQ(take(*again, 1000), epochs[0]);
}

TEST(Stream, AWindowThatDividesTheEpochEndsWithIt) {
  const Scratch scratch;
  const Numbers encoder;
  auto stream = SampleStream::open(options({scratch.file("a.jsonl", rows(8))}), encoder, {4, 3}).value();
  for (std::uint64_t i = 0; i < 40; ++i) {
    const StreamSample sample = stream->next().value();
    EXPECT_EQ(sample.epoch, i / 8);
    EXPECT_EQ(sample.id, i % 8);
  }
}

TEST(Stream, AWindowOfOneKeepsTheOrderAndSkipGoesOn) {
  const Scratch scratch;
  const Numbers encoder;
  const auto a = scratch.file("a.jsonl", rows(3));
  const auto b = scratch.file("b.jsonl", rows(2));
  auto stream = SampleStream::open(options({a, b + "#4"}), encoder, {1, 3}).value();
  EXPECT_EQ(take(*stream, 9), (std::vector<int>{0, 1, 2, 0, 1, 0, 1, 0, 1}));
  auto skipped = SampleStream::open(options({a, b + "#4"}), encoder, {1, 3}).value();
  ASSERT_TRUE(skipped->skip(4).ok());
  EXPECT_EQ(take(*skipped, 3), (std::vector<int>{1, 0, 1}));
}

TEST(Stream, AStepKnowsItsTotalBeforeItRuns) {
  const Scratch scratch;
  const Numbers encoder;
  auto stream = SampleStream::open(options({scratch.file("a.jsonl", rows(10))}), encoder, {1, 3}).value();
  BatchOptions batch;
  batch.per_device_batch_size = 2;
  batch.accumulation = 3;
  const StreamStep first = stream->next_step(batch).value();
  EXPECT_EQ(first.plan.micro_batches.size(), 3U);
  EXPECT_EQ(first.plan.supervised_tokens, 12U);
  EXPECT_EQ(gather(first.samples, first.plan.micro_batches[1]).ids, (std::vector<std::int32_t>{2, 1, 2, 3, 1, 2}));
  const StreamStep second = stream->next_step(batch).value();
  EXPECT_EQ(second.ids, (std::vector<std::uint32_t>{6, 7, 8, 9, 0, 1}));
  EXPECT_EQ(second.plan.epoch, 0U);
  batch.packing = true;
  EXPECT_FALSE(stream->next_step(batch).ok());
}

TEST(Stream, ErrorsArriveWhereTheSampleWould) {
  const Scratch scratch;
  const Numbers encoder;
  auto load = options({scratch.file("a.jsonl", rows(2) + "oops\n")});
  load.strict = true;
  auto stream = SampleStream::open(load, encoder, {1, 3}).value();
  EXPECT_TRUE(stream->next().ok());
  EXPECT_TRUE(stream->next().ok());
  for (int i = 0; i < 2; ++i) {
    const auto end = stream->next();
    ASSERT_FALSE(end.ok());
    EXPECT_NE(end.error().line().find("a.jsonl:3: "), std::string::npos);
  }
  const auto nothing = options({scratch.file("b.jsonl", "{\"query\":\"-1\"}\n")});
  EXPECT_FALSE(SampleStream::open(nothing, encoder, {4, 3}).value()->next().ok());
  load.split_dataset_ratio = 0.1;
  EXPECT_FALSE(SampleStream::open(load, encoder, {}).ok());
  EXPECT_FALSE(SampleStream::open(options({}), encoder, {}).ok());
  EXPECT_FALSE(SampleStream::open(options({"absent.jsonl"}), encoder, {}).value()->next().ok());
}

// A stream that is given up lets its threads go.
TEST(Stream, ClosesInTheMiddle) {
  const Scratch scratch;
  const Numbers encoder;
  for (int i = 0; i < 20; ++i) {
    auto stream = SampleStream::open(options({scratch.file("a.jsonl", rows(3000))}), encoder, {16, 3}).value();
    if (i % 2 == 0) (void)take(*stream, i);
  }
}

}  // namespace
}  // namespace tern::data
