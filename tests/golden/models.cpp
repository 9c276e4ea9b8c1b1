// Tiny random models of transformers: logits, loss, gradients, 20 steps of training.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "accel/backend.h"
#include "base/strings.h"
#include "checkpoint/convert.h"
#include "golden.h"
#include "models/gguf_names.h"
#include "models/stored_tensors.h"
#include "tests/support/temp_dir.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using Scratch = test::TempDir;

constexpr int kSteps = 20;
constexpr double kLogits = 1e-4;         // absolute
constexpr double kFirstStep = 1e-5;      // relative
constexpr double kTwentiethStep = 1e-3;  // relative

// A tiny model, from its directory or from the GGUF that tern makes of it.
struct Tiny {
  const char* model;
  bool gguf;
};
void PrintTo(const Tiny& tiny, std::ostream* out) { *out << tiny.model << (tiny.gguf ? " as GGUF" : ""); }

struct Wanted {
  std::vector<float> values;
  double bound = kFirstStep;  // relative
};

// The fixture's tensors of that prefix. Where they were computed in float64, one may be off by twice what PyTorch's own
// float32 is off by, if that is more.
std::map<std::string, Wanted> wanted(const Numbers& numbers, const std::string& prefix) {
  std::map<std::string, Wanted> out;
  for (auto& [name, values] : numbers.with_prefix(prefix)) out[name].values = std::move(values);
  for (const auto& [name, error] : numbers.with_prefix("float32_error/" + prefix))
    out.at(name).bound = std::max<double>(kFirstStep, 2.0 * error[0]);
  return out;
}

// Of every parameter, with the rows of its weight as the model has them.
std::map<std::string, Wanted> wanted_gradients(const Numbers& numbers, const models::LoadedModel& model) {
  auto out = wanted(numbers, "gradient/");
  for (const auto& spec : model.architecture->parameters(model.config)) {
    if (spec.hugging_face.parts.heads > 0)
      models::reorder_rows(spec.hugging_face, spec.shape.back(), out.at(spec.name).values, false);
  }
  return out;
}

class TinyModel : public testing::TestWithParam<Tiny> {
 protected:
  TinyModel() : folder_(fixture(GetParam().model)), path_(folder_), numbers_(folder_ / "golden.safetensors") {
    if (!GetParam().gguf) return;
    path_ = write_gguf(folder_, "f32", twin_);
  }

  [[nodiscard]] StepOptions first_step() const {
    StepOptions options;
    options.batches.per_device_batch_size = 2;
    options.batches.accumulation = 2;
    options.batches.shuffle = false;
    return options;
  }
  [[nodiscard]] static std::vector<std::string> parameters(const models::LoadedModel& model) {
    std::vector<std::string> names;
    for (const auto& spec : model.architecture->parameters(model.config)) {
      if (!spec.is_buffer && !spec.is_frozen) names.push_back(spec.name);
    }
    return names;
  }
  [[nodiscard]] static std::vector<std::string> parameters(const models::LoadedAdapter& adapter) {
    std::vector<std::string> names;
    for (const auto& [module, layer] : adapter.layers) {
      names.push_back(layer.lora_a);
      names.push_back(layer.lora_b);
    }
    return names;
  }
  // Our name of a fixture's adapter tensor, "base_model.model.<module>.lora_A.weight".
  [[nodiscard]] static std::string stored_name(const std::string& peft) {
    const std::string prefix = "base_model.model.";
    EXPECT_TRUE(peft.starts_with(prefix)) << peft;
    return "lora/" + peft.substr(prefix.size());
  }
  void expect_gradients(const Gradients& got, const std::map<std::string, Wanted>& want, double loss) {
    EXPECT_NEAR(got.loss, loss, kFirstStep * loss);
    EXPECT_EQ(got.by_parameter.size(), want.size());
    for (const auto& [name, gradient] : want) {
      ASSERT_TRUE(got.by_parameter.contains(name)) << name;
      EXPECT_LE(relative_error(got.by_parameter.at(name), gradient.values), gradient.bound) << name;
    }
  }
  void expect_training(models::LoadedModel& model, const train::ModelSaver& saver, train::TrainingGraphOptions graph,
                       const std::string& kind);

  const Scratch twin_;
  fs::path folder_;  // of the fixture
  fs::path path_;    // of the model
  Numbers numbers_;
};

// The whole Trainer, whose losses and norms by step must be PyTorch's.
void TinyModel::expect_training(models::LoadedModel& model, const train::ModelSaver& saver,
                                train::TrainingGraphOptions graph, const std::string& kind) {
  const Scratch scratch;
  train::TrainerOptions options;
  options.output_dir = scratch.path();
  options.max_steps = kSteps;
  options.save_strategy = train::When::no;
  options.graph = std::move(graph);
  const auto log = train_steps(model, saver, samples(numbers_), first_step().batches, std::move(options));
  const auto &losses = log.losses, &norms = log.grad_norms;
  const auto want_losses = numbers_.floats(kind + ".losses");
  const auto want_norms = numbers_.floats(kind + ".grad_norms");
  ASSERT_EQ(losses.size(), kSteps);
  ASSERT_EQ(want_losses.size(), kSteps);
  const auto errors = numbers_.with_prefix("float32_error/" + kind + ".");
  const auto tolerance = [&](const char* part, std::size_t i) {
    const double usual = i == 0 ? kFirstStep : kTwentiethStep;
    const auto found = errors.find(part);
    return found == errors.end() ? usual : std::max<double>(usual, 2.0 * found->second.at(i));
  };
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(losses[i], want_losses[i], tolerance("losses", i) * want_losses[i]) << "loss of step " << i + 1;
    EXPECT_NEAR(norms[i], want_norms[i], tolerance("grad_norms", i) * want_norms[i])
        << "gradient norm of step " << i + 1;
  }
  EXPECT_LT(losses.back(), losses[1]);  // every other step has the same samples
}

TEST_P(TinyModel, PrefillLogits) {
  auto model = load(path_);
  const auto tokens = numbers_.ints("tokens");
  const auto got = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32);
  EXPECT_LE(max_difference(got, numbers_.floats("logits")), kLogits);
}

// A dtype is that of the weights alone: a directory in bf16 that is loaded in float32, and a model in float32 that is
// loaded in bfloat16, hold the same numbers, and give transformers' float32 logits of them.
TEST_P(TinyModel, LogitsOfWeightsRoundedToBf16) {
  const Scratch rounded;
  const auto bf16 = rounded.path() / "bf16";
  checkpoint::ConvertOptions options;
  options.outtype = "bf16";
  (void)checkpoint::convert_checkpoint(checkpoint::CheckpointSource::open(folder_).value(), bf16, options).value();
  auto tokens = numbers_.ints("tokens");
  const Numbers numbers(folder_ / "bf16.safetensors");
  tokens.resize(static_cast<std::size_t>(numbers.shape("logits")[0]));
  for (const auto& [path, dtype] : {std::pair{bf16, TERN_F32}, {path_, TERN_BF16}}) {
    auto model = load(path, false, dtype);
    const auto got = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32);
    EXPECT_LE(max_difference(got, numbers.floats("logits")), kLogits) << path;
  }
}

// What else is in the run changes no bit where that is asked for.
TEST_P(TinyModel, PackedIsAloneToTheBit) {
  auto model = load(path_);
  const auto tokens = numbers_.ints("tokens");
  const std::vector<std::int32_t> lengths = {5, 130, 1, 64, 100};
  const std::uint32_t needs = TERN_NEED_ROW_INVARIANT | TERN_NEED_DETERMINISTIC;
  const auto packed = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32, {}, lengths, needs);
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  std::size_t begin = 0;
  for (const std::int32_t length : lengths) {
    const auto size = static_cast<std::size_t>(length);
    const std::vector<std::int32_t> text(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                         tokens.begin() + static_cast<std::ptrdiff_t>(begin + size));
    const auto alone = prefill_logits(model, text, all_rows(size), TERN_F32, {}, {}, needs);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), packed.begin() + static_cast<std::ptrdiff_t>(begin * vocab)))
        << "the text of " << length << " tokens";
    begin += size;
  }
  EXPECT_EQ(begin, tokens.size());
}

TEST_P(TinyModel, LogitsTokenByToken) {
  auto model = load(path_);
  const auto got = paged_logits(model, numbers_.ints("tokens"), {1}, TERN_F32);
  EXPECT_LE(max_difference(got, numbers_.floats("logits")), kLogits);
}

TEST_P(TinyModel, LogitsInChunksThroughThePagedCache) {
  auto model = load(path_);
  const auto tokens = numbers_.ints("tokens");
  const std::vector<std::int64_t> chunks = {5, 1, 70, 16, 1, 33, 100, 2, 41, 31};
  ASSERT_EQ(std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0}), static_cast<std::int64_t>(tokens.size()));
  const auto got = paged_logits(model, tokens, chunks, TERN_F32);
  const auto all = numbers_.floats("logits");
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  ASSERT_EQ(got.size(), chunks.size() * vocab);
  std::size_t end = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    end += static_cast<std::size_t>(chunks[i]);
    EXPECT_LE(
        max_difference(std::span(got).subspan(i * vocab, vocab), std::span(all).subspan((end - 1) * vocab, vocab)),
        kLogits)
        << "after " << end << " tokens";
  }
}

TEST_P(TinyModel, LogitsWithAnAdapterOfPeft) {
  auto model = load(path_);
  const auto adapter = models::load_adapter(model, "lora", folder_ / "adapter").value();
  const auto want = numbers_.floats("lora.logits");
  auto tokens = numbers_.ints("tokens");
  tokens.resize(want.size() / static_cast<std::size_t>(model.config.vocab_size));
  const auto prefill = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32, adapter.layers);
  EXPECT_LE(max_difference(prefill, want), kLogits);
  EXPECT_LE(max_difference(paged_logits(model, tokens, {1}, TERN_F32, adapter.layers), want), kLogits);
}

TEST_P(TinyModel, EveryGradient) {
  auto model = load(path_, true);
  StepOptions options = first_step();
  options.graph.trainable = parameters(model);
  const auto got = step_gradients(model, samples(numbers_), options);
  expect_gradients(got, wanted_gradients(numbers_, model), numbers_.floats("loss")[0]);
}

TEST_P(TinyModel, EveryGradientOfTheAdapter) {
  auto model = load(path_);
  const auto adapter = models::load_adapter(model, "lora", folder_ / "adapter").value();
  StepOptions options = first_step();
  options.graph.adapters = adapter.layers;
  options.graph.trainable = parameters(adapter);
  const auto got = step_gradients(model, samples(numbers_), options);
  std::map<std::string, Wanted> want;
  for (auto& [name, gradient] : wanted(numbers_, "lora.gradient/")) want[stored_name(name)] = std::move(gradient);
  for (const auto& [module, rows] : adapter.rows) {
    models::reorder_rows({.parts = rows}, adapter.config.rank, want.at(adapter.layers.at(module).lora_b).values, false);
  }
  expect_gradients(got, want, numbers_.floats("lora.loss")[0]);
}

TEST_P(TinyModel, TwentyFullSteps) {
  auto model = load(path_, true);
  const auto saver = train::full_model_saver(model, path_, 1'000'000'000);
  train::TrainingGraphOptions graph;
  graph.trainable = parameters(model);
  expect_training(model, *saver, graph, "full");
}

TEST_P(TinyModel, TwentyLoraSteps) {
  auto model = load(path_);
  const auto adapter = models::load_adapter(model, "lora", folder_ / "adapter").value();
  const auto saver = train::adapter_saver(model, adapter);
  train::TrainingGraphOptions graph;
  graph.adapters = adapter.layers;
  graph.trainable = parameters(adapter);
  expect_training(model, *saver, graph, "lora");
}

// What PEFT wrote, loaded and written again, has PEFT's names and bits.
TEST_P(TinyModel, AdapterKeepsItsNamesAndBits) {
  auto model = load(path_);
  const auto adapter = models::load_adapter(model, "lora", folder_ / "adapter").value();
  const Scratch scratch;
  models::save_adapter(*model.store, adapter, scratch.path());
  const Numbers ours(scratch.path() / "adapter_model.safetensors");
  const Numbers theirs(folder_ / "adapter" / "adapter_model.safetensors");
  const auto want = theirs.with_prefix("");
  const auto& targets = adapter.config.target_modules;
  std::size_t chosen = 0;
  for (const auto& spec : model.architecture->parameters(model.config)) {
    const std::string module = models::module_of(spec);
    const std::string last = module.substr(module.rfind('.') + 1);
    chosen += spec.is_linear && std::find(targets.begin(), targets.end(), last) != targets.end() ? 1 : 0;
  }
  EXPECT_GE(targets.size(), 3U);
  EXPECT_EQ(want.size(), 2 * chosen);
  EXPECT_EQ(ours.with_prefix(""), want);
  for (const auto& [name, values] : want) EXPECT_EQ(ours.shape(name), theirs.shape(name)) << name;
  const auto read = models::read_adapter_config(scratch.path()).value();
  EXPECT_EQ(read.rank, adapter.config.rank);
  EXPECT_EQ(read.alpha, adapter.config.alpha);
  EXPECT_EQ(read.target_modules, adapter.config.target_modules);
}

// Norms of queries and keys where the device has no kernel for them: their parts give the same gradients, whatever the
// number of tokens below the capacity. So do experts, whose rows are as many more as the padding has.
class HeadNorms : public testing::TestWithParam<const char*> {};
TEST_P(HeadNorms, EveryGradientOnADeviceWithoutTheirKernel) {
  const auto folder = fixture(GetParam());
  const Numbers numbers(folder / "golden.safetensors");
  ASSERT_EQ(::setenv("TERN_SIM", "ascend", 1), 0);
  const auto backend = accel::Backend::load(TERN_SIM_PLUGIN).value();
  auto device = accel::Device::open(backend, 0).value();
  ASSERT_EQ(::unsetenv("TERN_SIM"), 0);
  models::LoadOptions load;
  load.is_master = [](const std::string&) { return true; };
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(folder).value());
  auto model = models::load_model(models::read_config(*source).value(), source, std::move(device), load).value();
  StepOptions options;
  options.batches.per_device_batch_size = 2;
  options.batches.accumulation = 2;
  options.batches.shuffle = false;
  for (const auto& spec : model.architecture->parameters(model.config)) options.graph.trainable.push_back(spec.name);
  const auto got = step_gradients(model, samples(numbers), options);
  for (const auto& [name, gradient] : wanted_gradients(numbers, model)) {
    EXPECT_LE(relative_error(got.by_parameter.at(name), gradient.values), gradient.bound) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HeadNorms,
                         testing::Values("qwen3-tied", "gemma3-tied", "qwen3-moe-untied", "qwen3.5-tied", "lfm2-untied",
                                         "gpt-oss-tied", "deepseek-v2-tied", "cohere-untied", "cohere2-tied",
                                         "granite-h-untied"),
                         [](const auto& tested) { return name_of_test(tested.param); });

// Of a checkpoint with other parts, the language model.
class Whole : public testing::TestWithParam<const char*> {};
TEST_P(Whole, HasTheLogitsOfItsLanguageModel) {
  const auto folder = fixture(GetParam());
  const Numbers numbers(folder / "whole.safetensors");
  auto model = load(folder);
  const auto want = numbers.floats("logits");
  auto tokens = numbers.ints("tokens");
  tokens.resize(want.size() / static_cast<std::size_t>(model.config.vocab_size));
  const auto got = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32);
  EXPECT_LE(max_difference(got, want), kLogits);
}

INSTANTIATE_TEST_SUITE_P(Models, Whole,
                         testing::Values("qwen3.5-whole", "qwen3-vl-whole", "qwen2.5-vl-whole", "gemma3-whole",
                                         "mistral3-whole", "ministral3-whole", "gemma4-whole", "mistral4-whole",
                                         "qwen3-vl-moe-whole", "llama4-whole"),
                         [](const auto& tested) { return name_of_test(tested.param); });

// A GGUF has no word for some of what those have that are here without it, so they have no twin.
INSTANTIATE_TEST_SUITE_P(
    Models, TinyModel,
    testing::Values(
        Tiny{"llama-tied", false}, Tiny{"llama-tied", true}, Tiny{"llama-untied", false}, Tiny{"llama-untied", true},
        Tiny{"mistral", false}, Tiny{"mistral", true}, Tiny{"qwen2-tied", false}, Tiny{"qwen2-tied", true},
        Tiny{"qwen2-untied", false}, Tiny{"qwen3-tied", false}, Tiny{"qwen3-tied", true}, Tiny{"qwen3-untied", false},
        Tiny{"qwen3-untied", true}, Tiny{"granite-tied", false}, Tiny{"granite-tied", true},
        Tiny{"granite-untied", false}, Tiny{"granite-untied", true}, Tiny{"gemma2-tied", false},
        Tiny{"gemma2-tied", true}, Tiny{"gemma2-untied", false}, Tiny{"gemma3-tied", false}, Tiny{"gemma3-tied", true},
        Tiny{"gemma3-untied", false}, Tiny{"mixtral", false}, Tiny{"mixtral", true}, Tiny{"qwen2-moe-tied", false},
        Tiny{"qwen2-moe-untied", false}, Tiny{"qwen2-moe-untied", true}, Tiny{"qwen3-moe-tied", false},
        Tiny{"qwen3-moe-tied", true}, Tiny{"qwen3-moe-untied", false}, Tiny{"olmo2-tied", false},
        Tiny{"olmo2-tied", true}, Tiny{"olmo2-untied", false}, Tiny{"olmo2-untied", true}, Tiny{"smollm3-tied", false},
        Tiny{"smollm3-tied", true}, Tiny{"smollm3-untied", false}, Tiny{"qwen3-yarn", false}, Tiny{"qwen3-yarn", true},
        Tiny{"llama-yarn", false}, Tiny{"glm4-tied", false}, Tiny{"glm4-tied", true}, Tiny{"glm4-untied", false},
        Tiny{"glm4-untied", true}, Tiny{"phi3-tied", false}, Tiny{"phi3-tied", true}, Tiny{"phi3-untied", false},
        Tiny{"phi3-untied", true}, Tiny{"olmo3-untied", false}, Tiny{"olmo3-untied", true},
        Tiny{"glm4-moe-tied", false}, Tiny{"glm4-moe-tied", true}, Tiny{"glm4-moe-untied", false},
        Tiny{"glm4-moe-untied", true}, Tiny{"granite-moe-tied", false}, Tiny{"granite-moe-tied", true},
        Tiny{"granite-moe-untied", false}, Tiny{"granite-moe-untied", true}, Tiny{"qwen3.5-untied", false},
        Tiny{"qwen3.5-untied", true}, Tiny{"qwen3.5-tied", false}, Tiny{"qwen3.5-moe-untied", false},
        Tiny{"qwen3.5-moe-untied", true}, Tiny{"qwen3-next-untied", false}, Tiny{"qwen3-next-untied", true},
        Tiny{"qwen3-next-tied", false}, Tiny{"lfm2-tied", false}, Tiny{"lfm2-tied", true}, Tiny{"lfm2-untied", false},
        Tiny{"gpt-oss-untied", false}, Tiny{"gpt-oss-untied", true}, Tiny{"gpt-oss-tied", false},
        Tiny{"deepseek-v2-untied", false}, Tiny{"deepseek-v2-tied", false}, Tiny{"deepseek-v2-tied", true},
        Tiny{"deepseek-v3-untied", false}, Tiny{"deepseek-v3-tied", false}, Tiny{"cohere-tied", false},
        Tiny{"cohere-tied", true}, Tiny{"cohere-untied", false}, Tiny{"cohere2-tied", false},
        Tiny{"cohere2-tied", true}, Tiny{"cohere2-untied", false}, Tiny{"granite-h-tied", false},
        Tiny{"granite-h-tied", true}, Tiny{"granite-h-untied", false}, Tiny{"granite-h-untied", true},
        Tiny{"granite-h-biased", false}, Tiny{"falcon-h1-untied", false}, Tiny{"falcon-h1-tied", false},
        Tiny{"falcon-h1-plain", false}, Tiny{"falcon-h1-plain", true}, Tiny{"phi3-long", false},
        Tiny{"phi3-long", true}, Tiny{"phi3-short", false}, Tiny{"phi3-short", true}, Tiny{"llama-proportional", false},
        Tiny{"llama-proportional", true}, Tiny{"ministral3-tied", false}, Tiny{"ministral3-tied", true},
        Tiny{"ministral3-untied", false}, Tiny{"mistral4-untied", false}, Tiny{"mistral4-tied", false},
        Tiny{"gemma4-tied", false}, Tiny{"gemma4-tied", true}, Tiny{"gemma4-untied", false},
        Tiny{"gemma4-untied", true}, Tiny{"deepseek-v32-untied", false}, Tiny{"deepseek-v32-tied", false},
        Tiny{"gemma4-moe", false}, Tiny{"gemma4-moe", true}, Tiny{"lfm2-moe-tied", false}, Tiny{"lfm2-moe-tied", true},
        Tiny{"lfm2-moe-untied", false}, Tiny{"deepseek-v3-plain", false}, Tiny{"deepseek-v3-plain", true},
        Tiny{"llama4-untied", false}, Tiny{"llama4-tied", false}, Tiny{"llama4-tied", true},
        Tiny{"llama4-plain", false}, Tiny{"deepseek-v32-plain", true}, Tiny{"mistral4-plain", true}),
    [](const auto& tested) { return name_of_test(tested.param.model) + (tested.param.gguf ? "AsGguf" : ""); });

}  // namespace
}  // namespace tern::golden
