// Programs of the sizes that a run has are made at its start, and none of them ends it.
#include "train/micro_batch.h"

#include <gtest/gtest.h>

#include "backends/sim/extension.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::train {
namespace {

// The tiny model on the simulated device that computes padding, evaluated.
class Evaluation {
 public:
  explicit Evaluation(const char* personality) {
    auto source = std::make_shared<checkpoint::CheckpointSource>(
        checkpoint::CheckpointSource::open(golden("llama-tied")).value());
    model = models::load_model(models::read_config(*source).value(), source,
                               test::open_sim({{"TERN_SIM", personality}}), {})
                .value();
    TrainingGraphOptions options;
    options.capacity = {512, 64, 512, 300};
    runner = std::make_unique<MicroBatchRunner>(model, options, runtime);
  }
  // The first sample, over and over.
  double run(std::size_t times) {
    data::MicroBatchPlan plan;
    for (std::size_t i = 0; i < times; ++i) plan.samples.push_back(0);
    plan.tokens = static_cast<std::uint32_t>(times * dataset.info(0).length);
    return runner->run(data::gather(dataset, plan), {});
  }

  models::LoadedModel model;
  data::EncodedDataset dataset = tiny_samples();
  session::Runtime runtime;
  std::unique_ptr<MicroBatchRunner> runner;
};

TEST(MicroBatchRunner, TakesNoMemoryAfterItsStart) {
  Evaluation evaluation("ascend");
  const auto one = static_cast<std::int64_t>(evaluation.dataset.info(0).length);
  const std::int64_t times = 128 / one + 1;  // of another bucket
  (void)evaluation.runner->prepare(std::set<std::int64_t>{one, times * one});
  const std::uint64_t free = evaluation.model.store->device()->memory().free;
  const double loss = evaluation.run(1);
  EXPECT_NEAR(evaluation.run(static_cast<std::size_t>(times)), static_cast<double>(times) * loss, 1e-3 * loss);
  EXPECT_EQ(evaluation.model.store->device()->memory().free, free);
}

TEST(MicroBatchRunner, ASizeThatLacksMemoryIsComputedByALargerProgram) {
  Evaluation evaluation("ascend");
  (void)evaluation.runner->prepare();
  const auto& device = *evaluation.model.store->device();
  const auto* faults = device.backend().extension<tern_sim_faults>("sim.faults");
  ASSERT_EQ(faults->arm(device.raw(), "host@1"), TERN_OK);
  const double loss = evaluation.run(1);
  Evaluation spared("ascend");
  EXPECT_NEAR(loss, spared.run(1), 1e-6 * loss);
}

}  // namespace
}  // namespace tern::train
