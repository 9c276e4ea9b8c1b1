// What ms-swift's freeze_parameters and activate_parameters choose.
#include "train/trained_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_source.h"
#include "models/registry.h"

namespace tern::train {
namespace {

models::ModelConfig config_of(const char* model) {
  const auto folder = std::filesystem::path(TERN_TEST_DATA) / "golden" / model;
  return models::read_config(checkpoint::CheckpointSource::open(folder).value()).value();
}

std::size_t num_parameters(const models::ModelConfig& config) {
  return models::find_architecture(config.architecture)->parameters(config).size();
}

// How many weights ms-swift's freeze_parameters freezes of transformers' model, and the last of them.
struct Share {
  const char* model;
  double ratio;
  std::size_t frozen;
  const char* last;
  const char* next;
};
TEST(TrainedParameters, AShareIsFrozenFromTheEmbeddingUpwards) {
  for (const Share& share : {
           Share{"llama-untied", 0.3, 9, "model.layers.0.self_attn.o_proj.bias", "model.layers.0.mlp.gate_proj.weight"},
           {"llama-untied", 0.5, 17, "model.layers.0.post_attention_layernorm.weight",
            "model.layers.1.self_attn.q_proj.weight"},
           {"llama-untied", 0.99, 34, "model.norm.weight", "lm_head.weight"},
           {"qwen3-tied", 0.5, 9, "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight"},
           {"gemma2-tied", 0.75, 29, "model.layers.2.mlp.up_proj.weight", "model.layers.2.mlp.down_proj.weight"},
           {"olmo2-untied", 0.5, 12, "model.layers.0.post_feedforward_layernorm.weight",
            "model.layers.1.self_attn.q_proj.weight"},
       }) {
    const auto config = config_of(share.model);
    Selection selection;
    selection.freeze_parameters_ratio = share.ratio;
    const auto names = trained_parameters(selection, config).value();
    const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    EXPECT_EQ(num_parameters(config) - names.size(), share.frozen) << share.model << " " << share.ratio;
    EXPECT_FALSE(has(share.last)) << share.model << " " << share.ratio;
    EXPECT_TRUE(has(share.next)) << share.model << " " << share.ratio;
  }
}

TEST(TrainedParameters, AreMatchedAnywhereInTheirNames) {
  const auto config = config_of("qwen3-tied");
  Selection selection;
  selection.freeze_parameters_ratio = 1;
  selection.trainable_parameters_regex = R"(1\.mlp|norm\.weight$)";
  // Three projections of layer 1, four norms in each of two layers, and the last norm.
  EXPECT_EQ(trained_parameters(selection, config).value().size(), 12U);
  selection = {};
  selection.freeze_parameters_regex = "^model\\.layers";
  EXPECT_EQ(trained_parameters(selection, config).value(),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.norm.weight"}));
}

TEST(TrainedParameters, AnExpressionThatChoosesNothingIsAnError) {
  const auto config = config_of("qwen3-tied");
  Selection selection;
  selection.freeze_parameters_regex = "moddel";
  EXPECT_NE(trained_parameters(selection, config).error().line().find("\"moddel\" matches no weight's name"),
            std::string::npos);
  selection.freeze_parameters_regex = "(";
  EXPECT_NE(trained_parameters(selection, config).error().line().find("is not a regular expression"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::train
