// What LFM2's experts are, by the published file, and what a GGUF can say of them.
#include "models/lfm2_moe.h"

#include "models/experts.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

TEST(Lfm2Moe, ReadsThePublishedFile) {
  const ScratchModel model("lfm2-moe-tied");
  model.edit("config.json", [](io::Json& json) {
    for (const char* key : {"rope_parameters", "tie_word_embeddings", "routed_scaling_factor", "use_expert_bias",
                            "norm_topk_prob", "num_dense_layers"}) {
      json.erase(key);
    }
    json["rope_theta"] = 1000000.0;
  });
  const ModelConfig config = config_of(model);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.own_field<bool>("use_expert_bias"));
  EXPECT_TRUE(config.own_field<bool>("norm_topk_prob"));
  EXPECT_EQ(config.own_field<std::int64_t>("num_dense_layers"), 2);
}

TEST(Lfm2Moe, LayersWithoutATypeAreRefused) {
  const ScratchModel model("lfm2-moe-tied");
  model.edit("config.json", [](io::Json& json) { json.erase("layer_types"); });
  const auto config = read_config(*model.open());
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().line().find("layer_types"), std::string::npos) << config.error().line();
}

// llama.cpp computes neither, so no GGUF is written that it would misread.
TEST(Lfm2Moe, AGgufHasNoWordForScaledWeights) {
  for (const char* key : {"use_expert_bias", "norm_topk_prob", "routed_scaling_factor"}) {
    ModelConfig config = config_of(ScratchModel("lfm2-moe-tied"));
    if (config.own.at(key) == FieldValue(true))
      config.own[key] = false;
    else
      config.own[key] = 1.5;
    checkpoint::GgufMetadata metadata;
    const auto written = catching([&] {
      set_gguf_config(config, metadata);
      return Unit{};
    });
    ASSERT_FALSE(written.ok()) << key;
    EXPECT_NE(written.error().line().find("keep this model as a directory"), std::string::npos)
        << written.error().line();
  }
}

// The bias of the choice is no parameter that training changes.
TEST(Lfm2Moe, TheBiasOfTheChoiceIsABuffer) {
  int biases = 0;
  for (const auto& spec : lfm2_moe_architecture().parameters(config_of(ScratchModel("lfm2-moe-tied")))) {
    const bool is_bias = spec.name.ends_with("e_score_correction_bias");
    EXPECT_EQ(spec.is_buffer, is_bias) << spec.name;
    biases += is_bias ? 1 : 0;
  }
  EXPECT_EQ(biases, 3);
}

}  // namespace
}  // namespace tern::models
