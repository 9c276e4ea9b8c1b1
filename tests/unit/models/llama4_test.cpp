// What Llama 4 has beside Llama 3: layers by whether positions turn them, chunks, and experts in some of them. If these
// fail, a published checkpoint is refused or read as another model.
#include "models/llama4.h"

#include <cmath>

#include "models/rope.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Layers = std::vector<std::int64_t>;

// An empty list of turned layers, no list of experts' layers, and a number for yes.
TEST(Llama4, IsReadAsItWasPublished) {
  const ScratchModel model("llama4-untied");
  model.edit("config.json", [](io::Json& json) {
    json["no_rope_layers"] = io::Json::array();
    json["attn_temperature_tuning"] = 4;
    json["for_llm_compressor"] = false;
    for (const char* key : {"moe_layers", "layer_types"}) json.erase(key);
  });
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.own_field<Layers>("no_rope_layers"), (Layers{1, 0, 1, 0}));
  EXPECT_EQ(config.own_field<Layers>("moe_layers"), (Layers{1, 3}));
  EXPECT_TRUE(config.own_field<bool>("attn_temperature_tuning"));
  Layers windows;
  for (const auto& spec : llama4_architecture().cache_specs(config)) windows.push_back(spec.window);
  EXPECT_EQ(windows, (Layers{37, 0, 37, 0})) << "a chunk's keys, or all";
}

// transformers: log1p(floor((position + 1) / floor_scale)) attn_scale + 1.
TEST(Llama4, QueriesWithoutPositionsGrow) {
  const auto tables = llama4_architecture().rope_tables(config_of(ScratchModel("llama4-untied")));
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].frequencies, std::vector<double>(6, 0.0));
  EXPECT_EQ(tables[1].amplitude_at(14), 1.0);
  EXPECT_DOUBLE_EQ(tables[1].amplitude_at(15), 1.0 + 0.3 * std::log(2.0));
  EXPECT_DOUBLE_EQ(tables[1].amplitude_at(47), 1.0 + 0.3 * std::log(4.0));
}

// Scout's factors, of low and high frequencies alike: each pair turns as it did, or 16 times slower.
TEST(Llama4, ScalingWithoutABandBetween) {
  const ModelConfig config = config_of(ScratchModel("llama4-tied"));
  const std::vector<float> factors = rope_factors(config);
  ASSERT_EQ(factors.size(), 4U);
  EXPECT_EQ(factors, (std::vector<float>{1.0F, 1.0F, 16.0F, 16.0F}));
}

TEST(Llama4, WhatIsNotComputedIsRefused) {
  const auto refused = [](const std::function<void(io::Json&)>& spoil) {
    const ScratchModel model("llama4-untied");
    model.edit("config.json", spoil);
    return read_config(*model.open()).error().line();
  };
  const auto expect = [&](const std::function<void(io::Json&)>& spoil, const std::string& part) {
    EXPECT_NE(refused(spoil).find(part), std::string::npos) << part << ": " << refused(spoil);
  };
  expect(
      [](io::Json& json) {
        json["layer_types"] = io::Json::array({"sliding_attention", "full_attention"});
      },
      "\"layer_types\": expected chunked_attention or full_attention for each of 4 layers");
  expect([](io::Json& json) { json["moe_layers"] = io::Json::array({4}); },
         "\"moe_layers\": expected layers from 0 to 3");
  expect(
      [](io::Json& json) {
        json["no_rope_layers"] = io::Json::array({1, 2, 1, 0});
      },
      "\"no_rope_layers\": expected 0 or 1 for each of 4 layers");
  expect([](io::Json& json) { json["attention_chunk_size"] = nullptr; }, "\"attention_chunk_size\"");
  expect([](io::Json& json) { json["attention_bias"] = true; }, "\"attention_bias\": expected false");
}

}  // namespace
}  // namespace tern::models
