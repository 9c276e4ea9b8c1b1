// The balance of a mixture's experts beside transformers' (script/golden.d/expert_balance.py): losses, gradients' norms
// and the balance itself, of any split of a step, with activations kept or computed again.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "golden.h"
#include "models/registry.h"
#include "tests/support/temp_dir.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

constexpr int kSteps = 20;
constexpr double kCoefficient = 0.1;
constexpr double kFirstStep = 1e-5;      // relative
constexpr double kTwentiethStep = 1e-3;  // relative

struct Case {
  const char* model;
  bool full;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.model << (one.full ? ".full" : ".lora"); }

constexpr Case kCases[] = {{"mixtral", true},
                           {"mixtral", false},
                           {"qwen2-moe-tied", true},
                           {"qwen2-moe-tied", false},
                           {"qwen3-moe-tied", true},
                           {"qwen3-moe-tied", false},
                           {"granite-moe-tied", true},
                           {"granite-moe-tied", false},
                           {"gpt-oss-tied", true},
                           {"gpt-oss-tied", false},
                           {"qwen3-next-untied", true},
                           {"qwen3-next-untied", false},
                           {"qwen3.5-moe-untied", true},
                           {"qwen3.5-moe-untied", false}};

struct Split {
  std::uint32_t batch;
  std::uint32_t accumulation;
  bool recomputes;
};

class ExpertBalance : public testing::TestWithParam<Case> {
 protected:
  // By key, each step's.
  [[nodiscard]] std::map<std::string, std::vector<double>> train(const Split& split) {
    const auto folder = fixture(GetParam().model);
    const data::EncodedDataset dataset = samples(Numbers(folder / "golden.safetensors"));
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
    options.graph.router_aux_loss_coef = kCoefficient;
    options.graph.gradient_checkpointing = split.recomputes;
    std::map<std::string, std::vector<double>> log;
    train::TrainerHooks hooks;
    hooks.on_log = [&](const train::LogRow& row) {
      for (const auto& [key, value] : train::numbers(row)) log[std::string(key)].push_back(value);
    };
    data::BatchOptions batches;
    batches.per_device_batch_size = split.batch;
    batches.accumulation = split.accumulation;
    batches.shuffle = false;
    auto steps = data::SetSteps::create(dataset, batches).value();
    const auto saver =
        GetParam().full ? train::full_model_saver(model, folder, 1'000'000'000) : train::adapter_saver(model, adapter);
    session::Runtime runtime;
    train::Trainer(model, *saver, steps, dataset, std::move(options), runtime, std::move(hooks)).run();
    log["losses"] = log["loss"];
    log["grad_norms"] = log["grad_norm"];
    return log;
  }

  void expect(const Split& split) {
    auto log = train(split);
    const std::string prefix = std::string(GetParam().model) + (GetParam().full ? ".full." : ".lora.");
    const auto numbers = numbers_.with_prefix(prefix);
    ASSERT_EQ(numbers.size(), 5U);
    for (const auto& [key, want] : numbers) {
      const auto& got = log[key];
      ASSERT_EQ(got.size(), want.size()) << key;
      for (std::size_t i = 0; i < want.size(); ++i) {
        const bool first = i == 0 && !key.starts_with("eval_");
        EXPECT_NEAR(got[i], want[i], (first ? kFirstStep : kTwentiethStep) * want[i]) << key << " of step " << i + 1;
      }
    }
  }

  Numbers numbers_{fixture("expert-balance.safetensors")};
};

TEST_P(ExpertBalance, TwentyStepsAreTransformers) { expect({4, 1, false}); }

TEST_P(ExpertBalance, OfAnySplit) { expect({1, 4, true}); }

INSTANTIATE_TEST_SUITE_P(All, ExpertBalance, testing::ValuesIn(kCases), [](const auto& info) {
  return name_of_test(info.param.model) + (info.param.full ? "full" : "lora");
});

}  // namespace
}  // namespace tern::golden
