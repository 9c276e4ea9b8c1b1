#include "models/rope_override.h"

#include "models/rope.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

ModelConfig overridden(ModelConfig config, const std::string& scaling, std::int64_t max_model_len = 0) {
  EXPECT_NE(override_rope({scaling, max_model_len}, config), "");
  return config;
}

std::string refused(const ModelConfig& config, const std::string& scaling, std::int64_t max_model_len = 0) {
  return catching([&] { return overridden(config, scaling, max_model_len); }).error().line();
}

void expect_same_positions(const ModelConfig& config, const ModelConfig& expected) {
  EXPECT_EQ(rope_frequencies(config), rope_frequencies(expected));
  EXPECT_EQ(rope_amplitude(config), rope_amplitude(expected));
  EXPECT_EQ(config.max_position_embeddings, expected.max_position_embeddings);
}

// The tiny models with YaRN are compared with transformers (tests/golden): without it in config.json, and with it asked
// for, they are the same.
TEST(RopeOverride, MakesTheModelThatItsConfigWouldSay) {
  const ScratchModel whole("qwen3-yarn"), plain("qwen3-yarn");
  plain.edit("config.json", [](Json& json) {
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
    json["max_position_embeddings"] = 128;
  });
  EXPECT_NE(rope_frequencies(config_of(plain)), rope_frequencies(config_of(whole)));
  expect_same_positions(overridden(config_of(plain), "yarn", 512), config_of(whole));
  expect_same_positions(overridden(config_of(plain), R"({"type": "yarn", "factor": 4})"), config_of(whole));
  // Upon what has one already: the context before both counts.
  expect_same_positions(overridden(config_of(whole), "yarn", 512), config_of(whole));
  const ScratchModel llama("llama-yarn"), bare("llama-yarn");
  bare.edit("config.json", [](Json& json) {
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500.0}};
    json["max_position_embeddings"] = 64;
  });
  expect_same_positions(overridden(config_of(bare), R"({"rope_type": "yarn", "factor": 8.0, "beta_fast": 12.0,
      "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.3, "truncate": false})"),
                        config_of(llama));
}

TEST(RopeOverride, TakesTheLeastWholeFactorThatReaches) {
  const ScratchModel model("qwen3-untied");  // 512 tokens
  const ModelConfig twice = overridden(config_of(model), "linear", 513);
  EXPECT_EQ(twice.rope_factor, 2.0);
  EXPECT_EQ(twice.max_position_embeddings, 513);
  EXPECT_EQ(rope_frequencies(twice)[1], rope_frequencies(config_of(model))[1] / 2.0);
  EXPECT_EQ(overridden(config_of(model), "linear", 300).rope_factor, 1.0);
  EXPECT_EQ(overridden(config_of(model), R"({"rope_type": "linear", "factor": 3.0})").max_position_embeddings, 1536);
  // And none where that is asked for.
  const ScratchModel yarn("qwen3-yarn");
  const ModelConfig none = overridden(config_of(yarn), R"({"rope_type": "default"})");
  EXPECT_EQ(none.rope_scaling, RopeScaling::none);
  EXPECT_EQ(none.max_position_embeddings, 128);
}

TEST(RopeOverride, TellsWhatPositionsAre) {
  const ScratchModel model("qwen3-untied");
  ModelConfig config = config_of(model);
  EXPECT_EQ(override_rope({}, config), "");
  EXPECT_EQ(override_rope({"yarn", 2000}, config), "positions: yarn, 512 tokens times 4, context 2000");
  ModelConfig further = config_of(model);
  EXPECT_EQ(override_rope({R"({"rope_type": "yarn", "factor": 2.0})", 2000}, further),
            "positions: yarn, 512 tokens times 2, context 2000, more than the scaling reaches");
}

TEST(RopeOverride, IsWrittenAndReadAgain) {
  for (const char* name : {"qwen3-untied", "qwen3-yarn", "gemma3-tied", "phi3-long"}) {
    SCOPED_TRACE(name);
    const ScratchModel model(name);
    const ModelConfig config = overridden(config_of(model), "yarn", 2000);
    model.edit("config.json", [&](Json& json) { json = config_json(config, "float32"); });
    const ModelConfig again = config_of(model);
    expect_same_positions(again, config);
    EXPECT_EQ(local_rope_frequencies(again), local_rope_frequencies(config));
  }
}

TEST(RopeOverride, SaysWhatItCannotDo) {
  const ScratchModel model("qwen3-untied");
  const ModelConfig config = config_of(model);
  EXPECT_EQ(
      refused(config, "yarn"),
      "--rope_scaling yarn says no factor, and there is no --max_model_len to reach; give --max_model_len with the "
      "length that you want, or --rope_scaling '{\"rope_type\": \"yarn\", \"factor\": 4.0}'.");
  EXPECT_EQ(refused(config, R"({"type": "dynamic", "factor": 2.0})"),
            "--rope_scaling dynamic turns a token otherwise as its sequence grows, and keys in a cache have turned "
            "already; choose yarn.");
  EXPECT_EQ(refused(config, R"({"type": "linear", "factor": 0.5})"),
            "--rope_scaling stretches 512 positions by 0.5; give a factor and an original context of at least 1.");
  EXPECT_NE(refused(config, R"({"type": "linear", "factor": 2, "beta_fast": 3})").find("beta_fast"), std::string::npos);
  EXPECT_NE(refused(config, R"({"type": "turbo", "factor": 2})").find("--rope_scaling"), std::string::npos);
  EXPECT_NE(refused(config, "{").find("--rope_scaling"), std::string::npos);
  const ScratchModel layers("gemma4-tied");
  EXPECT_EQ(refused(config_of(layers), "yarn", 1000),
            "--rope_scaling is given, and Gemma4ForCausalLM has a scaling for each type of its layers; drop the flag.");
}

}  // namespace
}  // namespace tern::models
