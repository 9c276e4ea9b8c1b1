// Tasks that look at whole texts, beside what PyTorch, transformers and PEFT made of the same
// (script/golden.d/tasks.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "checkpoint/safetensors.h"
#include "data/pooled_encoder.h"
#include "golden.h"
#include "models/label_head.h"
#include "models/pooled_output.h"
#include "models/registry.h"
#include "tests/support/temp_dir.h"
#include "train/model_saver.h"
#include "train/tasks/classification_loss.h"
#include "train/tasks/embedding_loss.h"
#include "train/tasks/reranker_loss.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

constexpr int kSteps = 20;
constexpr std::uint32_t kPerStep = 4;    // texts
constexpr double kFirstStep = 1e-5;      // relative
constexpr double kTwentiethStep = 1e-3;  // relative
constexpr double kTrained = 1e-3;        // absolute, of what twenty steps made

// How a step's texts fall into micro-batches.
struct Split {
  std::uint32_t batch = 2;
  std::uint32_t accumulation = 2;
};

struct Classification {
  const char* name;  // of the fixture
  const char* problem_type;
};
void PrintTo(const Classification& task, std::ostream* out) { *out << task.name; }

constexpr Classification kTasks[] = {{"seq-cls", "single_label_classification"},
                                     {"seq-cls-several", "multi_label_classification"},
                                     {"seq-cls-regression", "regression"},
                                     {"seq-cls-numbers", "regression"}};

// The texts with their labels, in the fixture's groups, or each a group of its own.
data::EncodedDataset labelled(const Numbers& numbers) {
  const auto ids = numbers.ints("ids");
  const auto labels = numbers.floats("labels");
  const auto counts = numbers.ints("label_counts");
  auto store = std::make_shared<data::MemoryStore>(
      std::vector<data::ColumnSpec>{{data::kLabel, data::Per::sample, TERN_F32, data::ColumnSpec::kAnyNumber, 0}});
  std::vector<std::int32_t> groups;
  if (!numbers.with_prefix("groups").empty()) groups = numbers.ints("groups");
  std::vector<bool> begins;
  for (const std::int32_t size : groups) {
    for (std::int32_t i = 0; i < size; ++i) begins.push_back(i == 0);
  }
  std::size_t token = 0;
  std::size_t label = 0;
  std::size_t text = 0;
  for (const std::int32_t length : numbers.ints("lengths")) {
    data::Sample sample;
    const auto size = static_cast<std::size_t>(length);
    const auto count = static_cast<std::size_t>(counts.at(text++));
    sample.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(token),
                      ids.begin() + static_cast<std::ptrdiff_t>(token + size));
    sample.weights.assign(size, 0.0F);
    sample.columns = {
        data::column_bytes(std::vector<float>(labels.begin() + static_cast<std::ptrdiff_t>(label),
                                              labels.begin() + static_cast<std::ptrdiff_t>(label + count)))};
    token += size;
    label += count;
    store->add(std::move(sample), 0, 0, begins.empty() || begins.at(text - 1));
  }
  data::EncodedDataset dataset;
  dataset.add(store);
  return dataset;
}

// What twenty steps of a task must be.
struct Training {
  explicit Training(const std::string& name)
      : numbers(fixture("tasks") / (name + ".safetensors")), dataset(labelled(numbers)) {}

  // The whole Trainer, whose losses and norms by step must be PyTorch's.
  void expect(models::LoadedModel& model, const train::ModelSaver& saver, const train::TrainingGraphOptions& graph,
              std::shared_ptr<const train::PooledLoss> loss, const std::string& kind, Split split) const;
  // What the model makes of the texts.
  [[nodiscard]] std::vector<float> outputs(models::LoadedModel& model, const train::TrainingGraphOptions& graph) const;

  Numbers numbers;
  data::EncodedDataset dataset;
};

class Tasks : public testing::TestWithParam<Classification> {
 protected:
  Tasks() : base_(fixture("llama-tied")), training_(GetParam().name) {}

  // With the head that PyTorch began with.
  [[nodiscard]] models::LoadedModel model(bool full) const {
    auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(base_).value());
    models::ModelConfig config = models::read_config(*source).value();
    models::add_label_head(config, {training_.numbers.shape("score")[0], GetParam().problem_type}).value();
    models::LoadOptions options;
    if (full) options.is_master = [](const std::string&) { return true; };
    auto loaded = models::load_model(std::move(config), source, cpu_device(), options).value();
    const auto score = training_.numbers.floats("score");
    loaded.store->upload(models::kScoreWeight, std::as_bytes(std::span(score)));
    return loaded;
  }
  void expect_training(models::LoadedModel& model, const train::ModelSaver& saver, train::TrainingGraphOptions graph,
                       const std::string& kind, Split split) const {
    graph.pooled = {models::Pooling::last, models::PooledOutput::labels};
    training_.expect(model, saver, graph,
                     train::classification_loss(data::parse_problem_type(GetParam().problem_type).value()), kind,
                     split);
    EXPECT_LE(max_difference(download(*model.store, models::kScoreWeight), training_.numbers.floats(kind + ".score")),
              kTrained);
  }
  [[nodiscard]] std::vector<float> logits(models::LoadedModel& model, train::TrainingGraphOptions graph) const {
    graph.pooled = {models::Pooling::last, models::PooledOutput::labels};
    return training_.outputs(model, graph);
  }

  std::filesystem::path base_;
  Training training_;
};

void Training::expect(models::LoadedModel& model, const train::ModelSaver& saver,
                      const train::TrainingGraphOptions& graph, std::shared_ptr<const train::PooledLoss> loss,
                      const std::string& kind, Split split) const {
  const test::TempDir scratch;
  train::TrainerOptions options;
  options.output_dir = scratch.path();
  options.max_steps = kSteps;
  options.save_strategy = train::When::no;
  options.graph = graph;
  options.pooled_loss = std::move(loss);
  data::BatchOptions batches;
  batches.per_device_batch_size = split.batch;
  batches.accumulation = split.accumulation;
  batches.shuffle = false;
  const auto log = train_steps(model, saver, dataset, batches, std::move(options));
  const auto &losses = log.losses, &norms = log.grad_norms;
  const auto want_losses = numbers.floats(kind + ".losses");
  const auto want_norms = numbers.floats(kind + ".grad_norms");
  ASSERT_EQ(losses.size(), kSteps);
  ASSERT_EQ(want_losses.size(), kSteps);
  // What is left of a loss near zero is a difference of numbers of its beginning's size.
  for (std::size_t i = 0; i < kSteps; ++i) {
    const double tolerance = i == 0 ? kFirstStep : kTwentiethStep;
    EXPECT_NEAR(losses[i], want_losses[i], tolerance * std::max<double>(want_losses[i], 0.1 * want_losses[0]))
        << "loss of step " << i + 1;
    EXPECT_NEAR(norms[i], want_norms[i], tolerance * std::max<double>(want_norms[i], 0.1 * want_norms[0]))
        << "gradient norm of step " << i + 1;
  }
}

std::vector<float> Training::outputs(models::LoadedModel& model, const train::TrainingGraphOptions& graph) const {
  train::TrainingGraphOptions options = graph;
  options.trainable.clear();
  data::BatchOptions batches;
  batches.per_device_batch_size = dataset.size();
  batches.shuffle = false;
  auto steps = data::SetSteps::create(dataset, batches).value();
  const data::MicroBatchBounds bounds = steps.bounds();
  options.capacity = {bounds.tokens, bounds.samples, bounds.supervised, bounds.longest};
  session::Runtime runtime;
  train::MicroBatchRunner runner(model, options, runtime);
  const auto plan = steps.plan(0, 0);
  return runner.run_pooled(steps.gather(plan.micro_batches.front()), {});
}

TEST_P(Tasks, TwentyFullSteps) {
  auto trained = model(true);
  train::TrainingGraphOptions graph;
  for (const auto& spec : models::parameters_of(trained.config)) graph.trainable.push_back(spec.name);
  const auto saver = train::full_model_saver(trained, base_, 1'000'000'000);
  const test::TempDir scratch;
  const auto written = scratch.path() / "written";
  std::filesystem::create_directory(written);
  expect_training(trained, *saver, graph, "full", {});
  saver->save(written);
  EXPECT_LE(max_difference(logits(trained, graph), training_.numbers.floats("full.logits")), kTrained);

  // What was written is a classification of its own, to the bit.
  auto again = load_any(written);
  EXPECT_EQ(again.config.head, models::ModelHead::classification);
  EXPECT_EQ(again.config.problem_type, GetParam().problem_type);
  EXPECT_EQ(again.config.labels.size(), static_cast<std::size_t>(training_.numbers.shape("score")[0]));
  EXPECT_FALSE(again.config.label_head_is_new);
  EXPECT_EQ(download(*again.store, models::kScoreWeight), download(*trained.store, models::kScoreWeight));
  EXPECT_EQ(logits(again, graph), logits(trained, graph));
}

TEST_P(Tasks, TwentyLoraSteps) {
  auto trained = model(false);
  const auto adapter = models::load_adapter(trained, "lora", base_ / "adapter").value();
  train::TrainingGraphOptions graph;
  graph.adapters = adapter.layers;
  for (const auto& [module, layer] : adapter.layers) {
    graph.trainable.push_back(layer.lora_a);
    graph.trainable.push_back(layer.lora_b);
  }
  graph.trainable.emplace_back(models::kScoreWeight);
  const auto saver = train::adapter_saver(trained, adapter);
  expect_training(trained, *saver, graph, "lora", {});
  EXPECT_LE(max_difference(logits(trained, graph), training_.numbers.floats("lora.logits")), kTrained);
}

// Law 4: the same step in one piece, in uneven pieces and text by text.
TEST_P(Tasks, AnySplitTrainsTheSame) {
  for (const Split split : {Split{4, 1}, Split{1, 4}}) {
    auto trained = model(true);
    train::TrainingGraphOptions graph;
    for (const auto& spec : models::parameters_of(trained.config)) graph.trainable.push_back(spec.name);
    const auto saver = train::full_model_saver(trained, base_, 1'000'000'000);
    expect_training(trained, *saver, graph, "full", split);
  }
}

INSTANTIATE_TEST_SUITE_P(Classifications, Tasks, testing::ValuesIn(kTasks),
                         [](const auto& info) { return name_of_test(info.param.name); });

// Embeddings and rerankers: full tuning, with a head where the task has one.
struct Comparison {
  const char* name;
  models::PooledOutput output;
  std::shared_ptr<const train::PooledLoss> (*loss)();
  Split split;
};
void PrintTo(const Comparison& task, std::ostream* out) { *out << task.name; }

template <train::EmbeddingLossType type>
std::shared_ptr<const train::PooledLoss> embedding() {
  train::EmbeddingLossOptions options;
  options.type = type;
  return train::embedding_loss(options);
}

template <train::RerankerLossType type>
std::shared_ptr<const train::PooledLoss> reranker() {
  train::RerankerLossOptions options;
  options.type = type;
  return train::reranker_loss(options);
}

using enum models::PooledOutput;
using Embedding = train::EmbeddingLossType;
using Reranker = train::RerankerLossType;
const Comparison kComparisons[] = {{"embedding-infonce", hidden, embedding<Embedding::infonce>, {1, 2}},
                                   {"embedding-negatives", hidden, embedding<Embedding::infonce>, {1, 1}},
                                   {"embedding-cosine", hidden, embedding<Embedding::cosine_similarity>, {1, 2}},
                                   {"embedding-contrastive", hidden, embedding<Embedding::contrastive>, {2, 1}},
                                   {"reranker-pointwise", labels, reranker<Reranker::pointwise>, {1, 2}},
                                   {"reranker-listwise", labels, reranker<Reranker::listwise>, {2, 1}},
                                   {"reranker-generative", verdict, reranker<Reranker::listwise>, {1, 2}}};

class Comparisons : public testing::TestWithParam<Comparison> {};

TEST_P(Comparisons, TwentySteps) {
  const auto base = fixture("llama-tied");
  const Training training(GetParam().name);
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(base).value());
  models::ModelConfig config = models::read_config(*source).value();
  if (GetParam().output == labels) models::add_label_head(config, {1, ""}).value();
  models::LoadOptions load;
  load.is_master = [](const std::string&) { return true; };
  auto model = models::load_model(std::move(config), source, cpu_device(), load).value();
  train::TrainingGraphOptions graph;
  graph.pooled = {models::Pooling::last, GetParam().output};
  if (GetParam().output == labels) {
    const auto score = training.numbers.floats("score");
    model.store->upload(models::kScoreWeight, std::as_bytes(std::span(score)));
  } else if (GetParam().output == verdict) {
    const auto verdicts = training.numbers.ints("verdicts");
    graph.pooled->yes = verdicts[0];
    graph.pooled->no = verdicts[1];
  }
  for (const auto& spec : models::parameters_of(model.config)) graph.trainable.push_back(spec.name);
  const auto saver = train::full_model_saver(model, base, 1'000'000'000);
  training.expect(model, *saver, graph, GetParam().loss(), "full", GetParam().split);
  EXPECT_LE(max_difference(training.outputs(model, graph), training.numbers.floats("full.outputs")), 10 * kTrained);
}

INSTANTIATE_TEST_SUITE_P(Tasks, Comparisons, testing::ValuesIn(kComparisons),
                         [](const auto& info) { return name_of_test(info.param.name); });

// The losses alone, in fp64.
std::vector<double> doubles(const checkpoint::Safetensors& file, const std::string& name) {
  const auto* tensor = file.tensor(name);
  if (tensor == nullptr || tensor->dtype->name != "F64") throw std::logic_error("no float64 " + name);
  std::vector<double> out(tensor->bytes.size() / sizeof(double));
  std::memcpy(out.data(), tensor->bytes.data(), out.size() * sizeof(double));
  return out;
}

std::shared_ptr<const train::PooledLoss> loss_of_case(const std::string& name) {
  if (name == "pointwise_reranker") return reranker<Reranker::pointwise>();
  train::RerankerLossOptions listwise{Reranker::listwise, 0.7, 2};
  if (name == "listwise_reranker") return train::reranker_loss(listwise);
  train::EmbeddingLossOptions options;
  if (!name.starts_with("infonce")) options.type = train::parse_embedding_loss(name).value();
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  options.use_batch = !has("alone");
  if (name == "infonce-alone-uneven") options.temperature = 0.5;
  if (has("hard")) options.hard_negatives = 1;
  options.mask_fake_negatives = has("masked");
  if (name == "infonce-masked") options.fake_negative_margin = 0.05;
  options.include_anchors = has("all-") || name == "infonce-all" || name == "infonce-masked-uneven";
  if (has("alone")) options.include_anchors = false;
  options.include_positives = name == "infonce-all" || name == "infonce-all-uneven";
  if (has("matryoshka")) options.dimensions = {{3, 0.5}, {6, 1.0}};
  return train::embedding_loss(options);
}

TEST(TaskLosses, AreMsSwifts) {
  const auto path = fixture("tasks") / "losses.safetensors";
  const Numbers numbers(path);
  const auto file = checkpoint::Safetensors::open(path).value();
  constexpr double kFp64 = 1e-12;  // absolute: some hundred products of numbers of size one
  const char* kCases[] = {
      "infonce",           "infonce-uneven",        "infonce-alone",      "infonce-alone-uneven", "infonce-hard",
      "infonce-masked",    "infonce-masked-uneven", "infonce-all",        "infonce-all-uneven",   "infonce-matryoshka",
      "cosine_similarity", "contrastive",           "online_contrastive", "pointwise_reranker",   "listwise_reranker"};
  for (const std::string name : kCases) {
    train::PooledTexts texts;
    texts.outputs = doubles(file, name + "/outputs");
    texts.width = static_cast<std::size_t>(numbers.shape(name + "/outputs")[1]);
    texts.labels.resize(texts.outputs.size() / texts.width);
    const auto labels = doubles(file, name + "/labels");
    for (const std::int32_t size : numbers.ints(name + "/groups")) {
      const std::size_t begin = texts.cu_groups.back();
      if (!name.starts_with("infonce")) texts.labels[begin] = {static_cast<float>(labels[texts.groups()])};
      texts.cu_groups.push_back(begin + static_cast<std::size_t>(size));
    }
    const auto value = loss_of_case(name)->value(texts);
    // A label is held in fp32.
    const double tolerance = name == "cosine_similarity" ? 1e-7 : kFp64;
    EXPECT_NEAR(value.loss, doubles(file, name + "/loss").at(0), tolerance) << name;
    const auto want = doubles(file, name + "/gradient");
    ASSERT_EQ(value.gradient.size(), want.size()) << name;
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(value.gradient[i], want[i], tolerance) << name << " " << i;
  }
}

}  // namespace
}  // namespace tern::golden
