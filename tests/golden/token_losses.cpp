// Losses of tokens beside ms-swift's own (script/golden.d/token_losses.py): each token's weighted by its probability,
// and the means of the rows' channels.
#include <gtest/gtest.h>

#include <string>

#include "data/channel.h"
#include "logged_run.h"

namespace tern::golden {
namespace {

struct Case {
  const char* name;  // of the fixture's numbers
  const char* loss;
  bool full;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

constexpr Case kCases[] = {{"plain.full", "cross_entropy", true},
                           {"plain.lora", "cross_entropy", false},
                           {"dft.full", train::kDftLoss, true},
                           {"dft.lora", train::kDftLoss, false}};

data::EncodedDataset weighted(const Numbers& base, const Numbers& numbers) {
  constexpr const char* kChannels[] = {"math", "code", ""};
  auto store = std::make_shared<data::MemoryStore>(std::vector<data::ColumnSpec>{data::channel_column()});
  const auto ids = base.ints("ids");
  const auto weights = numbers.floats("weights");
  const auto channels = numbers.ints("channels");
  std::ptrdiff_t begin = 0;
  std::size_t index = 0;
  for (const std::int32_t length : base.ints("lengths")) {
    data::Sample sample;
    sample.ids.assign(ids.begin() + begin, ids.begin() + begin + length);
    sample.weights.assign(weights.begin() + begin, weights.begin() + begin + length);
    sample.weights.front() = 0;
    sample.columns = {data::channel_bytes(kChannels[channels.at(index++)])};
    store->add(std::move(sample));
    begin += length;
  }
  data::EncodedDataset dataset;
  dataset.add(store);
  return dataset;
}

class TokenLosses : public testing::TestWithParam<Case> {
 protected:
  void expect(const data::BatchOptions& batches) {
    LoggedRun run{fixture("llama-tied"), GetParam().full, batches, {}};
    run.graph.loss = GetParam().loss;
    run.graph.row_losses = true;
    const Log log = train_and_log(run, weighted(Numbers(run.folder / "golden.safetensors"), numbers_));
    expect_logged(log, numbers_.with_prefix(std::string(GetParam().name) + "."));
  }

  Numbers numbers_{fixture("token-losses.safetensors")};
};

data::BatchOptions split(std::uint32_t batch, std::uint32_t accumulation) {
  data::BatchOptions options;
  options.per_device_batch_size = batch;
  options.accumulation = accumulation;
  return options;
}

TEST_P(TokenLosses, TwentyStepsAreMsSwifts) { expect(split(2, 2)); }

TEST_P(TokenLosses, OfAnySplit) {
  expect(split(4, 1));
  expect(split(1, 4));
}

INSTANTIATE_TEST_SUITE_P(All, TokenLosses, testing::ValuesIn(kCases),
                         [](const auto& info) { return name_of_test(info.param.name); });

}  // namespace
}  // namespace tern::golden
