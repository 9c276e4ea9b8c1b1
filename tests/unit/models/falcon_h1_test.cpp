// Falcon-H1's fields, and what a GGUF and an adapter can have of it.
#include "models/falcon_h1.h"

#include <algorithm>

#include "base/strings.h"
#include "checkpoint/convert.h"
#include "models/adapter.h"
#include "models/gguf_names.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;
using Numbers = std::vector<double>;

std::string falcon_problem(const char* key, const Json& value) {
  const ScratchModel model("falcon-h1-untied");
  model.edit("config.json", [&](Json& json) { json[key] = value; });
  const auto config = read_config(*model.open());
  return config.ok() ? "" : config.error().line();
}

TEST(FalconH1, FieldsAreAsTheModelHasThem) {
  const auto expect = [](const std::string& problem, const char* said) {
    EXPECT_NE(problem.find(said), std::string::npos) << problem;
  };
  expect(falcon_problem("ssm_multipliers", {1.0, 2.0}),
         "field \"ssm_multipliers\": expected 5 positive numbers, found [1, 2]");
  expect(falcon_problem("mlp_multipliers", {1.0, 0.0}), "field \"mlp_multipliers\": expected 2 positive numbers");
  expect(falcon_problem("mlp_multipliers", {1.0, "a"}), "mlp_multipliers");
  expect(falcon_problem("key_multiplier", -1.0), "field \"key_multiplier\": expected a positive number");
  expect(falcon_problem("mamba_d_ssm", 50), "field \"mamba_d_head\": expected what makes 50 features of 4 heads");
  expect(falcon_problem("mamba_n_groups", 3), "field \"mamba_n_groups\": expected a divisor of 4 heads, found 3");
  expect(falcon_problem("mamba_use_mlp", false), "\"mamba_use_mlp\": expected true");
  expect(falcon_problem("attn_layer_indices", {0}), "\"attn_layer_indices\": expected null");
}

// As the published files have it.
TEST(FalconH1, ReadsOlderKeys) {
  const ScratchModel model("falcon-h1-untied");
  const ModelConfig before = config_of(model);
  EXPECT_EQ(before.own_field<Numbers>("ssm_multipliers"), (Numbers{0.7, 0.8, 1.3, 1.4, 0.9}));
  model.edit("config.json", [](Json& json) {
    json["attn_layer_indices"] = nullptr, json["mamba_use_mlp"] = true, json["num_logits_to_keep"] = 1;
    json["time_step_floor"] = 1e-4, json["time_step_min"] = 0.001, json["time_step_max"] = 0.1;
    json["time_step_rank"] = "auto";
    json.erase("time_step_limit"), json.erase("mamba_d_head");
  });
  EXPECT_EQ(config_of(model).own, before.own);
  // No width of its own: twice the stream's.
  EXPECT_EQ(config_of(ScratchModel("falcon-h1-tied")).own_field<std::int64_t>("mamba_d_ssm"), 64);
}

// Each layer keeps keys and values, and a state.
TEST(FalconH1, LayersHaveTwoCaches) {
  const auto specs = falcon_h1_architecture().cache_specs(config_of(ScratchModel("falcon-h1-untied")));
  ASSERT_EQ(specs.size(), 4U);
  EXPECT_EQ(specs[1].kind, nn::CacheKind::full);
  EXPECT_EQ(specs[1].module, "model.layers.1.self_attn");
  EXPECT_EQ(specs[3].kind, nn::CacheKind::state);
  EXPECT_EQ(specs[3].module, "model.layers.1.mamba");
  EXPECT_EQ(specs[3].states[1].shape, (std::vector<std::int64_t>{4, 16, 12}));
}

// PEFT refuses an adapter on out_proj of this model, so none is made that it could not load.
TEST(FalconH1, NoAdapterSitsWhereNoneOfPeftCan) {
  const ModelConfig config = config_of(ScratchModel("falcon-h1-untied"));
  std::vector<std::string> linear;
  for (const ParameterSpec& spec : falcon_h1_architecture().parameters(config)) {
    if (spec.is_linear && spec.name.starts_with("model.layers.0.")) linear.push_back(module_of(spec).substr(15));
  }
  std::sort(linear.begin(), linear.end());
  EXPECT_EQ(linear, (std::vector<std::string>{"feed_forward.down_proj", "feed_forward.gate_proj",
                                              "feed_forward.up_proj", "mamba.in_proj", "self_attn.k_proj",
                                              "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj"}));
}

// A published GGUF's weights hold the factors; of a directory's factors it has no word.
TEST(FalconH1, AGgufHasNoFactors) {
  const auto problem = [](const char* name, const char* key, const Json& value) {
    const ScratchModel model(name);
    if (*key != '\0') model.edit("config.json", [&](Json& json) { json[key] = value; });
    checkpoint::ConvertOptions options;
    const auto form = set_gguf_form(*model.open(), config_of(model), "tiny", options);
    return form.ok() ? "" : form.error().line();
  };
  EXPECT_EQ(problem("falcon-h1-plain", "", {}), "");
  for (const char* key : {"key_multiplier", "attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
                          "ssm_out_multiplier", "embedding_multiplier", "lm_head_multiplier"}) {
    EXPECT_NE(problem("falcon-h1-plain", key, 1.5).find(key), std::string::npos) << key;
  }
  EXPECT_NE(problem("falcon-h1-plain", "mlp_multipliers", {1.0, 2.0}).find("mlp_multipliers"), std::string::npos);
  EXPECT_NE(problem("falcon-h1-plain", "mamba_norm_before_gate", true).find("mamba_norm_before_gate"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::models
