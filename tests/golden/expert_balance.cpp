// The balance of a mixture's experts beside transformers' (script/golden.d/expert_balance.py): losses, gradients' norms
// and the balance itself, of any split of a step, with activations kept or computed again.
#include <gtest/gtest.h>

#include <string>

#include "logged_run.h"

namespace tern::golden {
namespace {

constexpr double kCoefficient = 0.1;

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
  void expect(const Split& split) {
    LoggedRun run;
    run.folder = fixture(GetParam().model);
    run.full = GetParam().full;
    run.batches.per_device_batch_size = split.batch;
    run.batches.accumulation = split.accumulation;
    run.graph.router_aux_loss_coef = kCoefficient;
    run.graph.gradient_checkpointing = split.recomputes;
    const Log log = train_and_log(run, samples(Numbers(run.folder / "golden.safetensors")));
    const std::string prefix = std::string(GetParam().model) + (GetParam().full ? ".full." : ".lora.");
    const auto numbers = numbers_.with_prefix(prefix);
    ASSERT_EQ(numbers.size(), 5U);
    expect_logged(log, numbers);
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
