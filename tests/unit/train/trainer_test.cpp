#include "train/trainer.h"

#include <cmath>
#include <fstream>
#include <set>

#include "base/strings.h"
#include "io/atomic_dir.h"
#include "tiny.h"
#include "train/lora_init.h"
#include "train/model_saver.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

// A model with an adapter of its own, trained into `output`.
struct TinyRun {
  explicit TinyRun(fs::path output_dir, const fs::path& resume_from = {}) : output(std::move(output_dir)) {
    models::LoadOptions load;
    load.fp32_masters = true;  // a test may write on the weights
    model = tiny_model(load);
    if (resume_from.empty()) {
      adapter.config.rank = 4;
      adapter.config.dropout = 0.05;
      const auto modules = models::select_modules(model, {"all-linear"}).value();
      adapter.layers = models::create_adapter(model, "lora", adapter.config, modules);
      init_adapter(*model.store, adapter, 42);
    } else {
      adapter = models::load_adapter(model, "lora", resume_from).value();
    }
    options.output_dir = output;
    options.resume_from = resume_from;
    options.max_steps = 6;
    options.logging_steps = 2;
    options.save_steps = 2;
    options.learning_rate = 1e-2;
    batches.per_device_batch_size = 2;
    batches.accumulation = 2;
    options.graph.adapters = adapter.layers;
    options.graph.dropout = true;
    options.graph.lora_dropout = 0.05F;
    for (const auto& [module, layer] : adapter.layers) {
      options.graph.trainable.push_back(layer.lora_a);
      options.graph.trainable.push_back(layer.lora_b);
    }
  }
  TrainResult train() {
    const auto saver = adapter_saver(model, adapter);
    hooks.on_step = [this](std::int64_t, std::int64_t, double loss) { losses.push_back(loss); };
    auto steps = data::SetSteps::create(dataset, batches).value();
    return Trainer(model, *saver, steps, validation, options, runtime, hooks).run();
  }
  // Everything that training changes.
  [[nodiscard]] std::map<std::string, std::vector<float>> state() const {
    std::map<std::string, std::vector<float>> out;
    for (const auto& name : options.graph.trainable) {
      for (const auto& stored : {name, Optimizer::first_moment(name), Optimizer::second_moment(name)})
        out[stored] = download(*model.store, stored);
    }
    return out;
  }

  fs::path output;
  models::LoadedModel model;
  models::LoadedAdapter adapter;
  data::EncodedDataset dataset = tiny_samples();
  data::EncodedDataset validation;
  data::BatchOptions batches;
  TrainerOptions options;
  TrainerHooks hooks;
  session::Runtime runtime;
  std::vector<double> losses;
};

TEST(Trainer, ResumesToTheBitFromEachCheckpoint) {
  const Scratch scratch;
  TinyRun whole(scratch.path() / "whole");
  fs::create_directories(whole.output);
  const TrainResult result = whole.train();
  ASSERT_EQ(whole.losses.size(), 6U);
  EXPECT_EQ(fs::path(result.last_checkpoint).filename(), "checkpoint-6");
  for (const int done : {2, 4}) {
    const fs::path folder = scratch.path() / cat("from-", done);
    fs::create_directories(folder);
    TinyRun rest(folder, whole.output / cat("checkpoint-", done));
    (void)rest.train();
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + done, whole.losses.end())) << done;
    EXPECT_EQ(rest.state(), whole.state()) << done;
  }
}

TEST(Trainer, LearnsNothingAtARateOfZero) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.learning_rate = 0;
  run.options.save_strategy = When::no;
  std::map<std::string, std::vector<float>> before;
  for (const auto& name : run.options.graph.trainable) before[name] = download(*run.model.store, name);
  (void)run.train();
  for (const auto& [name, values] : before) EXPECT_EQ(download(*run.model.store, name), values) << name;
}

TEST(Trainer, SavesWhereItIsStopped) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.save_steps = 100;
  run.hooks.should_stop = [&] { return run.losses.size() == 3; };
  const TrainResult result = run.train();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(run.losses.size(), 3U);
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-3");
}

TEST(Trainer, KeepsAsManyCheckpointsAsAsked) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.save_steps = 1;
  run.options.save_total_limit = 2;
  (void)run.train();
  const auto kept = list_checkpoints(scratch.path());
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].first, 5);
  EXPECT_EQ(kept[1].first, 6);
}

TEST(Trainer, EvaluatesWithoutDropoutAndChangesNothingByIt) {
  const Scratch scratch;
  TinyRun plain(scratch.path() / "plain");
  TinyRun watched(scratch.path() / "watched");
  for (TinyRun* run : {&plain, &watched}) {
    fs::create_directories(run->output);
    run->options.save_strategy = When::no;
  }
  watched.validation = tiny_samples();
  watched.options.eval_strategy = When::steps;
  watched.options.eval_steps = 2;
  watched.options.eval_on_start = true;
  std::vector<double> held_out;
  watched.hooks.on_log = [&](const LogRow& row) {
    if (row.eval_loss) held_out.push_back(*row.eval_loss);
  };
  (void)plain.train();
  (void)watched.train();
  EXPECT_EQ(watched.losses, plain.losses);
  ASSERT_EQ(held_out.size(), 4U);
  EXPECT_LT(held_out.back(), held_out.front());  // of the samples that it trains on
}

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
    "kept";

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
            "step 2, samples 4 (row:0), 5 (row:0): expected a finite loss, found nan: the weight " + name +
                " holds nan; the model's file or the checkpoint is damaged: fetch it again, or start from another");
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
  EXPECT_TRUE(line.starts_with("step 1, samples 0 (row:0), 1 (row:0): expected a finite loss, found nan: op ")) << line;
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
  EXPECT_TRUE(line.starts_with("step 1, samples 0 (row:0), 1 (row:0): expected finite gradients, found ")) << line;
  EXPECT_NE(line.find(" in that of " + run.adapter.layers.at(module).lora_b), std::string::npos) << line;
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
      "step 1: expected finite gradients, found finite ones whose norm is inf in float32: only in the sum over 8 "
      "micro-batches; lower --learning_rate or train in --torch_dtype float32; checkpoints saved before are kept");
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
      line.starts_with("step 0, held-out samples 0 (row:0): expected a finite loss, found nan: the weight "
                       "model.norm.weight holds inf; "))
      << line;
}

TEST(Checkpoint, AtFaultIsPassedOver) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  (void)run.train();
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-6");
  // One bit of the newest, and the middle one cut short.
  const fs::path weights = scratch.path() / "checkpoint-6" / "adapter_model.safetensors";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-5, std::ios::end);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-5, std::ios::end);
  file.put(byte);
  file.close();
  fs::resize_file(scratch.path() / "checkpoint-4" / "optimizer.safetensors", 100);
  EXPECT_EQ(newest_sound_checkpoint(scratch.path()).filename(), "checkpoint-2");
  EXPECT_FALSE(read_train_state(scratch.path() / "checkpoint-6").ok());
  EXPECT_FALSE(read_train_state(scratch.path() / "checkpoint-4").ok());
  EXPECT_TRUE(read_train_state(scratch.path() / "checkpoint-2").ok());
}

// Sound by its manifest, and yet not what this program writes.
TEST(Checkpoint, RefusesStateOfAnotherProgram) {
  const Scratch scratch;
  for (const char* state : {"{}", "[1]", R"({"global_step": "three"})"}) {
    const fs::path directory = scratch.path() / "checkpoint-1";
    auto target = io::AtomicDir::begin(directory, io::AtomicDir::Existing::replace).value();
    std::ofstream(target.path() / "trainer_state.json") << state;
    target.commit().value();
    const auto read = read_train_state(directory);
    ASSERT_FALSE(read.ok()) << state;
    EXPECT_EQ(read.error().kind, ErrorKind::data);
    const std::string line = read.error().line();
    EXPECT_EQ(line.rfind((directory / "trainer_state.json").string() + ": expected the state of a tern run, found ", 0),
              0U)
        << line;
    EXPECT_TRUE(line.ends_with("; resume from a checkpoint that tern wrote")) << line;
  }
}

TEST(Checkpoint, RefusesStateOfOtherParameters) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  (void)run.train();
  const fs::path checkpoint = scratch.path() / "checkpoint-6";
  graph::TensorStore store(cpu_device());
  store.create("adam_m/nobody", make_desc(TERN_F32, {4}));
  const Status missing = read_optimizer(checkpoint, store, {"adam_m/nobody"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::data);
  const std::string known = Optimizer::first_moment(run.options.graph.trainable[0]);
  store.create(known, make_desc(TERN_F32, {3}));
  EXPECT_FALSE(read_optimizer(checkpoint, store, {known}).ok()) << "another shape";
}

TEST(LoraInit, IsUniformAndBelongsToItsModule) {
  auto model = tiny_model();
  models::LoadedAdapter adapter;
  adapter.config.rank = 32;
  const auto modules = models::select_modules(model, {"all-linear"}).value();
  adapter.layers = models::create_adapter(model, "lora", adapter.config, modules);
  init_adapter(*model.store, adapter, 42);
  std::set<std::vector<float>> distinct;
  for (const auto& [module, layer] : adapter.layers) {
    const auto a = download(*model.store, layer.lora_a);
    const double bound = 1.0 / std::sqrt(static_cast<double>(model.store->at(layer.lora_a).desc.shape[1]));
    double sum = 0;
    double squares = 0;
    for (const float value : a) {
      EXPECT_LE(std::abs(value), bound * 1.000001);
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const auto count = static_cast<double>(a.size());
    EXPECT_NEAR(sum / count, 0, 5 * bound / std::sqrt(3 * count)) << module;
    EXPECT_NEAR(squares / count, bound * bound / 3, 0.1 * bound * bound) << module;
    for (const float value : download(*model.store, layer.lora_b)) EXPECT_EQ(value, 0.0F);
    distinct.insert(a);
  }
  EXPECT_EQ(distinct.size(), adapter.layers.size());
  // One module alone starts as it does among others; another seed differs.
  auto alone_model = tiny_model();
  models::LoadedAdapter alone;
  alone.config.rank = 32;
  const auto one = models::select_modules(alone_model, {"model.layers.1.mlp.up_proj"}).value();
  alone.layers = models::create_adapter(alone_model, "lora", alone.config, one);
  const auto& name = alone.layers.begin()->second.lora_a;
  init_adapter(*alone_model.store, alone, 42);
  EXPECT_EQ(download(*alone_model.store, name), download(*model.store, name));
  init_adapter(*alone_model.store, alone, 43);
  EXPECT_NE(download(*alone_model.store, name), download(*model.store, name));
}

TEST(DropoutKey, DiffersInEachOfItsParts) {
  std::set<std::int64_t> keys;
  for (std::uint64_t seed : {1, 2}) {
    for (std::uint64_t epoch : {0, 1}) {
      for (std::uint64_t sample = 0; sample < 20; ++sample) {
        for (std::uint64_t position = 0; position < 50; ++position)
          keys.insert(dropout_key(seed, epoch, sample, position));
      }
    }
  }
  EXPECT_EQ(keys.size(), 2U * 2 * 20 * 50);
}

}  // namespace
}  // namespace tern::train
