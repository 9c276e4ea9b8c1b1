#include "data/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::data {
namespace {

class Numbers final : public RowEncoder {
 public:
  [[nodiscard]] Result<EncodedRow> encode(const Row& row) const override {
    EncodedRow out;
    const int number = std::stoi(row.messages[0].content);
    if (number >= 0) append_truncated(out, {{number, 1, 2}, {0, 1, 1}}, 0, Truncation::remove);
    return out;
  }
  [[nodiscard]] std::string fingerprint() const override { return "numbers"; }
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
  out.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) out.push_back(stream.next()->sample.ids[0]);
  return out;
}

// `count` steps from a place, as (epoch, step, whether it is the last, first tokens and keys of each micro-batch).
std::vector<std::string> steps_of(StepSource& steps, std::uint64_t epoch, std::uint64_t step, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    const StepPlan plan = steps.plan(epoch, step);
    std::string line = cat(plan.epoch, ".", plan.step, plan.last ? " last" : "", " ", plan.weight);
    for (const auto& micro : plan.micro_batches) {
      const MicroBatch batch = steps.gather(micro);
      EXPECT_EQ(batch.tokens(), micro.tokens);
      line += " |";
      for (std::size_t i = 0; i < batch.samples(); ++i) {
        for (std::int32_t at = batch.cu_seqlens[i]; at < batch.cu_seqlens[i + 1]; ++at) {
          line += cat(" ", batch.values<std::int32_t>(kIds)[static_cast<std::size_t>(at)], ":",
                      batch.values<std::uint32_t>(kSampleIds)[i]);
        }
      }
    }
    out.push_back(line);
    step = plan.last ? 0 : step + 1;
    epoch += plan.last ? 1 : 0;
  }
  return out;
}

TEST(Stream, EveryEpochTakesEverySampleOnceInItsOwnOrder) {
  const test::TempDir scratch;
  const Numbers encoder;
  auto stream = SampleStream::open(options({scratch.write("a.jsonl", rows(1000))}), encoder, {64, 3}).value();
  std::vector<std::vector<int>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int> seen;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const StreamSample sample = stream->next().value();
      ASSERT_EQ(sample.epoch, epoch);
      ASSERT_EQ(static_cast<int>(sample.id), sample.sample.ids[0]) << "the key is the place in the files";
      ASSERT_LT(sample.id, i + 64) << "a sample came before the buffer can have held it";
      seen.push_back(sample.sample.ids[0]);
    }
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 1000U);
    EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
    epochs.push_back(seen);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  auto again = SampleStream::open(options({scratch.write("a.jsonl", rows(1000))}), encoder, {64, 3}).value();
  EXPECT_EQ(take(*again, 1000), epochs[0]);
}

TEST(Stream, ASeedAndAnEpochAreAnOrder) {
  const test::TempDir scratch;
  const Numbers encoder;
  const auto load = options({scratch.write("a.jsonl", rows(200))});
  auto stream = SampleStream::open(load, encoder, {32, 3}).value();
  (void)take(*stream, 200);
  const auto second = take(*stream, 200);
  auto later = SampleStream::open(load, encoder, {32, 3, 1}).value();
  EXPECT_EQ(take(*later, 200), second) << "an epoch's order depends on those before it";
  auto other = SampleStream::open(load, encoder, {32, 4, 1}).value();
  EXPECT_NE(take(*other, 200), second);
}

TEST(Stream, ABufferOfOneKeepsTheOrderAndNumbersRepeat) {
  const test::TempDir scratch;
  const Numbers encoder;
  const auto a = scratch.write("a.jsonl", rows(3));
  const auto b = scratch.write("b.jsonl", rows(2));
  auto stream = SampleStream::open(options({a + "#2", b + "#5"}), encoder, {1, 3}).value();
  EXPECT_EQ(take(*stream, 9), (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 0, 1}));
}

// An encoder that counts what it was given: reading runs ahead by a bounded number of rows.
TEST(Stream, ReadsNoFurtherThanItsBuffers) {
  class Counting final : public RowEncoder {
   public:
    Result<EncodedRow> encode(const Row& row) const override {
      ++encoded;
      return numbers.encode(row);
    }
    std::string fingerprint() const override { return "counting"; }
    Numbers numbers;
    mutable std::atomic<int> encoded = 0;
  };
  const test::TempDir scratch;
  const Counting encoder;
  auto stream = SampleStream::open(options({scratch.write("a.jsonl", rows(50000))}), encoder, {100, 3}).value();
  (void)take(*stream, 500);
  // 500 taken, 100 in the buffer, 256 waiting, 8 batches of 64 rows in the threads, and one row in hand.
  EXPECT_GE(encoder.encoded, 600);
  EXPECT_LE(encoder.encoded, 500 + 100 + 256 + 8 * 64 + 64);
}

TEST(StreamSteps, WithoutShufflingAreThoseOfTheSet) {
  const test::TempDir scratch;
  const Numbers encoder;
  auto load = options({scratch.write("a.jsonl", rows(23))});
  load.cache_directory = scratch.path() / "cache";
  const LoadedData data = load_datasets(load, encoder).value();
  StreamStepOptions stream{{2, 3, 1, false, 0, false, false, 9}, 3};
  auto set = SetSteps::create(data.train, stream.batches).value();
  auto steps = StreamSteps::open(load, encoder, stream).value();
  const auto want = steps_of(set, 0, 0, 10);
  EXPECT_EQ(steps_of(*steps, 0, 0, 10), want);
  EXPECT_NE(want[3].find("0.3 last"), std::string::npos) << want[3];
  EXPECT_EQ(steps->bounds().tokens, set.bounds().tokens);
}

TEST(StreamSteps, GoOnFromAnyPlace) {
  const test::TempDir scratch;
  const Numbers encoder;
  const auto load = options({scratch.write("a.jsonl", rows(500))});
  for (const bool packing : {false, true}) {
    const StreamStepOptions stream{{2, 2, 1, packing, packing ? 16U : 0U, false, true, 9}, 3, 50};
    auto steps = StreamSteps::open(load, encoder, stream).value();
    const auto whole = steps_of(*steps, 0, 0, packing ? 60 : 260);
    std::uint64_t epoch = 0;
    std::uint64_t step = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (i % 7 == 0) {
        auto resumed = StreamSteps::open(load, encoder, stream).value();
        ASSERT_EQ(steps_of(*resumed, epoch, step, 1)[0], whole[i]) << i;
      }
      const bool last = whole[i].find(" last") != std::string::npos;
      step = last ? 0 : step + 1;
      epoch += last ? 1 : 0;
    }
    EXPECT_GE(epoch, 1U) << "no epoch ended";
  }
}

// Broken if a stream goes on over other files than it began with, or an error names another row.
TEST(StreamSteps, TellWhatTheyAreMadeOf) {
  const test::TempDir scratch;
  const Numbers encoder;
  const std::string file = scratch.write("a.jsonl", rows(40));
  const auto identity = [&](const std::string& spec, std::uint32_t batch, std::uint32_t buffer) {
    const StreamStepOptions stream{{batch, 2, 1, false, 0, false, true, 9}, 3, buffer};
    return StreamSteps::open(options({spec}), encoder, stream).value()->identity();
  };
  const Settings plain = identity(file, 2, 10);
  EXPECT_EQ(identity(file, 2, 10), plain);
  EXPECT_NE(identity(file, 3, 10), plain);
  EXPECT_NE(identity(file, 2, 11), plain);
  EXPECT_NE(identity(file + "#20", 2, 10), plain);
  EXPECT_EQ(identity(scratch.write("moved.jsonl", rows(40)), 2, 10), plain);
  std::string other = rows(40);
  other[10] = '7';
  EXPECT_NE(identity(scratch.write("b.jsonl", other), 2, 10), plain);
  EXPECT_NE(identity(scratch.write("c.jsonl", rows(41)), 2, 10), plain);

  auto steps = StreamSteps::open(options({file}), encoder, {{4, 2, 1, false, 0, false, true, 9}, 3, 10}).value();
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (const auto& micro : steps->plan(0, step).micro_batches) {
      const MicroBatch batch = steps->gather(micro);
      for (std::size_t i = 0; i < micro.samples.size(); ++i) {
        const auto number = batch.values<std::int32_t>(kIds)[static_cast<std::size_t>(batch.cu_seqlens[i])];
        EXPECT_EQ(steps->place(micro.samples[i]), cat(file, ":", number + 1));
      }
    }
  }
}

TEST(StreamSteps, PacksHoldEverySampleOnceAndAreFull) {
  const test::TempDir scratch;
  const Numbers encoder;
  const StreamStepOptions stream{{1, 1, 1, true, 30, false, true, 9}, 3, 50};
  auto steps = StreamSteps::open(options({scratch.write("a.jsonl", rows(1000))}), encoder, stream).value();
  std::multiset<std::uint32_t> seen;
  std::uint64_t packs = 0;
  for (bool last = false; !last; ++packs) {
    const StepPlan plan = steps->plan(0, packs);
    ASSERT_EQ(plan.micro_batches.size(), 1U);
    const MicroBatch batch = steps->gather(plan.micro_batches[0]);
    ASSERT_LE(batch.tokens(), 30U);
    const auto ids = batch.values<std::uint32_t>(kSampleIds);
    seen.insert(ids.begin(), ids.end());
    last = plan.last;
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(std::set<std::uint32_t>(seen.begin(), seen.end()).size(), 1000U);
  EXPECT_EQ(packs, 100U) << "ten samples of three tokens a pack, windows or not";
}

TEST(StreamSteps, RefuseWhatNeedsTheWholeSet) {
  const test::TempDir scratch;
  const Numbers encoder;
  const auto load = options({scratch.write("a.jsonl", rows(10))});
  StreamStepOptions stream{{1, 1, 1, false, 0, true, true, 9}, 3};
  EXPECT_FALSE(StreamSteps::open(load, encoder, stream).ok()) << "group_by_length";
  stream.batches = {1, 1, 1, true, 2, false, true, 9};
  EXPECT_FALSE(StreamSteps::open(load, encoder, stream).ok()) << "packs smaller than a sample";
  const std::string more = "; give 1 or more.";
  stream.batches = {0, 1, 1, false, 0, false, true, 9};
  EXPECT_EQ(StreamSteps::open(load, encoder, stream).error().line(),
            "--per_device_train_batch_size is 0, and a batch needs a sample" + more);
  stream.batches = {1, 0, 1, false, 0, false, true, 9};
  EXPECT_EQ(StreamSteps::open(load, encoder, stream).error().line(),
            "--gradient_accumulation_steps is 0, and a step needs a batch" + more);
  EXPECT_EQ(SampleStream::open(load, encoder, {0, 9}).error().line(),
            "--shuffle_buffer_size is 0, and the buffer needs room for a sample" + more);
  EXPECT_THROW((void)StreamSteps::open(load, encoder, {{}, 0}), std::logic_error);
  EXPECT_EQ(SampleStream::open(options({}), encoder, {8, 9}).error().line(),
            "no dataset was given; name a file, as in --dataset train.jsonl.");
  const auto nothing = options({scratch.write("b.jsonl", "{\"query\":\"-1\"}\n")});
  EXPECT_FALSE(StreamSteps::open(nothing, encoder, {{}, 3}).ok()) << "told before the first step";
  auto steps = StreamSteps::open(load, encoder, {{}, 3}).value();
  EXPECT_THROW((void)steps->plan(0, 10), Failure) << "a place behind the epoch's end";
}

// Broken if an exception in the reading thread ends the process.
TEST(Stream, TellsWhatItsThreadThrows) {
  const Numbers encoder;
  auto load = options({"org/name"});
  load.hub = [](const std::string&) -> Result<std::vector<std::filesystem::path>> { throw std::bad_alloc(); };
  const auto sample = SampleStream::open(load, encoder, {8, 9}).value()->next();
  ASSERT_FALSE(sample.ok());
  EXPECT_EQ(sample.error().kind, ErrorKind::device);
  EXPECT_EQ(sample.error().line(),
            "streaming rows failed: no memory is left; free memory, or lower --shuffle_buffer_size.");
}

TEST(Stream, ErrorsArriveWhereTheSampleWould) {
  const test::TempDir scratch;
  const Numbers encoder;
  auto load = options({scratch.write("a.jsonl", rows(2) + "oops\n")});
  load.strict = true;
  auto stream = SampleStream::open(load, encoder, {1, 3}).value();
  EXPECT_TRUE(stream->next().ok());
  EXPECT_TRUE(stream->next().ok());
  for (int i = 0; i < 2; ++i) {
    const auto end = stream->next();
    ASSERT_FALSE(end.ok());
    EXPECT_NE(end.error().line().find("a.jsonl:3: "), std::string::npos);
  }
  const auto nothing = options({scratch.write("b.jsonl", "{\"query\":\"-1\"}\n")});
  EXPECT_FALSE(SampleStream::open(nothing, encoder, {4, 3}).value()->next().ok());
  load.split_dataset_ratio = 0.1;
  EXPECT_FALSE(SampleStream::open(load, encoder, {}).ok());
  EXPECT_FALSE(SampleStream::open(options({}), encoder, {}).ok());
  EXPECT_FALSE(SampleStream::open(options({"absent.jsonl"}), encoder, {}).value()->next().ok());
}

// A stream that is given up lets its threads go.
TEST(Stream, ClosesInTheMiddle) {
  const test::TempDir scratch;
  const Numbers encoder;
  for (int i = 0; i < 20; ++i) {
    auto stream = SampleStream::open(options({scratch.write("a.jsonl", rows(3000))}), encoder, {16, 3}).value();
    if (i % 2 == 0) (void)take(*stream, i);
  }
}

}  // namespace
}  // namespace tern::data
