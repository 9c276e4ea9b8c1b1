// What Gemma 3 has beside Gemma 2: two bases of rotary positions, which config.json says in two ways, and windows by a
// period.
#include "models/gemma3.h"

#include <cmath>

#include "gemma_gguf.h"
#include "models/layer_windows.h"
#include "models/rope.h"

namespace tern::models {
namespace {

using Types = std::vector<std::string>;
using Windows = std::vector<std::int64_t>;

ModelConfig through_gguf(const ScratchModel& model) {
  const auto source = model.open();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  set_gguf_form(*source, read_config(*source).value(), "tiny", options).value();
  (void)checkpoint::convert_checkpoint(*source, model.path() / "model.gguf", options).value();
  return read_config(checkpoint::CheckpointSource::open(model.path() / "model.gguf").value()).value();
}

void expect_same_layers(const ModelConfig& got, const ModelConfig& want) {
  const auto tables = gemma3_architecture().rope_tables(got);
  const auto wanted = gemma3_architecture().rope_tables(want);
  ASSERT_EQ(tables.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(tables[i].kind, wanted[i].kind);
    EXPECT_EQ(tables[i].frequencies, wanted[i].frequencies) << tables[i].kind;
  }
  EXPECT_EQ(windows_by_type(got), windows_by_type(want));
}

// Published configurations have rope_theta, rope_local_base_freq and a period; transformers 5 writes a set of
// parameters and a name for each type of layer.
TEST(Gemma3, OldAndNewConfigurationsSayTheSame) {
  const ScratchModel model("gemma3-tied");
  const ModelConfig config = config_of(model);
  const auto tables = gemma3_architecture().rope_tables(config);
  EXPECT_DOUBLE_EQ(tables[0].frequencies[0], 1.0 / 8.0);
  EXPECT_DOUBLE_EQ(tables[0].frequencies[1], std::pow(1e6, -1.0 / 8.0) / 8.0);
  EXPECT_DOUBLE_EQ(tables[1].frequencies[0], 1.0);
  EXPECT_DOUBLE_EQ(tables[1].frequencies[1], std::pow(500.0, -1.0 / 8.0));
  EXPECT_EQ(windows_by_type(config), (Windows{11, 11, 11, 11, 11, 0, 11}));
  const ScratchModel old("gemma3-tied");
  old.edit("config.json", [](io::Json& json) {
    for (const char* key : {"rope_parameters", "layer_types", "_sliding_window_pattern"}) json.erase(key);
    json["rope_theta"] = 1000000;
    json["rope_local_base_freq"] = 500;
    json["rope_scaling"] = {{"factor", 8.0}, {"rope_type", "linear"}};
    json["sliding_window_pattern"] = 6;
  });
  expect_same_layers(config_of(old), config);
  const ModelConfig gguf = through_gguf(model);
  expect_same_layers(gguf, config);
  const ScratchModel back("gemma3-tied");
  back.edit("config.json", [&](io::Json& json) { json = config_json(gguf, "float32"); });
  expect_same_layers(config_of(back), config);
}

TEST(Gemma3, AbsentFieldsAreThoseOfTransformers) {
  const ScratchModel model("gemma3-untied");
  model.edit("config.json", [](io::Json& json) {
    for (const char* key : {"final_logit_softcapping", "query_pre_attn_scalar", "sliding_window", "layer_types",
                            "_sliding_window_pattern", "rope_parameters", "hidden_activation", "tie_word_embeddings"})
      json.erase(key);
    json["num_hidden_layers"] = 7;
  });
  const ModelConfig config = config_of(model);
  EXPECT_EQ(gemma3_architecture().head(config).softcap, 0.0F);
  EXPECT_EQ(config.own_field<std::int64_t>("query_pre_attn_scalar"), 256);
  EXPECT_EQ(windows_by_type(config), (Windows{4096, 4096, 4096, 4096, 4096, 0, 4096}));
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.rope_local_theta, 1e4);
  EXPECT_TRUE(config.tie_word_embeddings);
  model.edit("config.json", [](io::Json& json) {
    json["sliding_window_pattern"] = 3;
    json["rope_parameters"] = {{kFull, nullptr}, {kWindow, {{"rope_theta", 700}}}};
  });
  const ModelConfig other = config_of(model);
  EXPECT_EQ(windows_by_type(other), (Windows{4096, 4096, 0, 4096, 4096, 0, 4096}));
  EXPECT_EQ(other.rope_theta, 1e6);
  EXPECT_EQ(other.rope_local_theta, 700.0);
}

TEST(Gemma3, AGgufHasTheDefaultsOfLlamaCpp) {
  const std::pair<const std::string, std::variant<std::uint32_t, float, std::string>> window{"attention.sliding_window",
                                                                                             std::uint32_t{512}};
  const ModelConfig usual = read_gemma_gguf("gemma3", 7, {window}).value();
  EXPECT_EQ(usual.architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(windows_by_type(usual), (Windows{512, 512, 512, 512, 512, 0, 512}));
  EXPECT_EQ(usual.own_field<std::int64_t>("query_pre_attn_scalar"), 24);
  EXPECT_EQ(usual.rope_theta, 1e4);
  EXPECT_EQ(usual.rope_local_theta, 1e4);
  EXPECT_EQ(gemma3_architecture().head(usual).softcap, 0.0F);
  const ModelConfig other = read_gemma_gguf("gemma3", 62,
                                            {window,
                                             {"attention.sliding_window_pattern", std::uint32_t{2}},
                                             {"rope.freq_base", 1e6F},
                                             {"rope.freq_base_swa", 2e4F},
                                             {"rope.scaling.type", "linear"},
                                             {"rope.scaling.factor", 8.0F},
                                             {"final_logit_softcapping", 30.0F}})
                                .value();
  EXPECT_EQ(windows_by_type(other)[1], 0);
  EXPECT_EQ(windows_by_type(other)[2], 512);
  EXPECT_EQ(other.own_field<std::int64_t>("query_pre_attn_scalar"), 16);  // of 27B, which its layers give away
  EXPECT_EQ(rope_frequencies(other)[0], 0.125);
  EXPECT_EQ(local_rope_frequencies(other)[0], 1.0);
  EXPECT_EQ(other.rope_local_theta, 2e4);
  EXPECT_EQ(gemma3_architecture().head(other).softcap, 30.0F);
  EXPECT_NE(read_gemma_gguf("gemma3", 7, {}).error().line().find("\"gemma3.attention.sliding_window\": expected a"),
            std::string::npos);
}

TEST(Gemma3, AGgufHoldsOnePlusTheWeightOfANorm) {
  expect_norms_of_gguf("gemma3-tied", {
                                          {"model.layers.5.input_layernorm", "blk.5.attn_norm"},
                                          {"model.layers.5.self_attn.q_norm", "blk.5.attn_q_norm"},
                                          {"model.layers.5.self_attn.k_norm", "blk.5.attn_k_norm"},
                                          {"model.layers.5.post_attention_layernorm", "blk.5.post_attention_norm"},
                                          {"model.layers.5.pre_feedforward_layernorm", "blk.5.ffn_norm"},
                                          {"model.layers.5.post_feedforward_layernorm", "blk.5.post_ffw_norm"},
                                          {"model.norm", "output_norm"},
                                      });
}

TEST(Gemma3, WhatAGgufCanSaySurvivesIt) {
  const ScratchModel model("gemma3-untied");
  model.edit("config.json", [](io::Json& json) {
    json["query_pre_attn_scalar"] = json["head_dim"];
    json["sliding_window_pattern"] = 3;
    json["layer_types"] = Types{kWindow, kWindow, kFull, kWindow};
  });
  const ModelConfig config = through_gguf(model);
  EXPECT_EQ(windows_by_type(config), (Windows{37, 37, 0, 37}));
  EXPECT_EQ(gemma3_architecture().head(config).softcap, 1.5F);
  EXPECT_FALSE(config.tie_word_embeddings);
}

TEST(Gemma3, WhatAGgufCannotSayIsRefused) {
  const auto refused = [](const char* key, const io::Json& value) {
    return refusal("gemma3-tied", [&](io::Json& json) { json[key] = value; });
  };
  EXPECT_EQ(refused("sliding_window", 12), "");
  EXPECT_EQ(refused("query_pre_attn_scalar", 25),
            "key \"query_pre_attn_scalar\": expected 16, as a GGUF has no word for it, found 25; keep this model as a "
            "directory");
  EXPECT_NE(refused("layer_types", io::Json(Types(7, kFull))).find("key \"layer_types\": expected ["),
            std::string::npos);
}

TEST(Gemma3, WhatIsNotComputedIsRefused) {
  const auto refused = [](const char* key, const io::Json& value) {
    return refusal("gemma3-tied", [&](io::Json& json) { json[key] = value; });
  };
  EXPECT_NE(refused("attn_logit_softcapping", 50.0).find("\"attn_logit_softcapping\": expected null, found 50"),
            std::string::npos);
  EXPECT_NE(refused("use_bidirectional_attention", true).find("\"use_bidirectional_attention\": expected false"),
            std::string::npos);
  EXPECT_NE(refused("hidden_activation", "silu").find("\"hidden_activation\": expected \"gelu_pytorch_tanh\""),
            std::string::npos);
  EXPECT_NE(refused("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1000000.0}})
                .find("\"rope_parameters.rope_type\": expected only full_attention and sliding_attention"),
            std::string::npos);
  EXPECT_NE(refused("rope_parameters", {{kWindow, {{"rope_type", "linear"}, {"factor", 2.0}}}})
                .find("\"rope_parameters.sliding_attention.rope_type\": expected default, found \"linear\""),
            std::string::npos);
  EXPECT_NE(
      refused("rope_parameters", {{kFull, {{"rope_type", "ntk"}}}}).find("default, linear, dynamic, yarn, llama3"),
      std::string::npos);
  EXPECT_NE(refused("sliding_window_pattern", 0).find("\"sliding_window_pattern\": expected a size"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::models
