// What Gemma 4 has beside Gemma 3: layers that differ in their heads, their width and whose keys they read, which
// config.json says in two ways and a GGUF by lists.
#include "models/gemma4.h"

#include <cmath>

#include "gemma_gguf.h"
#include "models/gemma4_fields.h"
#include "models/parameters.h"
#include "models/rope.h"

namespace tern::models {
namespace {

using Integers = std::vector<std::int64_t>;

template <typename Member>
Integers of_layers(const ModelConfig& config, Member member) {
  Integers numbers;
  for (const Gemma4Layer& layer : gemma4_layers(config)) numbers.push_back(static_cast<std::int64_t>(layer.*member));
  return numbers;
}

TEST(Gemma4, LayersDifferAsTransformersHasThem) {
  const ModelConfig small = config_of(ScratchModel("gemma4-tied"));
  EXPECT_EQ(of_layers(small, &Gemma4Layer::window), (Integers{11, 0, 0, 11, 11, 0}));
  EXPECT_EQ(of_layers(small, &Gemma4Layer::head_dim), (Integers{8, 16, 16, 8, 8, 16}));
  EXPECT_EQ(of_layers(small, &Gemma4Layer::intermediate_size), (Integers{48, 48, 48, 48, 96, 96}));
  EXPECT_EQ(of_layers(small, &Gemma4Layer::source), (Integers{-1, -1, -1, -1, 3, 2}));
  EXPECT_EQ(of_layers(small, &Gemma4Layer::is_shared), (Integers{0, 0, 1, 1, 0, 0}));
  const ModelConfig large = config_of(ScratchModel("gemma4-untied"));
  EXPECT_EQ(of_layers(large, &Gemma4Layer::kv_heads), (Integers{2, 1, 2, 1}));
  EXPECT_EQ(of_layers(large, &Gemma4Layer::keys_are_values), (Integers{0, 1, 0, 1}));
}

// A quarter of the pairs of a global head turn, by exponents over the whole of it.
TEST(Gemma4, PositionsTurnAShareOfGlobalHeads) {
  const ModelConfig config = config_of(ScratchModel("gemma4-tied"));
  const auto tables = gemma4_architecture().rope_tables(config);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].frequencies, (std::vector<double>{1.0, std::pow(1e4, -1.0 / 8.0), 0, 0, 0, 0, 0, 0}));
  ASSERT_EQ(tables[1].frequencies.size(), 4U);
  EXPECT_DOUBLE_EQ(tables[1].frequencies[1], std::pow(500.0, -1.0 / 4.0));
}

// As it was published, and as transformers 5 writes it; what is saved is the first.
TEST(Gemma4, OldAndNewConfigurationsSayTheSame) {
  for (const char* name : {"gemma4-tied", "gemma4-untied"}) {
    const ScratchModel model(name);
    const ModelConfig config = config_of(model);
    const io::Json saved = config_json(config, "float32");
    EXPECT_FALSE(saved.contains("per_layer_config"));
    model.edit("config.json", [&](io::Json& json) { json = saved; });
    const ModelConfig again = config_of(model);
    for (const Field& field : gemma4_architecture().fields)
      EXPECT_EQ(value_text(field_value(again, field)), value_text(field_value(config, field))) << field.json;
  }
}

TEST(Gemma4, WhatIsNotComputedIsRefused) {
  const auto refused = [](const std::function<void(io::Json&)>& spoil) { return refusal("gemma4-tied", spoil); };
  const auto expect = [&](const std::function<void(io::Json&)>& spoil, const std::string& part) {
    EXPECT_NE(refused(spoil).find(part), std::string::npos) << part << ": " << refused(spoil);
  };
  const std::string alike =
      "\"per_layer_config\": expected the same head_dim and num_key_value_heads for each layer of full_attention, and "
      "no "
      "other";
  expect([](io::Json& json) { json["per_layer_config"]["5"]["head_dim"] = 24; }, alike);
  expect([](io::Json& json) { json["per_layer_config"]["0"]["head_dim"] = 16; }, alike);
  expect([](io::Json& json) { json["per_layer_config"].erase("5"); }, alike);
  expect([](io::Json& json) { json.erase("layer_types"); }, alike);
  expect(
      [](io::Json& json) {
        for (const char* layer : {"1", "2", "5"}) json["per_layer_config"][layer]["sliding_window"] = 16;
      },
      alike);
  expect([](io::Json& json) { json["layer_types"][5] = kWindow; },
         "\"layer_types\": expected full_attention for the last layer, as transformers takes it to be");
  expect([](io::Json& json) { json["num_kv_shared_layers"] = 5; },
         "\"num_kv_shared_layers\": expected fewer layers than there are, with one of each type before them, found 5");
  expect([](io::Json& json) { json["vocab_size_per_layer_input"] = 100; },
         "\"vocab_size_per_layer_input\": expected 160, the vocabulary, found 100");
  expect([](io::Json& json) { json["enable_moe_block"] = true; },
         "\"num_experts\": expected 1 to 174762 experts, found 0");
  expect([](io::Json& json) { json["use_bidirectional_attention"] = "all"; },
         "\"use_bidirectional_attention\": expected null or \"vision\", found \"all\"");
  expect([](io::Json& json) { json.erase("rope_parameters"); }, "expected a field \"rope_parameters\", found none");
  EXPECT_EQ(refused([](io::Json& json) { json["use_bidirectional_attention"] = "vision"; }), "");
  // A GGUF tells it by the number of heads.
  ModelConfig config = config_of(ScratchModel("gemma4-untied"));
  config.own["num_global_key_value_heads"] = std::int64_t{0};
  checkpoint::GgufMetadata metadata;
  try {
    set_gguf_config(config, metadata);
    FAIL() << "a GGUF cannot say it";
  } catch (const Failure& why) {
    EXPECT_EQ(why.error().line(),
              "key \"attention_k_eq_v\": expected false, as a GGUF has no word for it, found true; "
              "keep this model as a directory");
  }
}

// Lists of numbers by layer, which have to fit the other fields.
TEST(Gemma4, ListsOfAGguf) {
  const ScratchModel model("gemma4-tied");
  const auto gguf = [&](const std::function<void(checkpoint::GgufMetadata&)>& spoil) {
    const auto source = model.open();
    checkpoint::ConvertOptions options;
    options.replace = true;
    set_gguf_form(*source, read_config(*source).value(), "tiny", options).value();
    spoil(*options.metadata);
    (void)checkpoint::convert_checkpoint(*source, model.path() / "model.gguf", options).value();
    return read_config(checkpoint::CheckpointSource::open(model.path() / "model.gguf").value());
  };
  const auto same = gguf([](auto&) {}).value();
  EXPECT_EQ(of_layers(same, &Gemma4Layer::intermediate_size), (Integers{48, 48, 48, 48, 96, 96}));
  const auto list = [&](std::vector<std::int32_t> numbers) {
    return gguf([&](auto& metadata) { metadata.set("gemma4.feed_forward_length", numbers); }).error().line();
  };
  EXPECT_NE(
      list({48, 48, 48, 96, 96, 96}).find(": key \"gemma4.feed_forward_length\", layer 3: expected 48, found 96; "),
      std::string::npos);
  EXPECT_NE(list({48, 48, 48, 48, 96})
                .find(": key \"gemma4.feed_forward_length\": expected a number for each of 6 layers, found 5; "),
            std::string::npos);
  const auto head = gguf([](auto& metadata) { metadata.set("gemma4.rope.dimension_count_swa", std::uint32_t{4}); });
  EXPECT_NE(head.error().line().find("expected 8, as keys of layers with a window have, found 4"), std::string::npos);
}

// Experts of a layer have norms, a router and factors of their own; without them their numbers mean nothing.
TEST(Gemma4, ExpertsStandBesideTheMlp) {
  const ModelConfig config = config_of(ScratchModel("gemma4-moe"));
  std::set<std::string> names;
  for (const auto& spec : gemma4_architecture().parameters(config)) names.insert(spec.name);
  for (const char* name : {"router.scale", "router.proj.weight", "router.per_expert_scale", "experts.gate_proj.weight",
                           "mlp.gate_proj.weight", "pre_feedforward_layernorm_2.weight",
                           "post_feedforward_layernorm_1.weight", "post_feedforward_layernorm_2.weight"}) {
    EXPECT_TRUE(names.contains(cat("model.layers.2.", name))) << name;
  }
  const ScratchModel plain("gemma4-untied");
  plain.edit("config.json", [](io::Json& json) { json["num_experts"] = -3; });
  EXPECT_TRUE(read_config(*plain.open()).ok());
}

// The published files have them, and nothing reads them.
TEST(Gemma4, KeysOfLayersThatReadOthersAreLeftOut) {
  const ModelConfig config = config_of(ScratchModel("gemma4-tied"));
  EXPECT_TRUE(is_of_shared_layers("model.layers.4.self_attn.k_proj.weight", config));
  EXPECT_TRUE(is_of_shared_layers("blk.5.attn_k_norm.weight", config));
  EXPECT_FALSE(is_of_shared_layers("model.layers.3.self_attn.k_proj.weight", config));
  EXPECT_FALSE(is_of_shared_layers("model.layers.4.self_attn.q_proj.weight", config));
  EXPECT_FALSE(is_of_shared_layers("model.layers.6.self_attn.k_proj.weight", config));
  EXPECT_FALSE(is_of_shared_layers("blk.5.attn_k.weight", config_of(ScratchModel("gemma3-tied"))));
}

}  // namespace
}  // namespace tern::models
