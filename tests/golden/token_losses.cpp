// Losses of tokens beside ms-swift's own (script/golden.d/token_losses.py): each token's weighted by its probability,
// and the means of the rows' channels.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "data/channel.h"
#include "golden.h"
#include "models/registry.h"
#include "tests/support/temp_dir.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

constexpr int kSteps = 20;
constexpr double kFirstStep = 1e-5;      // relative
constexpr double kTwentiethStep = 1e-3;  // relative

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
  // By key, each step's.
  [[nodiscard]] std::map<std::string, std::vector<double>> train(data::BatchOptions batches) {
    const auto folder = fixture("llama-tied");
    const data::EncodedDataset dataset = weighted(Numbers(folder / "golden.safetensors"), numbers_);
    models::LoadedModel model = load(folder, GetParam().full);
    train::TrainerOptions options;
    models::LoadedAdapter adapter;
    if (GetParam().full) {
      for (const auto& spec : models::parameters_of(model.config)) options.graph.trainable.push_back(spec.name);
    } else {
      adapter = models::load_adapter(model, "lora", folder / "adapter").value();
      options.graph.adapters = adapter.layers;
      options.graph.trainable = models::trained_tensors(adapter);
    }
    const test::TempDir scratch;
    options.output_dir = scratch.path();
    options.max_steps = kSteps;
    options.logging_steps = 1;
    options.learning_rate = 1e-3;
    options.save_strategy = train::When::no;
    options.eval_strategy = train::When::steps;
    options.eval_steps = kSteps;
    options.eval_batches.per_device_batch_size = 3;
    options.eval_batches.shuffle = false;
    options.graph.loss = GetParam().loss;
    options.graph.row_losses = true;
    std::map<std::string, std::vector<double>> log;
    train::TrainerHooks hooks;
    hooks.on_log = [&](const train::LogRow& row) {
      for (const auto& [key, value] : train::numbers(row)) log[std::string(key)].push_back(value);
    };
    batches.shuffle = false;
    auto steps = data::SetSteps::create(dataset, batches).value();
    const auto saver =
        GetParam().full ? train::full_model_saver(model, folder, 1'000'000'000) : train::adapter_saver(model, adapter);
    session::Runtime runtime;
    train::Trainer(model, *saver, steps, dataset, std::move(options), runtime, std::move(hooks)).run();
    return log;
  }

  void expect(const data::BatchOptions& batches) {
    auto log = train(batches);
    log["losses"] = log["loss"];
    log["grad_norms"] = log["grad_norm"];
    const std::string prefix = std::string(GetParam().name) + ".";
    for (const auto& [key, want] : numbers_.with_prefix(prefix)) {
      const auto& got = log[key];
      ASSERT_EQ(got.size(), want.size()) << key;
      for (std::size_t i = 0; i < want.size(); ++i) {
        const bool first = i == 0 && !key.starts_with("eval_");
        EXPECT_NEAR(got[i], want[i], (first ? kFirstStep : kTwentiethStep) * want[i]) << key << " of step " << i + 1;
      }
    }
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
