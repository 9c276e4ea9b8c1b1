// Fields of DeepSeek-V3.2's indexer, and what training may do to its weights.
#include "models/deepseek_v32.h"

#include "scratch_model.h"

namespace tern::models {
namespace {

// As deepseek-ai published it: no list of layers, the choice of experts in words, and YaRN under its older name.
TEST(DeepseekV32, ReadsThePublishedFile) {
  const ScratchModel model("deepseek-v32-untied");
  model.edit("config.json", [](io::Json& json) {
    for (const char* key :
         {"layer_types", "mlp_layer_types", "rope_parameters", "head_dim", "qk_head_dim", "mlp_bias"}) {
      json.erase(key);
    }
    json["rope_theta"] = 10000;
    json["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 40},
                            {"beta_fast", 32},
                            {"beta_slow", 1},
                            {"mscale", 1.0},
                            {"mscale_all_dim", 1.0},
                            {"original_max_position_embeddings", 4096}};
    json["scoring_func"] = "sigmoid";
    json["topk_method"] = "noaux_tc";
    json["num_nextn_predict_layers"] = 1;
    json["ep_size"] = 1;
    json["moe_layer_freq"] = 1;
  });
  const ModelConfig config = config_of(model);
  EXPECT_EQ(indexer_of(config).topk, 14);
  EXPECT_EQ(indexer_of(config).heads, 16);
  EXPECT_EQ(indexer_of(config).head_dim, 20);
}

TEST(DeepseekV32, WhatHasNoValueIsTransformersDefault) {
  const ScratchModel model("deepseek-v32-untied");
  model.edit("config.json", [](io::Json& json) {
    for (const char* key : {"index_topk", "index_n_heads", "index_head_dim", "routed_scaling_factor"}) json.erase(key);
  });
  const ModelConfig config = config_of(model);
  EXPECT_EQ(indexer_of(config).topk, 2048);
  EXPECT_EQ(indexer_of(config).heads, 64);
  EXPECT_EQ(indexer_of(config).head_dim, 128);
  EXPECT_EQ(config.own_field<double>("routed_scaling_factor"), 2.5);
}

TEST(DeepseekV32, OtherWaysOfComputingAreRefusedByName) {
  const auto refuses = [](const char* key, const io::Json& value, const char* expected) {
    const ScratchModel model("deepseek-v32-untied");
    model.edit("config.json", [&](io::Json& json) { json[key] = value; });
    const auto config = read_config(*model.open());
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().line().find(cat("field \"", key, "\": expected ", expected)), std::string::npos)
        << config.error().line();
  };
  refuses("index_head_dim", 6, "at least 8, the features that turn");
  refuses("index_topk", 0, "a size from 1 to");
  refuses("q_lora_rank", nullptr, "1 or more, as the indexer reads the queries' latent vector");
  refuses("layer_types", {"indexed_attention", "full_attention", "indexed_attention"},
          "indexed_attention for each layer");
  refuses("mlp_layer_types", {"dense", "dense", "sparse"},
          "dense for the first first_k_dense_replace layers, sparse for the others");
}

// A choice has no gradient: no optimizer may decay these weights, and no adapter sits on them.
TEST(DeepseekV32, TheIndexerIsFrozen) {
  const ScratchModel model("deepseek-v32-untied");
  int frozen = 0;
  for (const auto& spec : deepseek_v32_architecture().parameters(config_of(model))) {
    const bool of_indexer = spec.name.find(".indexer.") != std::string::npos;
    EXPECT_EQ(spec.is_frozen, of_indexer) << spec.name;
    EXPECT_FALSE(of_indexer && spec.is_linear) << spec.name;
    frozen += spec.is_frozen ? 1 : 0;
  }
  EXPECT_EQ(frozen, 3 * 5);
}

}  // namespace
}  // namespace tern::models
