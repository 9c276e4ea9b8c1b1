// What is trained beside LoRA on linear layers: 20 steps against PEFT's, and the files.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/strings.h"
#include "golden.h"
#include "io/json.h"
#include "models/merge.h"
#include "models/new_tokens.h"
#include "models/saved_modules.h"
#include "models/vera.h"
#include "session/save_model.h"
#include "tests/support/temp_dir.h"
#include "tokenizer/tokenizer.h"
#include "train/model_saver.h"
#include "train/trainer.h"
#include "train/tuner.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using Scratch = test::TempDir;

constexpr std::size_t kSteps = 20;
constexpr double kFirstStep = 1e-5;      // relative, of losses and norms
constexpr double kTwentiethStep = 1e-3;  // relative
// Of what AdamW has moved by up to 20 steps of 1e-3: a gradient near zero has the sign of its rounding.
constexpr double kTrained = 2e-3;
constexpr double kLogits = 2e-2;  // absolute, after training

class Tuner : public testing::TestWithParam<const char*> {
 protected:
  Tuner()
      : folder_(fixture(cat("tuners/", GetParam()))),
        numbers_(folder_ / "golden.safetensors"),
        base_(fixture(checkpoint::Safetensors::open(folder_ / "golden.safetensors").value().metadata().at("model"))),
        base_numbers_(base_ / "golden.safetensors") {
    const auto file = checkpoint::Safetensors::open(folder_ / "golden.safetensors").value();
    const auto tokens = file.metadata().find("tokens");
    if (tokens == file.metadata().end()) return;
    for (int i = 0; i < std::stoi(tokens->second); ++i) new_tokens_.push_back(cat("<new", i, ">"));
  }

  // The model with PEFT's adapter as it begins; what that trains is held in fp32.
  struct Adapted {
    models::LoadedModel model;
    models::LoadedAdapter adapter;
  };
  [[nodiscard]] Adapted open(const fs::path& adapter) const {
    auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(base_).value());
    auto config = models::read_config(*source).value();
    const auto tokens = static_cast<std::int64_t>(new_tokens_.size());
    models::add_new_tokens(config, new_tokens_, config.vocab_size + tokens).value();
    Adapted out{models::load_model(std::move(config), source, cpu_device(), {}).value(), {}};
    out.adapter = models::load_adapter(out.model, "lora", adapter).value();
    return out;
  }
  [[nodiscard]] std::vector<float> last_logits(Adapted& adapted) const {
    auto tokens = base_numbers_.ints("tokens");
    tokens.resize(64);
    const auto rows = all_rows(tokens.size());
    return prefill_logits(adapted.model, tokens, {rows.end() - 8, rows.end()}, TERN_F32, adapted.adapter.layers);
  }
  void train(Adapted& adapted, const fs::path& output);
  [[nodiscard]] fs::path with_tokenizer(const fs::path& folder) const;

  fs::path folder_;
  Numbers numbers_;
  fs::path base_;
  Numbers base_numbers_;
  StepLog log_;
  std::vector<std::string> new_tokens_;
};

// The base model with a tokenizer of a word for each of its rows.
fs::path Tuner::with_tokenizer(const fs::path& folder) const {
  fs::copy(base_, folder);
  io::Json vocabulary = io::Json::object();
  for (int i = 0; i < 160; ++i) vocabulary.append(cat("w", i), i);
  const io::Json model = {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "w0"}};
  const io::Json tokenizer = {{"version", "1.0"}, {"added_tokens", io::Json::array()}, {"model", model}};
  std::ofstream(folder / "tokenizer.json") << io::write_json(tokenizer);
  return folder;
}

void Tuner::train(Adapted& adapted, const fs::path& output) {
  fs::create_directories(output);
  train::TrainerOptions options;
  options.output_dir = output;
  options.max_steps = kSteps;
  options.save_strategy = train::When::no;
  options.graph.adapters = adapted.adapter.layers;
  options.graph.trainable = models::trained_tensors(adapted.adapter);
  data::BatchOptions batches;
  batches.per_device_batch_size = 2;
  batches.accumulation = 2;
  batches.shuffle = false;
  const auto saver = train::adapter_saver(adapted.model, adapted.adapter);
  log_ = train_steps(adapted.model, *saver, samples(base_numbers_), batches, std::move(options));
  saver->save(output);
}

TEST_P(Tuner, TrainsTwentyStepsAsPeftDoes) {
  const Scratch scratch;
  Adapted adapted = open(folder_);
  train(adapted, scratch.path());
  const auto want_losses = numbers_.floats("losses");
  const auto want_norms = numbers_.floats("grad_norms");
  ASSERT_EQ(log_.losses.size(), kSteps);
  ASSERT_EQ(want_losses.size(), kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    const double bound = i == 0 ? kFirstStep : kTwentiethStep;
    EXPECT_NEAR(log_.losses[i], want_losses[i], bound * want_losses[i]) << "loss of step " << i + 1;
    EXPECT_NEAR(log_.grad_norms[i], want_norms[i], bound * want_norms[i]) << "gradient norm of step " << i + 1;
  }
  const Numbers ours(scratch.path() / "adapter_model.safetensors");
  const auto got = ours.with_prefix("");
  const auto want = numbers_.with_prefix("trained/");
  const auto& saved = adapted.adapter.saved;
  const auto kept = std::count_if(saved.begin(), saved.end(), [](const auto& each) { return !each.is_trained; });
  const std::size_t shared = adapted.adapter.config.kind == models::AdapterKind::vera ? 2 : 0;
  EXPECT_EQ(got.size(), want.size() + static_cast<std::size_t>(kept) + shared);
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    const auto& all = got.at(name);
    const std::size_t stride = (all.size() + 255) / 256;
    std::vector<float> some;
    for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
    EXPECT_LE(relative_error(some, values), kTrained) << name;
  }
  // Read again, it computes the same as before it was written, and as PEFT's.
  const auto before = last_logits(adapted);
  EXPECT_LE(max_difference(before, numbers_.floats("logits")), kLogits);
  Adapted again = open(scratch.path());
  EXPECT_EQ(last_logits(again), before);
}

TEST_P(Tuner, KeepsTheNamesAndBitsOfPeft) {
  const Adapted adapted = open(folder_);
  const Scratch scratch;
  models::save_adapter(*adapted.model.store, adapted.adapter, scratch.path());
  const Numbers ours(scratch.path() / "adapter_model.safetensors");
  const Numbers theirs(folder_ / "adapter_model.safetensors");
  auto want_tensors = theirs.with_prefix("");
  const bool has_one_matrix = !new_tokens_.empty() && adapted.model.config.tie_word_embeddings;
  std::erase_if(want_tensors, [&](const auto& each) {
    const bool is_head = has_one_matrix && each.first == "base_model.model.lm_head.weight";
    return is_head || models::is_needless_copy(each.first);
  });
  EXPECT_EQ(ours.with_prefix(""), want_tensors);
  for (const auto& [name, values] : want_tensors) EXPECT_EQ(ours.shape(name), theirs.shape(name)) << name;
  const io::Json want = io::read_json_file(folder_ / "adapter_config.json").value();
  const io::Json got = io::read_json_file(scratch.path() / "adapter_config.json").value();
  for (const char* key : {"target_modules", "target_parameters", "modules_to_save", "bias", "r"}) {
    if (want.find(key) == nullptr || want.find(key)->is_null()) continue;
    ASSERT_NE(got.find(key), nullptr) << key;
    EXPECT_EQ(io::write_json(*got.find(key)), io::write_json(*want.find(key))) << key;
  }
}

// The merged directory has the adapted model's logits: an untied head where the adapter untied it.
TEST_P(Tuner, MergesIntoAModelOfTheSameLogits) {
  const Scratch scratch;
  Adapted adapted = open(folder_);
  train(adapted, scratch.path() / "trained");  // else a copy is what it was copied from
  models::MergeOptions options;
  options.adapters = {scratch.path() / "trained"};
  options.new_special_tokens = new_tokens_;
  const fs::path base = new_tokens_.empty() ? base_ : with_tokenizer(scratch.path() / "base");
  session::merge_adapters(base, options, TERN_F32, scratch.path() / "merged", false).value();
  auto merged = Adapted{load(scratch.path() / "merged"), {}};
  const auto& trained = adapted.adapter;
  const bool has_head = trained.layers.contains("lm_head") || trained.layers.contains("model.embed_tokens");
  const bool unties = has_head || !adapted.model.config.tie_word_embeddings;
  EXPECT_EQ(merged.model.config.tie_word_embeddings, !unties);
  EXPECT_LE(max_difference(last_logits(merged), last_logits(adapted)), 1e-4);
  if (new_tokens_.empty()) return;
  const auto tokenizer = tokenizer::Tokenizer::from_directory(scratch.path() / "merged").value();
  for (std::size_t i = 0; i < new_tokens_.size(); ++i) {
    EXPECT_EQ(tokenizer.piece_to_id(new_tokens_[i]), static_cast<int>(160 + i)) << new_tokens_[i];
  }
  EXPECT_EQ(merged.model.config.vocab_size, 256);
}

INSTANTIATE_TEST_SUITE_P(Peft, Tuner,
                         testing::Values("saved-untied", "saved-linear", "saved-tied-both", "saved-tied-embedding",
                                         "saved-tied-head", "embedding-untied", "embedding-tied", "embedding-scaled",
                                         "experts-both", "experts-down", "experts-transposed", "biases",
                                         "biases-adapted", "biases-saved", "tokens-saved", "tokens-kept",
                                         "tokens-adapted", "vera"),
                         [](const auto& tested) { return name_of_test(tested.param); });

// What a file without them is drawn from again.
TEST(Vera, DrawsItsMatricesAsPyTorchDoes) {
  const Numbers file(fixture("tuners/vera") / "adapter_model.safetensors");
  const auto config = models::read_adapter_config(fixture("tuners/vera")).value();
  EXPECT_EQ(config.projection_prng_key, 7);
  const auto a_shape = file.shape(models::kVeraA), b_shape = file.shape(models::kVeraB);
  const auto drawn = models::drawn_projections(config, a_shape.at(1), b_shape.at(0));
  EXPECT_LE(max_difference(drawn.a, file.floats(models::kVeraA)), 1e-7);
  EXPECT_LE(max_difference(drawn.b, file.floats(models::kVeraB)), 1e-7);
}

// The choice that ms-swift makes of layers that differ in shape.
TEST(Vera, SitsOnLayersOfOneShape) {
  auto model = load(fixture("qwen2-tied"));
  train::TunerOptions options;
  options.kind = models::AdapterKind::vera;
  options.lora_rank = 4;
  const auto tuner = train::make_tuner(options, model, "m", fixture("qwen2-tied"), {}).value();
  std::set<std::string> names;
  for (const auto& [module, layer] : tuner->adapter.layers) names.insert(module.substr(module.rfind('.') + 1));
  EXPECT_EQ(names, (std::set<std::string>{"k_proj", "v_proj"}));
  EXPECT_EQ(tuner->trainable.size(), 8U);
  auto other = load(fixture("qwen2-tied"));
  options.target_modules = {"q_proj", "down_proj"};
  const auto refused = train::make_tuner(options, other, "m", fixture("qwen2-tied"), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().line().find("needs layers of one shape"), std::string::npos) << refused.error().line();
}

TEST(Vera, IsNotForTheHeadNorForRowsInAnotherOrder) {
  for (const auto& [name, target] : {std::pair{"llama-untied", "lm_head"}, {"qwen3-next-untied", "in_proj_qkvz"}}) {
    auto model = load(fixture(name));
    train::TunerOptions options;
    options.kind = models::AdapterKind::vera;
    options.target_modules = {target};
    const auto refused = train::make_tuner(options, model, "m", fixture(name), {});
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_NE(refused.error().line().find("is not served"), std::string::npos) << refused.error().line();
  }
}

// A file whose matrices are too small for the model.
TEST(Vera, MatricesMustFitTheLayers) {
  const Scratch scratch;
  const auto file = checkpoint::Safetensors::open_directory(fixture("tuners/vera"), "adapter_model").value();
  std::vector<checkpoint::TensorSpec> specs;
  for (const auto& tensor : file.tensors()) {
    auto shape = tensor.shape;
    if (tensor.name == models::kVeraB) shape[0] /= 2;
    specs.push_back({tensor.name, "F32", shape});
  }
  checkpoint::SafetensorsWriteOptions options;
  options.stem = "adapter_model";
  auto writer = checkpoint::SafetensorsWriter::create(scratch.path(), specs, options).value();
  for (const auto& tensor : file.tensors()) {
    const auto bytes = std::span(tensor.bytes);
    writer.write(tensor.name, tensor.name == models::kVeraB ? bytes.first(bytes.size() / 2) : bytes).value();
  }
  writer.finish().value();
  fs::copy_file(fixture("tuners/vera") / "adapter_config.json", scratch.path() / "adapter_config.json");
  auto model = load(fixture("qwen2-tied"));
  const auto loaded = models::load_adapter(model, "lora", scratch.path());
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().line().find("for layers of up to 64 outputs"), std::string::npos) << loaded.error().line();
}

TEST(NewTokens, AreForLanguageModels) {
  const auto source = checkpoint::CheckpointSource::open(fixture("bert")).value();
  auto config = models::read_config(source, models::Heads::any).value();
  const auto added = models::add_new_tokens(config, {"<new>"}, 1000);
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().line().find("--new_special_tokens is for language models"), std::string::npos);
}

// One model serves one adapter's modules.
TEST(SavedModules, AreNotMixedWithAnotherAdapter) {
  auto model = load(fixture("llama-untied"));
  (void)models::load_adapter(model, "a", fixture("tuners/saved-untied")).value();
  const auto other = models::load_adapter(model, "b", fixture("llama-untied/adapter"));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().line().find("the model holds modules that were trained with the adapter"), std::string::npos);
}

TEST(SavedModules, NamesEndAModulesName) {
  const auto model = load(fixture("llama-tied"));
  const auto chosen = models::saved_modules(model.config, {"norm"}).value();
  EXPECT_EQ(chosen.parameters.size(), 5U);
  EXPECT_FALSE(chosen.unties);
  const auto wrong = models::saved_modules(model.config, {"nrom"});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().mend.find("lm_head"), std::string::npos) << wrong.error().line();
  const std::vector<std::string> all = {"all-embedding", "all-norm", "lm_head"};
  EXPECT_EQ(
      models::saved_module_names(model.config, all),
      (std::vector<std::string>{"embed_tokens", "input_layernorm", "post_attention_layernorm", "norm", "lm_head"}));
}

TEST(SavedModules, FusedExpertsAreRefused) {
  const auto model = load(fixture("qwen3-moe-untied"));
  const auto chosen = models::saved_modules(model.config, {"experts"});
  ASSERT_FALSE(chosen.ok());
  EXPECT_NE(chosen.error().line().find("tensors of another kind"), std::string::npos) << chosen.error().line();
}

// A copy of an adapter's folder with something of its configuration changed.
fs::path changed(const fs::path& adapter, const Scratch& scratch, const std::function<void(io::Json&)>& change) {
  const fs::path copy = scratch.path() / "adapter";
  fs::copy(adapter, copy, fs::copy_options::recursive);
  io::Json json = io::read_json_file(copy / "adapter_config.json").value();
  change(json);
  std::ofstream(copy / "adapter_config.json") << io::write_json(json);
  return copy;
}

TEST(SavedModules, MustBeInTheFile) {
  const Scratch scratch;
  auto model = load(fixture("llama-untied"));
  const auto path = changed(fixture("tuners/embedding-untied"), scratch,
                            [](io::Json& json) { json["modules_to_save"] = std::vector<std::string>{"norm"}; });
  const auto loaded = models::load_adapter(model, "lora", path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().line().find("that modules_to_save of adapter_config.json names"), std::string::npos);
}

TEST(TargetParameters, AreThoseOfTheModelsExperts) {
  const auto error = [](const char* model_name, const char* adapter, const std::function<void(io::Json&)>& change) {
    const Scratch scratch;
    auto model = load(fixture(model_name));
    const auto loaded = models::load_adapter(model, "lora", changed(fixture(adapter), scratch, change));
    return loaded.ok() ? std::string("no error") : loaded.error().line();
  };
  const auto name = [](const char* parameter) {
    return [parameter](io::Json& json) { json["target_parameters"] = std::vector<std::string>{parameter}; };
  };
  EXPECT_NE(error("qwen2-moe-untied", "tuners/experts-both", name("mlp.gate")).find("names no fused weight"),
            std::string::npos);
  EXPECT_NE(error("llama-untied", "llama-untied/adapter", name("experts.down_proj")).find("the model has no experts"),
            std::string::npos);
  EXPECT_NE(error("llama4-untied", "llama4-untied/adapter", name("experts.down_proj")).find("whose rows PEFT takes"),
            std::string::npos);
  EXPECT_NE(error("qwen2-moe-untied", "tuners/experts-both", [](io::Json& json) { json["lora_dropout"] = 0.05; })
                .find("give --lora_dropout 0"),
            std::string::npos);
  EXPECT_NE(error("glm4-moe-tied", "tuners/experts-down", name("experts.gate_up_proj")).find("mlp.experts.lora_A"),
            std::string::npos);
}

TEST(Dora, IsForLinearLayersAlone) {
  auto model = load(fixture("llama-untied"));
  models::AdapterConfig config;
  config.use_dora = true;
  const auto parts = models::adapter_parts(model.config, "a", config, {"model.embed_tokens"});
  ASSERT_FALSE(parts.ok());
  EXPECT_NE(parts.error().line().find("DoRA is for linear layers"), std::string::npos);
  const auto head = models::select_modules(model.config, {"lm_head"}).value();
  const auto made = catching([&] { return models::create_adapter(model, "b", config, head); });
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().line().find("DoRA on the head"), std::string::npos);
}

}  // namespace
}  // namespace tern::golden
