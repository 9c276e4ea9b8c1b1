// What the published files of Cohere's models say of how they compute, and what of it is served.
#include "models/cohere.h"

#include "scratch_model.h"

namespace tern::models {
namespace {

std::string problem_of(const ScratchModel& model, const char* key, const io::Json& value) {
  model.edit("config.json", [&](io::Json& json) { json[key] = value; });
  const auto config = read_config(*model.open());
  return config.ok() ? "" : config.error().line();
}

TEST(Cohere, ReadsThePublishedFileOfCommandR7B) {
  const ScratchModel model("cohere2-tied");
  model.edit("config.json", [](io::Json& json) {
    for (const char* key : {"layer_types", "rope_parameters", "num_key_value_heads"}) json.erase(key);
    json["num_key_value_heads"] = 2;
    json["rope_theta"] = 50000;
    json["rope_scaling"] = nullptr;
    json["layer_switch"] = 4;
    json["sliding_window_pattern"] = 4;
    json["order_of_interleaved_layers"] = "local_attn_first";
    json["position_embedding_type"] = "rope_gptj";
    json["rotary_pct"] = 1.0;
    json["cache_implementation"] = "hybrid";
    for (const char* key : {"use_embedding_sharing", "use_gated_activation", "use_parallel_block"}) json[key] = true;
    json["use_parallel_embedding"] = true;
  });
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.rope_theta, 50000.0);
  EXPECT_EQ(config.own_field<std::vector<std::string>>("layer_types"),
            (std::vector<std::string>{kWindow, kWindow, kWindow, kFull, kWindow}));
  EXPECT_FLOAT_EQ(cohere2_architecture().head(config).scale, 0.25F);
}

TEST(Cohere, OtherWaysOfComputingAreRefusedByName) {
  const auto refuses = [](const char* model, const char* key, const io::Json& value, const char* expected) {
    const std::string problem = problem_of(ScratchModel(model), key, value);
    EXPECT_NE(problem.find(cat("field \"", key, "\": expected ", expected)), std::string::npos) << key << problem;
  };
  refuses("cohere2-tied", "use_parallel_block", false, "true");
  refuses("cohere2-tied", "use_gated_activation", false, "true");
  refuses("cohere2-tied", "use_embedding_sharing", false, "true");
  refuses("cohere2-tied", "rotary_pct", 0.5, "1");
  refuses("cohere2-tied", "position_embedding_type", "rope", "\"rope_gptj\"");
  refuses("cohere2-tied", "order_of_interleaved_layers", "global_attn_first", "\"local_attn_first\"");
  refuses("cohere2-tied", "layer_switch", 3, "what sliding_window_pattern says");
  refuses("cohere2-tied", "head_dim", 16, "8, hidden_size over num_attention_heads");
  refuses("cohere2-tied", "head_dim", 7, "an even size");
  refuses("cohere2-tied", "logit_scale", 0, "a positive number");
  refuses("cohere-tied", "use_qk_norm", true, "false");
}

// llama.cpp reads neither, so no GGUF is written that it would misread.
TEST(Cohere, AGgufHasNoWordForBiasesAndAHeadOfItsOwn) {
  for (const char* name : {"cohere-untied", "cohere2-untied"}) {
    const ScratchModel model(name);
    checkpoint::GgufMetadata metadata;
    const auto written = catching([&] {
      set_gguf_config(config_of(model), metadata);
      return Unit{};
    });
    ASSERT_FALSE(written.ok());
    EXPECT_NE(written.error().line().find("keep this model as a directory"), std::string::npos)
        << written.error().line();
  }
}

// The context that Command R was trained for stands beside a smaller one, which bounds runs here as in transformers.
TEST(Cohere, CommandRsLongestTextIsRead) {
  EXPECT_EQ(problem_of(ScratchModel("cohere-tied"), "model_max_length", 131072), "");
  EXPECT_NE(problem_of(ScratchModel("cohere-tied"), "model_max_length", -1).find("model_max_length"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::models
