// A loss or a gradient that isn't finite ends training, and the error says where it began.
#include "train/non_finite.h"

#include <limits>

#include "tiny_run.h"

namespace tern::train {
namespace {

// The line of the error that `run` ends with, which is no fault of the user's or the data's.
std::string failure_of(TinyRun& run) {
  try {
    (void)run.train();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().kind, ErrorKind::failed);
    return failure.error().line();
  }
  return "none";
}

void scale_weight(graph::TensorStore& store, const std::string& name, float factor) {
  auto values = download(store, name);
  for (float& value : values) value *= factor;
  upload(store, name, values);
}

constexpr const char* kFiniteMend =
    "; look at these samples, lower --learning_rate or train in --torch_dtype float32; checkpoints saved before are "
    "kept.";

TEST(Trainer, EndsWhereTheLossIsNotFiniteAndNamesTheWeight) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.batches.shuffle = false;
  run.options.save_steps = 1;
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  std::map<std::string, std::vector<float>> before;
  run.hooks.on_note = [&](const std::string&) {  // step 1 is done
    before = run.state();
    auto weight = download(*run.model.store, name);
    weight[7] = std::numeric_limits<float>::quiet_NaN();
    upload(*run.model.store, name, weight);
  };
  EXPECT_EQ(failure_of(run),
            "step 2, samples 4 (row:0), 5 (row:0): the loss is nan: the weight " + name +
                " holds nan; the model's file or the checkpoint is damaged: fetch it again, or start from another.");
  EXPECT_EQ(run.losses.size(), 1U);
  EXPECT_EQ(run.state(), before) << "the step that failed changed what is trained";
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-1");
}

TEST(Trainer, EndsWhereAnOpOverflowsAndNamesIt) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.batches.shuffle = false;
  scale_weight(*run.model.store, "model.layers.1.mlp.up_proj.weight", 1e38F);
  const std::string line = failure_of(run);
  EXPECT_TRUE(line.starts_with("step 1, samples 0 (row:0), 1 (row:0): the loss is nan: op ")) << line;
  EXPECT_NE(line.find(" model.layers.1.mlp.up_proj.weight first gives "), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with(kFiniteMend)) << line;
}

// The loss is finite: LoRA's B is zero, and what is large in the value's way is small in the output's.
TEST(Trainer, EndsWhereAGradientOverflowsAndNamesIt) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.batches.shuffle = false;
  const std::string module = "model.layers.1.self_attn.v_proj";
  scale_weight(*run.model.store, "model.layers.1.self_attn.o_proj.weight", 1e25F);
  scale_weight(*run.model.store, module + ".weight", 1e-25F);
  scale_weight(*run.model.store, run.adapter.layers.at(module).lora_a, 1e25F);
  std::map<std::string, std::vector<float>> before;
  for (const auto& name : run.options.graph.trainable) before[name] = download(*run.model.store, name);
  const std::string line = failure_of(run);
  EXPECT_TRUE(line.starts_with("step 1, samples 0 (row:0), 1 (row:0): the gradient of ")) << line;
  EXPECT_NE(line.find(": the gradient of " + run.adapter.layers.at(module).lora_b + " has "), std::string::npos)
      << line;
  EXPECT_NE(line.find(": op "), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with(kFiniteMend)) << line;
  for (const auto& [name, values] : before) {
    EXPECT_EQ(download(*run.model.store, name), values) << name;
    for (const auto& moment : {Optimizer::first_moment(name), Optimizer::second_moment(name), gradient_name(name)}) {
      for (const float value : download(*run.model.store, moment)) ASSERT_EQ(value, 0.0F) << moment;
    }
  }
}

// Each element is finite, and so is each micro-batch's norm, but float32 cannot hold the square of the step's. With
// every B zero the gradient is proportional to the As.
TEST(Trainer, EndsWhereOnlyTheSumOfGradientsOverflows) {
  const Scratch scratch;
  const auto small = [&] {
    auto run = std::make_unique<TinyRun>(scratch.path());
    run->batches.per_device_batch_size = 1;
    run->batches.accumulation = run->dataset.size();
    run->options.save_strategy = When::no;
    run->options.max_steps = 1;
    return run;
  };
  const auto plain = small();
  double norm = 0;
  plain->hooks.on_log = [&](const LogRow& row) { norm = row.grad_norm; };
  (void)plain->train();
  ASSERT_GT(norm, 0);
  const auto large = small();
  for (const auto& [module, layer] : large->adapter.layers) {
    scale_weight(*large->model.store, layer.lora_a, static_cast<float>(2e19 / norm));
  }
  EXPECT_EQ(
      failure_of(*large),
      "step 1: the gradients are finite, but their norm is inf, though only in the sum over 8 micro-batches; lower "
      "--learning_rate or train in --torch_dtype float32; checkpoints saved before are kept.");
}

TEST(Trainer, EndsWhereTheHeldOutLossIsNotFinite) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.validation = tiny_samples();
  run.options.eval_on_start = true;
  run.options.eval_batches.shuffle = false;
  auto weight = download(*run.model.store, "model.norm.weight");
  weight[0] = std::numeric_limits<float>::infinity();
  upload(*run.model.store, "model.norm.weight", weight);
  const std::string line = failure_of(run);
  EXPECT_TRUE(
      line.starts_with("step 0, held-out samples 0 (row:0): the loss is nan: the weight "
                       "model.norm.weight holds inf; "))
      << line;
}

}  // namespace
}  // namespace tern::train
