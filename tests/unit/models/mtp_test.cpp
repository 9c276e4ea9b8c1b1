// If these fail, a model's layer of multi-token prediction is read from where there is none, or two tables that are the
// model's lie twice in memory, or a checkpoint that lacks it says something else.
#include "models/mtp.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/strings.h"
#include "checkpoint/convert.h"
#include "models/gguf_names.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

constexpr const char* kGlm = "mtp-glm4-moe";
constexpr const char* kDeepSeek = "mtp-deepseek-v3";
constexpr const char* kIndexed = "mtp-deepseek-v32";
constexpr const char* kQwen = "mtp-qwen3.5";
constexpr const char* kQwenExperts = "mtp-qwen3.5-moe";  // as tensors of all experts; a tensor for each:
constexpr const char* kQwenNext = "mtp-qwen3-next";
constexpr const char* kWords = "model.layers.3.embed_tokens.weight";
constexpr const char* kHead = "model.layers.3.shared_head.head.weight";

// Of a folder whose config.json the test may spoil.
struct Opened {
  explicit Opened(const test::TempDir& folder) : path(folder.path()) {
    source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
    config = read_config(*source).value();
  }
  [[nodiscard]] LoadedModel load(const LoadOptions& options = {}) const {
    return load_model(config, source, cpu_device(), options).value();
  }
  std::filesystem::path path;
  std::shared_ptr<checkpoint::CheckpointSource> source;
  ModelConfig config;
};

class Mtp : public testing::Test {
 protected:
  Opened copy(const std::string& name, const std::function<void(io::Json&)>& change = {}) {
    for (const char* part : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(golden(name) / part, scratch_ / part,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    if (change) {
      io::Json json = test::parsed_json(std::ifstream(scratch_ / "config.json"));
      change(json);
      scratch_.write("config.json", json.dump(2));
    }
    return Opened(scratch_);
  }
  // Gives the tensor another name of the same length, in place.
  void rename(const std::string& tensor) {
    std::string bytes = scratch_.read("model.safetensors");
    const std::size_t at = bytes.find("\"" + tensor + "\"");
    ASSERT_NE(at, std::string::npos) << tensor;
    bytes[at + tensor.size()] = '_';
    scratch_.write("model.safetensors", bytes);
  }
  [[nodiscard]] std::string refusal(const Opened& model) const {
    const auto head = open_mtp(model.source, model.config);
    return head.ok() ? "" : scratch_.line(head.error());
  }

  test::TempDir scratch_;
};

// The same to the bit, another, and none in the layer.
TEST_F(Mtp, SharesWhatIsTheModels) {
  for (const char* name : {kGlm, kDeepSeek, kIndexed}) {
    SCOPED_TRACE(name);
    const Opened opened = copy(name);
    LoadedModel model = opened.load();
    const auto head = open_mtp(opened.source, opened.config).value();
    head->load(model, {}).value();
    const bool own = name == std::string(kDeepSeek);
    EXPECT_EQ(model.store->find(kWords) != nullptr, own);
    EXPECT_EQ(model.store->find(kHead) != nullptr, own);
    EXPECT_NE(model.store->find("model.layers.3.mlp.experts.gate_proj.weight"), nullptr);
    EXPECT_GT(head->bytes(*model.store), 4.0 * 320 * 32) << "the output projection is read, whoever's it is";
    EXPECT_TRUE(head->load(model, {}).ok()) << "once more, as a second engine does";
  }
}

// Under names of its own, beside the model, whose config.json may say nothing of it.
TEST_F(Mtp, MayStandApart) {
  for (const char* name : {kQwen, kQwenExperts, kQwenNext}) {
    SCOPED_TRACE(name);
    const Opened opened = copy(name);
    LoadedModel model = opened.load();
    const auto head = open_mtp(opened.source, opened.config).value();
    head->load(model, {}).value();
    EXPECT_NE(model.store->find("mtp.fc.weight"), nullptr);
    EXPECT_EQ(model.store->find("mtp.layers.0.mlp.experts.gate_proj.weight") != nullptr, name != std::string(kQwen));
    EXPECT_EQ(model.store->find("model.layers.4.input_layernorm.weight"), nullptr);
    const std::vector<nn::CacheSpec> specs = head->cache_specs();
    ASSERT_EQ(specs.size(), 1U);
    EXPECT_EQ(specs[0].module, "mtp.layers.0.self_attn");
    EXPECT_EQ(specs[0].kind, nn::CacheKind::full) << "it attends, whatever the model's layers do";
  }
}

// --- Checkpoints without ------------------------------------------------------------------------------------------

TEST_F(Mtp, OfOtherArchitecturesIsRefused) {
  EXPECT_EQ(refusal(copy("llama-tied")),
            "DIR: expected a model whose layer for further tokens is computed here: Glm4MoeForCausalLM, "
            "Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3NextForCausalLM, DeepseekV3ForCausalLM, "
            "DeepseekV32ForCausalLM, found LlamaForCausalLM; guess otherwise, with {\"method\": \"ngram\", "
            "\"num_speculative_tokens\": 5} say");
}

TEST_F(Mtp, ThatTheConfigurationDeniesIsRefused) {
  EXPECT_EQ(refusal(copy("glm4-moe-untied")),
            "DIR/config.json: field \"num_nextn_predict_layers\": expected a layer for further tokens, found 0; guess "
            "otherwise, with {\"method\": \"ngram\", \"num_speculative_tokens\": 5} say");
}

TEST_F(Mtp, ThatWasNotSavedIsRefused) {
  EXPECT_EQ(
      refusal(copy("glm4-moe-untied", [](io::Json& json) { json["num_nextn_predict_layers"] = 1; })),
      "DIR: tensor model.layers.3.enorm.weight: expected the layer for further tokens, found no such tensor; take "
      "the weights that the model's makers published, as what transformers or tern saved of them lacks this "
      "layer; or guess otherwise, with {\"method\": \"ngram\", \"num_speculative_tokens\": 5} say");
}

TEST_F(Mtp, ThatWasNotSavedApartIsRefused) {
  for (const char* name : {"qwen3.5-untied", "qwen3-next-untied"}) {
    EXPECT_EQ(refusal(copy(name)),
              "DIR: tensor mtp.pre_fc_norm_embedding.weight: expected the layer for further tokens, found no such "
              "tensor; take the weights that the model's makers published, as what transformers or tern saved of them "
              "lacks this layer; or guess otherwise, with {\"method\": \"ngram\", \"num_speculative_tokens\": 5} "
              "say");
  }
}

TEST_F(Mtp, IsNotReadFromAGguf) {
  const ScratchModel model("glm4-moe-untied");
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  set_gguf_form(*model.open(), config_of(model), "tiny", options).value();
  options.metadata->set("glm4moe.nextn_predict_layers", std::uint32_t{1});
  (void)checkpoint::convert_checkpoint(*model.open(), scratch_ / "model.gguf", options).value();
  auto gguf = std::make_shared<checkpoint::CheckpointSource>(
      checkpoint::CheckpointSource::open(scratch_ / "model.gguf").value());
  const auto head = open_mtp(gguf, read_config(*gguf).value());
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(scratch_.line(head.error()),
            "DIR/model.gguf: expected safetensors, as a layer for further tokens isn't read from a GGUF, found a GGUF; "
            "name the model's repository of safetensors, or guess otherwise, with {\"method\": \"ngram\", "
            "\"num_speculative_tokens\": 5} say");
}

// Under another name it's one too many, and its own is missing.
TEST_F(Mtp, HasAllItsTensorsAndNoOther) {
  const auto expect_refused = [&](const char* name, const std::string& tensor) {
    SCOPED_TRACE(tensor);
    (void)copy(name);
    rename(tensor);
    const Opened opened(scratch_);
    LoadedModel model = opened.load();
    const auto loaded = open_mtp(opened.source, opened.config).value()->load(model, {});
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().line().find(tensor.substr(0, tensor.size() - 1)), std::string::npos)
        << loaded.error().line();
  };
  for (const char* tensor : {"eh_proj.weight", "shared_head.norm.weight", "self_attn.q_norm.weight",
                             "mlp.experts.7.down_proj.weight", "mlp.gate.e_score_correction_bias"}) {
    expect_refused(kGlm, std::string("model.layers.3.") + tensor);
  }
  for (const char* tensor :
       {"mtp.fc.weight", "mtp.norm.weight", "mtp.layers.0.self_attn.q_norm.weight",
        "mtp.layers.0.mlp.experts.7.down_proj.weight", "mtp.layers.0.mlp.shared_expert_gate.weight"}) {
    expect_refused(kQwenNext, tensor);
  }
  expect_refused(kQwenExperts, "mtp.layers.0.mlp.experts.gate_up_proj");
}

// What the model is made while it's loaded its layer becomes, too.
TEST_F(Mtp, IsQuantisedAsTheModelIs) {
  const Opened opened = copy(kGlm);
  LoadOptions options;
  options.quantise = QuantiseOptions{};
  LoadedModel model = opened.load(options);
  open_mtp(opened.source, opened.config).value()->load(model, options).value();
  const auto stored = [&](const char* layer) {
    return to_string(model.store->at(cat("model.layers.", layer, ".self_attn.o_proj.weight")).desc);
  };
  EXPECT_EQ(stored("3"), stored("2"));
}

}  // namespace
}  // namespace tern::models
