// The gradient of an optimizer step does not depend on how the step's work is split, nor on what is computed again.
#include <gtest/gtest.h>

#include <cmath>

#include "golden.h"

namespace tern::golden {
namespace {

struct Split {
  const char* name;
  std::uint32_t batch;         // samples a micro-batch, or packs
  std::uint32_t accumulation;  // micro-batches a rank and step
  std::uint32_t world;
  std::uint32_t packing_length;  // 0: no packing
};

// Eight samples of 5 to 60 tokens with 1 to 48 targets: micro-batches of a split have very different shares of them.
constexpr Split kWhole = {"whole", 8, 1, 1, 0};
constexpr Split kSplits[] = {{"one by one", 1, 8, 1, 0},
                             {"in pairs", 2, 4, 1, 0},
                             {"in fours", 4, 2, 1, 0},
                             {"uneven", 3, 3, 1, 0},
                             {"over two ranks", 2, 2, 2, 0},
                             {"one by one over four ranks", 1, 2, 4, 0},
                             {"packed, one by one", 1, 8, 1, 64},
                             {"packed in pairs", 2, 4, 1, 80},
                             {"one pack", 1, 1, 1, 256}};

enum class Kind { full, lora };
struct Run {
  const char* name;
  Kind kind;
  tern_dtype compute;
  const char* model = "llama-tied";
};
void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

// Relative: fp32 sums in another order. Products in bf16 round the same numbers whatever the split, and sum in fp32
// too.
constexpr double kRounding = 2e-6;
constexpr Run kRuns[] = {{"full_fp32", Kind::full, TERN_F32},
                         {"lora_fp32", Kind::lora, TERN_F32},
                         {"full_bf16", Kind::full, TERN_BF16},
                         {"lora_bf16", Kind::lora, TERN_BF16},
                         {"experts_full_fp32", Kind::full, TERN_F32, "qwen3-moe-tied"},
                         {"experts_lora_bf16", Kind::lora, TERN_BF16, "qwen3-moe-tied"}};

class SplitLaw : public testing::TestWithParam<Run> {
 protected:
  void SetUp() override {
    const auto folder = fixture(GetParam().model);
    dataset_ = samples(Numbers(folder / "golden.safetensors"));
    model_ = load(folder, GetParam().kind == Kind::full);
    options_.graph.numerics = {GetParam().compute, TERN_F32, TERN_NEED_DETERMINISTIC};
    // Full training has no dropout of its own; with an adapter, each of its layers draws some.
    if (GetParam().kind == Kind::full) {
      for (const auto& spec : model_.architecture->parameters(model_.config))
        options_.graph.trainable.push_back(spec.name);
      return;
    }
    adapter_ = models::load_adapter(model_, "lora", folder / "adapter").value();
    options_.graph.adapters = adapter_.layers;
    options_.graph.dropout = true;
    options_.graph.lora_dropout = 0.05F;
    for (const auto& [module, layer] : adapter_.layers) {
      options_.graph.trainable.push_back(layer.lora_a);
      options_.graph.trainable.push_back(layer.lora_b);
    }
  }
  [[nodiscard]] Gradients gradients(const Split& split) {
    StepOptions options = options_;
    options.batches.per_device_batch_size = split.batch;
    options.batches.accumulation = split.accumulation;
    options.batches.world = split.world;
    options.batches.packing = split.packing_length > 0;
    options.batches.packing_length = split.packing_length;
    options.batches.shuffle = false;
    return step_gradients(model_, dataset_, options);
  }

  data::EncodedDataset dataset_;
  models::LoadedModel model_;
  models::LoadedAdapter adapter_;
  StepOptions options_;
};

class LoraSplitLaw : public SplitLaw {};

TEST_P(SplitLaw, AnySplitGivesTheSameGradient) {
  const Gradients whole = gradients(kWhole);
  for (const Split& split : kSplits) {
    const Gradients other = gradients(split);
    EXPECT_LE(worst_error(other, whole), kRounding) << split.name;
    EXPECT_NEAR(other.loss, whole.loss, kRounding * whole.loss) << split.name;
  }
}

// The mistake that many trainers made: each micro-batch's mean loss, averaged over the micro-batches.
TEST_P(SplitLaw, AveragingPerMicroBatchIsCaught) {
  const Gradients whole = gradients(kWhole);
  options_.average_micro_batches = true;
  EXPECT_LE(worst_error(gradients(kWhole), whole), kRounding) << "one micro-batch: nothing to average";
  for (const Split& split : kSplits) {
    if (std::string_view(split.name) == "one pack") continue;
    EXPECT_GT(worst_error(gradients(split), whole), 1e-2) << split.name;
  }
}

TEST_P(SplitLaw, RecomputedLayersGiveTheSameGradient) {
  const Gradients plain = gradients(kSplits[1]);
  options_.graph.gradient_checkpointing = true;
  const Gradients again = gradients(kSplits[1]);
  EXPECT_EQ(again.loss, plain.loss);
  EXPECT_EQ(worst_error(again, plain), 0);
  EXPECT_GT(again.num_nodes, plain.num_nodes);
  EXPECT_LT(again.live_peak, plain.live_peak);
}

// Else the law above would say nothing of dropout.
TEST_P(LoraSplitLaw, DropoutIsDrawn) {
  const Gradients dropped = gradients(kWhole);
  options_.graph.dropout = false;
  EXPECT_GT(worst_error(dropped, gradients(kWhole)), 1e-2);
}

std::string name_of(const testing::TestParamInfo<Run>& tested) { return tested.param.name; }
INSTANTIATE_TEST_SUITE_P(Runs, SplitLaw, testing::ValuesIn(kRuns), name_of);
INSTANTIATE_TEST_SUITE_P(Runs, LoraSplitLaw, testing::Values(kRuns[1], kRuns[3]), name_of);

}  // namespace
}  // namespace tern::golden
