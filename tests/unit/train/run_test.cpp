// A whole fine-tuning run from C++, with nothing of cli/.
#include "train/run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "io/json.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/train/tiny.h"
#include "train/loss.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// More than the tiny model has rows for.
std::vector<std::string> hundred_tokens() {
  std::vector<std::string> out;
  for (int i = 0; i < 100; ++i) out.push_back(cat("<", i, ">"));
  return out;
}

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    e2e::write_tiny_model(path("model"));
    std::ofstream(path("rows.jsonl")) << e2e::sums(32);
    // What no sum answers: the more sums are learned, the less likely it gets.
    std::ofstream(path("held-out.jsonl"))
        << "{\"query\": \"1 + 2\", \"response\": \"" << std::string(200, '~') << "\"}\n";
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }
  [[nodiscard]] RunOptions options(const std::string& output) const {
    RunOptions o;
    o.session.model = path("model").string();
    o.session.runtime.backend_file = fs::path(TERN_PLUGIN_DIR) / "libtern_cpu.so";
    o.session.dtype = TERN_F32;
    o.data.dataset = {path("rows.jsonl").string()};
    o.data.cache_directory = path("cache");
    o.batches.per_device_batch_size = 4;
    o.tuner.lora_rank = 4;
    o.trainer.max_steps = 6;
    o.trainer.save_steps = 3;
    o.trainer.learning_rate = 1e-2;
    o.trainer.eval_batches.shuffle = false;
    o.output_dir = path(output);
    o.add_version = false;
    return o;
  }
  // A run that stops after half of its steps and goes on ends as one that never stopped, and took what was planned.
  void expect_resumes_to_the_bit(const std::function<void(RunOptions&)>& change,
                                 const std::string& weights = "adapter_model") const {
    const auto with = [&](const std::string& output) {
      auto o = options(output);
      change(o);
      return o;
    };
    const auto whole = Run::open(with("whole")).value();
    (void)whole->train().value();
    std::int64_t trained = 0;
    for (const auto& name : whole->tuner().trainable) {
      trained += num_elements(whole->session().model.store->at(name).desc);
    }
    EXPECT_EQ(Run::plan(with("planned")).value().plan.trained_parameters, trained);
    fs::create_directories(path("cut"));
    fs::copy(path("whole/checkpoint-3"), path("cut/checkpoint-3"), fs::copy_options::recursive);
    auto resumed = with("cut");
    resumed.resume_from = "last";
    (void)Run::open(resumed).value()->train().value();
    for (const std::string& file : {weights + ".safetensors", std::string("optimizer.safetensors")}) {
      EXPECT_NE(read(path("whole/checkpoint-6") / file), read(path("whole/checkpoint-3") / file)) << file;
      EXPECT_TRUE(read(path("whole/checkpoint-6") / file) == read(path("cut/checkpoint-6") / file)) << file;
    }
  }
  // The tiny model, whose attention gets biases.
  void add_biases() const {
    const auto file = checkpoint::Safetensors::open(path("model/model.safetensors")).value();
    std::vector<checkpoint::TensorSpec> specs;
    for (const auto& tensor : file.tensors())
      specs.push_back({tensor.name, std::string(tensor.dtype->name), tensor.shape});
    std::map<std::string, std::vector<float>> biases;
    for (const auto& tensor : file.tensors()) {
      const std::string& name = tensor.name;
      if (name.find("self_attn") == std::string::npos) continue;
      const std::string bias = name.substr(0, name.size() - std::string("weight").size()) + "bias";
      specs.push_back({bias, "F32", {tensor.shape[0]}});
      biases[bias].assign(static_cast<std::size_t>(tensor.shape[0]), 0.01F);
    }
    fs::create_directories(path("biased"));
    auto writer = checkpoint::SafetensorsWriter::create(path("biased"), specs, {}).value();
    for (const auto& tensor : file.tensors()) writer.write(tensor.name, tensor.bytes).value();
    for (const auto& [name, values] : biases) writer.write(name, std::as_bytes(std::span(values))).value();
    writer.finish().value();
    fs::copy(path("biased/model.safetensors"), path("model/model.safetensors"), fs::copy_options::overwrite_existing);
    io::Json config = io::read_json_file(path("model/config.json")).value();
    config["attention_bias"] = true;
    std::ofstream(path("model/config.json")) << io::write_json(config);
  }
  [[nodiscard]] static std::string refused(RunOptions o) {
    const auto run = Run::open(std::move(o));
    return run.ok() ? std::string() : run.error().line();
  }
  Scratch scratch_;
};

TEST_F(RunTest, TrainsAndResumesToTheBit) {
  std::vector<double> losses;
  TrainerHooks hooks;
  hooks.on_step = [&](const StepProgress& at) { losses.push_back(at.loss); };
  const auto whole = Run::open(options("whole"), hooks).value();
  EXPECT_EQ(whole->total_steps(), 6);
  EXPECT_EQ(whole->tuner().adapter.config.rank, 4);
  const TrainResult result = whole->train().value();
  EXPECT_EQ(result.last_checkpoint, path("whole/checkpoint-6").string());
  ASSERT_EQ(losses.size(), 6U);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(read(path("whole/args.json")), "{}\n");

  fs::create_directories(path("cut"));
  fs::copy(path("whole/checkpoint-3"), path("cut/checkpoint-3"), fs::copy_options::recursive);
  auto resumed = options("cut");
  resumed.resume_from = "last";
  EXPECT_EQ(Run::open(resumed).value()->train().value().last_checkpoint, path("cut/checkpoint-6").string());
  for (const char* file : {"adapter_model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(read(path("whole/checkpoint-6") / file) == read(path("cut/checkpoint-6") / file)) << file;
  }
}

// So does what is trained beside linear layers, of embedding and head apart where they are one matrix.
TEST_F(RunTest, ResumesModulesAndEmbeddingsToTheBit) {
  expect_resumes_to_the_bit([](RunOptions& o) {
    o.tuner.target_modules = {"q_proj", "embed_tokens"};
    o.tuner.modules_to_save = {"all-norm", "lm_head"};
  });
}

TEST_F(RunTest, ResumesDoraToTheBit) {
  expect_resumes_to_the_bit([](RunOptions& o) { o.tuner.use_dora = true; });
}

TEST_F(RunTest, ResumesBiasesToTheBit) {
  auto none = options("none");
  none.tuner.lora_bias = models::TrainedBiases::all;
  EXPECT_NE(refused(none).find("--lora_bias all trains nothing: the model has no biases"), std::string::npos);
  add_biases();
  none.tuner.lora_bias = models::TrainedBiases::lora_only;
  none.tuner.target_modules = {"up_proj"};
  EXPECT_NE(refused(none).find("trains nothing: no layer with an adapter has a bias"), std::string::npos);
  expect_resumes_to_the_bit([](RunOptions& o) {
    o.tuner.target_modules = {"q_proj"};
    o.tuner.lora_bias = models::TrainedBiases::all;
  });
  auto other = options("cut");
  other.resume_from = "last";
  other.tuner.lora_bias = models::TrainedBiases::none;
  EXPECT_NE(refused(other).find("--lora_bias gives none, and the checkpoint was trained with all"), std::string::npos);
}

TEST_F(RunTest, ResumesVeraToTheBit) {
  expect_resumes_to_the_bit([](RunOptions& o) {
    o.tuner.kind = models::AdapterKind::vera;
    o.tuner.lora_dropout = 0.1;
  });
  auto other = options("cut");
  other.resume_from = "last";
  other.tuner.lora_rank.reset();
  other.tuner.vera_d_initial = 0.5;
  EXPECT_NE(refused(other).find("--vera_d_initial gives 0.5, and the checkpoint was trained with 0.1"),
            std::string::npos);
}

TEST_F(RunTest, ResumesNewTokensToTheBit) {
  const auto vocabulary =
      models::read_config(checkpoint::CheckpointSource::open(path("model")).value()).value().vocab_size;
  expect_resumes_to_the_bit([](RunOptions& o) {
    o.session.new_special_tokens = hundred_tokens();
    o.tuner.target_modules = {"q_proj"};
    o.tuner.modules_to_save = {"embed_tokens"};
  });
  const auto file = checkpoint::Safetensors::open_directory(path("cut/checkpoint-6"), "adapter_model").value();
  const auto* table = file.tensor("base_model.model.model.embed_tokens.weight");
  ASSERT_NE(table, nullptr);
  EXPECT_GT(table->shape[0], vocabulary);
  EXPECT_EQ(table->shape[0] % 128, 0);
  auto other = options("cut");
  other.resume_from = "last";
  EXPECT_NE(refused(other), "") << "a model without them";
}

// The checkpoint is a model of its own, with a tokenizer that has the tokens.
TEST_F(RunTest, FullTuningWritesNewTokens) {
  expect_resumes_to_the_bit(
      [](RunOptions& o) {
        o.session.new_special_tokens = hundred_tokens();
        o.tuner.type = TunerType::full;
        o.tuner.lora_rank.reset();
        o.tuner.selection.freeze_parameters = {"model.layers.0"};
        o.trainer.learning_rate = 1e-3;
      },
      "model");
  const auto written = path("whole/checkpoint-6");
  const auto source = checkpoint::CheckpointSource::open(written).value();
  const auto config = models::read_config(source).value();
  EXPECT_EQ(config.vocab_size % 128, 0);
  EXPECT_EQ(source.find("model.embed_tokens.weight")->shape[0], config.vocab_size);
  const auto tokenizer = tokenizer::Tokenizer::from_directory(written).value();
  EXPECT_LT(tokenizer.piece_to_id("<99>").value(), config.vocab_size);
  EXPECT_EQ(tokenizer.encode("<17>", false).size(), 1U);
}

// What it begins as is in the checkpoint, and no gradient is looked at again.
TEST_F(RunTest, LoraGaResumesToTheBit) {
  const auto with = [&](const std::string& output) {
    auto o = options(output);
    o.tuner.init_weights = "lora-ga";
    o.tuner.lora_rank = 2;
    o.tuner.use_dora = true;
    return o;
  };
  std::vector<double> losses;
  TrainerHooks hooks;
  hooks.on_step = [&](const StepProgress& at) { losses.push_back(at.loss); };
  const auto whole = Run::open(with("whole"), hooks).value();
  EXPECT_EQ(whole->tuner().adapter.config.alpha, 8);
  (void)whole->train().value();
  (void)Run::open(options("plain"), hooks).value()->train().value();
  EXPECT_NEAR(losses.at(0), losses.at(6), 1e-5 * losses.at(6));  // the model begins as it is
  EXPECT_NE(losses.at(1), losses.at(7));
  fs::create_directories(path("cut"));
  fs::copy(path("whole/checkpoint-3"), path("cut/checkpoint-3"), fs::copy_options::recursive);
  auto resumed = with("cut");
  resumed.resume_from = "last";
  const auto rest = Run::open(resumed).value();
  EXPECT_FALSE(rest->tuner().begins_by_gradients);
  (void)rest->train().value();
  for (const char* file : {"adapter_model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(read(path("whole/checkpoint-6") / file) == read(path("cut/checkpoint-6") / file)) << file;
  }
  EXPECT_NE(read(path("cut/checkpoint-6/adapter_config.json")).find("\"r\": 4"), std::string::npos);
}

TEST_F(RunTest, LoraGaNeedsGradients) {
  auto o = options("out");
  o.tuner.init_weights = "lora-ga";
  o.tuner.lora_rank = 2;
  auto few = o;
  few.tuner.lora_ga.batch_size = 33;
  few.tuner.lora_ga.iters = 1;
  EXPECT_NE(refused(few).find("looks at 33 samples, and there are 32"), std::string::npos);
  auto stream = o;
  stream.streaming = true;
  EXPECT_NE(refused(stream).find("--init_weights lora-ga and --streaming"), std::string::npos);
  auto task = o;
  task.task.type = TaskType::embedding;
  EXPECT_NE(refused(task).find("of a loss of tokens"), std::string::npos) << refused(task);
  auto rounded = o;
  rounded.session.quantise = models::QuantiseOptions{};
  EXPECT_NE(refused(rounded).find("which is quantised"), std::string::npos) << refused(rounded);
  auto wide = o;
  wide.tuner.lora_rank = 64;
  EXPECT_NE(refused(wide).find("needs a rank of at most"), std::string::npos) << refused(wide);
  auto head = o;
  head.tuner.target_modules = {"lm_head"};
  EXPECT_NE(refused(head).find("its weight is the embedding's"), std::string::npos) << refused(head);
}

TEST_F(RunTest, LisaHasAsManyLayersAsTheModel) {
  auto o = options("out");
  o.tuner.type = TunerType::full;
  o.trainer.lisa = LisaOptions{99, 1};
  EXPECT_NE(refused(o).find("--lisa_activated_layers is 99"), std::string::npos);
}

TEST_F(RunTest, ALayerThatIsTrainedInFullGetsNoAdapter) {
  auto o = options("out");
  o.tuner.target_modules = {"q_proj"};
  o.tuner.modules_to_save = {"q_proj"};
  EXPECT_NE(refused(o).find("--modules_to_save trains every layer in full that --target_modules names"),
            std::string::npos);
}

TEST_F(RunTest, EndsOnTheBestWeights) {
  for (const TunerType type : {TunerType::lora, TunerType::full}) {
    auto o = options(type == TunerType::full ? "full" : "lora");
    o.tuner.type = type;
    o.data.val_dataset = {path("held-out.jsonl").string()};
    o.trainer.eval_strategy = When::steps;
    o.trainer.eval_steps = 1;
    o.trainer.save_steps = 1;
    o.trainer.warmup_steps = 6;  // the first step changes nothing
    o.load_best_model_at_end = true;
    const auto run = Run::open(o).value();
    const TrainResult result = run->train().value();
    ASSERT_EQ(result.best_checkpoint, (o.output_dir / "checkpoint-1").string());
    const std::string name = run->tuner().trainable.front();
    const auto held = download(*run->session().model.store, name);
    run->tuner().load(run->session().model, result.last_checkpoint);
    EXPECT_NE(held, download(*run->session().model.store, name)) << "the last weights were kept";
    run->tuner().load(run->session().model, result.best_checkpoint);
    EXPECT_EQ(held, download(*run->session().model.store, name));
  }
}

// A checkpoint of rank 4 cannot go on with another adapter: what was asked for would be silently left out.
TEST_F(RunTest, ACheckpointKeepsItsAdapter) {
  ASSERT_TRUE(Run::open(options("out")).value()->train().ok());
  const auto changed = [&](const std::function<void(TunerOptions&)>& change) {
    auto o = options("out");
    o.resume_from = "last";
    change(o.tuner);
    return refused(o);
  };
  EXPECT_EQ(changed([](TunerOptions& t) { t.lora_rank = 8; }),
            "--lora_rank gives 8, and the checkpoint was trained with 4; drop the flag, or start a new run.");
  EXPECT_NE(changed([](TunerOptions& t) { t.lora_alpha = 7; }).find("the checkpoint was trained with 32"),
            std::string::npos);
  EXPECT_NE(changed([](TunerOptions& t) { t.lora_dropout = 0.5; }).find("--lora_dropout"), std::string::npos);
  EXPECT_NE(changed([](TunerOptions& t) { t.use_rslora = true; }).find("--use_rslora"), std::string::npos);
  EXPECT_NE(changed([](TunerOptions& t) {
              t.target_modules = {"q_proj"};
            }).find("--target_modules gives 2 layers, and the checkpoint was trained with another choice, of 14; "),
            std::string::npos);
  EXPECT_EQ(changed([](TunerOptions& t) { t.target_modules = {"all-linear"}; }), "");
  EXPECT_NE(
      changed([](TunerOptions& t) { t.modules_to_save = {"norm"}; }).find("--modules_to_save gives norm, and the"),
      std::string::npos);
  EXPECT_NE(changed([](TunerOptions& t) { t.target_parameters = {"experts.down_proj"}; }).find("--target_parameters"),
            std::string::npos);
}

// What balances a router's experts is changed by no gradient.
TEST(TrainedParameters, AreNoBuffers) {
  const auto folder = fs::path(TERN_TEST_DATA) / "golden" / "glm4-moe-tied";
  const auto config = models::read_config(checkpoint::CheckpointSource::open(folder).value()).value();
  const auto names = trained_parameters({}, config).value();
  EXPECT_EQ(names.size() + 2, models::find_architecture(config.architecture)->parameters(config).size());
  EXPECT_TRUE(std::none_of(names.begin(), names.end(),
                           [](const std::string& name) { return name.ends_with("e_score_correction_bias"); }));
}

// Nor an indexer's weights, which only choose.
TEST(TrainedParameters, AreNoIndexers) {
  const auto folder = fs::path(TERN_TEST_DATA) / "golden" / "deepseek-v32-tied";
  const auto config = models::read_config(checkpoint::CheckpointSource::open(folder).value()).value();
  const auto names = trained_parameters({}, config).value();
  EXPECT_TRUE(std::none_of(names.begin(), names.end(),
                           [](const std::string& name) { return name.find(".indexer.") != std::string::npos; }));
  EXPECT_FALSE(names.empty());
}

TEST_F(RunTest, PackingFillsTheLongestSampleWhereNoLengthIsGiven) {
  auto o = options("packed");
  o.batches.packing = true;
  o.batches.accumulation = 1;
  o.batches.per_device_batch_size = 1;
  o.trainer.max_steps = -1;
  o.trainer.num_train_epochs = 1;
  // 32 samples of some 24 tokens in packs of 512.
  EXPECT_LE(Run::open(o).value()->total_steps(), 3);
}

TEST_F(RunTest, ALossIsKnownByItsName) {
  for (const Loss& loss : losses()) EXPECT_EQ(find_loss(loss.name).value()->build, loss.build);
  auto o = options("out");
  o.trainer.graph.loss = "cross-entropy";
  EXPECT_EQ(refused(o), "the loss \"cross-entropy\" is unknown; choose cross_entropy or dft.");
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
}  // namespace tern::train
