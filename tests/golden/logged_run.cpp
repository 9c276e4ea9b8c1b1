#include "logged_run.h"

#include <gtest/gtest.h>

#include "models/registry.h"
#include "tests/support/temp_dir.h"
#include "train/model_saver.h"

namespace tern::golden {
namespace {

constexpr int kSteps = 20;
constexpr double kFirstStep = 1e-5;      // relative
constexpr double kTwentiethStep = 1e-3;  // relative

}  // namespace

Log train_and_log(const LoggedRun& run, const data::EncodedDataset& dataset) {
  models::LoadedModel model = load(run.folder, run.full);
  train::TrainerOptions options;
  options.graph = run.graph;
  models::LoadedAdapter adapter;
  if (run.full) {
    for (const auto& spec : models::parameters_of(model.config)) options.graph.trainable.push_back(spec.name);
  } else {
    adapter = models::load_adapter(model, "lora", run.folder / "adapter").value();
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
  Log log;
  train::TrainerHooks hooks;
  hooks.on_log = [&](const train::LogRow& row) {
    for (const auto& [key, value] : train::numbers(row)) log[std::string(key)].push_back(value);
  };
  data::BatchOptions batches = run.batches;
  batches.shuffle = false;
  auto steps = data::SetSteps::create(dataset, batches).value();
  const auto saver =
      run.full ? train::full_model_saver(model, run.folder, 1'000'000'000) : train::adapter_saver(model, adapter);
  session::Runtime runtime;
  train::Trainer(model, *saver, steps, dataset, std::move(options), runtime, std::move(hooks)).run();
  log["losses"] = log["loss"];
  log["grad_norms"] = log["grad_norm"];
  return log;
}

void expect_logged(const Log& log, const std::map<std::string, std::vector<float>>& numbers) {
  for (const auto& [key, want] : numbers) {
    ASSERT_TRUE(log.contains(key)) << key;
    const auto& got = log.at(key);
    ASSERT_EQ(got.size(), want.size()) << key;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const bool first = i == 0 && !key.starts_with("eval_");
      EXPECT_NEAR(got[i], want[i], (first ? kFirstStep : kTwentiethStep) * want[i]) << key << " of step " << i + 1;
    }
  }
}

}  // namespace tern::golden
