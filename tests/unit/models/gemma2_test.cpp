// What Gemma 2 has beside Llama, in config.json and in a GGUF, whose defaults are not the same.
#include "models/gemma2.h"

#include "gemma_gguf.h"
#include "models/layer_windows.h"

namespace tern::models {
namespace {

using Types = std::vector<std::string>;

TEST(Gemma2, AbsentFieldsAreThoseOfTransformers) {
  const ScratchModel model("gemma2-untied");
  model.edit("config.json", [](io::Json& json) {
    for (const char* key :
         {"attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "sliding_window", "layer_types",
          "hidden_activation", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id"})
      json.erase(key);
  });
  const ModelConfig config = read_config(*model.open()).value();
  EXPECT_EQ(config.own_field<double>("attn_logit_softcapping"), 50.0);
  EXPECT_EQ(config.own_field<double>("final_logit_softcapping"), 30.0);
  EXPECT_EQ(config.own_field<std::int64_t>("query_pre_attn_scalar"), 256);
  EXPECT_EQ(config.sliding_window, 4096);
  EXPECT_EQ(windows_by_type(config), (std::vector<std::int64_t>{4096, 0, 4096, 0}));
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.bos_token_id, 2);
  EXPECT_EQ(config.eos_token_ids, std::vector<std::int64_t>{1});
  EXPECT_EQ(config.pad_token_id, 0);
}

TEST(Gemma2, AGgufHasTheDefaultsOfLlamaCpp) {
  const ModelConfig usual = read_gemma_gguf("gemma2", 4, {}).value();
  EXPECT_EQ(usual.architecture, "Gemma2ForCausalLM");
  EXPECT_EQ(usual.own_field<double>("attn_logit_softcapping"), 50.0);
  EXPECT_EQ(usual.own_field<double>("final_logit_softcapping"), 30.0);
  EXPECT_EQ(usual.own_field<std::int64_t>("query_pre_attn_scalar"), 24);
  EXPECT_EQ(windows_by_type(usual), (std::vector<std::int64_t>{4096, 0, 4096, 0}));
  EXPECT_TRUE(usual.tie_word_embeddings);
  const ModelConfig other = read_gemma_gguf("gemma2", 46,
                                            {{"attention.sliding_window", std::uint32_t{512}},
                                             {"attn_logit_softcapping", 20.0F},
                                             {"final_logit_softcapping", 10.0F}})
                                .value();
  EXPECT_EQ(other.own_field<double>("attn_logit_softcapping"), 20.0);
  EXPECT_EQ(other.own_field<double>("final_logit_softcapping"), 10.0);
  EXPECT_EQ(other.own_field<std::int64_t>("query_pre_attn_scalar"), 16);  // of 27B, which its layers give away
  EXPECT_EQ(other.sliding_window, 512);
  const auto json = config_json(other, "float32");  // config.json says what the GGUF implies
  EXPECT_EQ(json["query_pre_attn_scalar"], 16);
  EXPECT_EQ(json["layer_types"].size(), 46U);
  EXPECT_EQ(json["layer_types"][1], kFull);
  EXPECT_EQ(json["hidden_activation"], "gelu_pytorch_tanh");
}

TEST(Gemma2, AGgufHoldsOnePlusTheWeightOfANorm) {
  expect_norms_of_gguf("gemma2-tied", {
                                          {"model.layers.1.input_layernorm", "blk.1.attn_norm"},
                                          {"model.layers.1.post_attention_layernorm", "blk.1.post_attention_norm"},
                                          {"model.layers.1.pre_feedforward_layernorm", "blk.1.ffn_norm"},
                                          {"model.layers.1.post_feedforward_layernorm", "blk.1.post_ffw_norm"},
                                          {"model.norm", "output_norm"},
                                      });
}

// llama.cpp has one way of each of these, and no key.
TEST(Gemma2, WhatAGgufCannotSayIsRefused) {
  const auto refused = [](const char* key, const io::Json& value) {
    return refusal("gemma2-tied", [&](io::Json& json) { json[key] = value; });
  };
  EXPECT_EQ(refused("sliding_window", 12), "");
  EXPECT_EQ(refused("query_pre_attn_scalar", 25),
            "key \"query_pre_attn_scalar\": expected 24, as a GGUF has no word for it, found 25; keep this model as a "
            "directory");
  EXPECT_EQ(refused("attn_logit_softcapping", nullptr),
            "key \"attn_logit_softcapping\": expected 50, as a GGUF has no word for it, found 0; keep this model as a "
            "directory");
  EXPECT_EQ(refused("final_logit_softcapping", nullptr),
            "key \"final_logit_softcapping\": expected 30, as a GGUF has no word for it, found 0; keep this model as "
            "a directory");
  EXPECT_NE(refused("layer_types", io::Json(Types{kWindow, kWindow, kWindow, kFull})).find("key \"layer_types\""),
            std::string::npos);
  EXPECT_NE(refusal("gemma2-untied",
                    [](io::Json& json) {
                      json["query_pre_attn_scalar"] = 16;
                      json["attn_logit_softcapping"] = json["final_logit_softcapping"] = 5;
                      json.erase("layer_types");
                    })
                .find("key \"tie_word_embeddings\": expected true, as a GGUF"),
            std::string::npos);
}

TEST(Gemma2, WhatIsNotComputedIsRefused) {
  const auto refused = [](const char* key, const io::Json& value) {
    return refusal("gemma2-tied", [&](io::Json& json) { json[key] = value; });
  };
  EXPECT_NE(refused("hidden_activation", "silu").find("\"hidden_activation\": expected \"gelu_pytorch_tanh\""),
            std::string::npos);
  EXPECT_NE(refused("use_bidirectional_attention", true).find("\"use_bidirectional_attention\": expected false"),
            std::string::npos);
  EXPECT_EQ(refused("use_bidirectional_attention", false), "");
  EXPECT_NE(refused("sliding_window", nullptr).find("\"sliding_window\": expected a value"), std::string::npos);
  EXPECT_NE(refused("sliding_window", 0).find("\"sliding_window\": expected a size"), std::string::npos);
  EXPECT_NE(refused("layer_types", io::Json(Types{kWindow, "chunked_attention", kWindow, kFull}))
                .find("\"layer_types\": expected full_attention or sliding_attention for each of 4 layers"),
            std::string::npos);
  EXPECT_NE(refused("attn_logit_softcapping", -1).find("expected a number from 0 on"), std::string::npos);
  EXPECT_NE(refused("attention_bias", true).find("\"attention_bias\": expected false"), std::string::npos);
}

}  // namespace
}  // namespace tern::models
