// Granite 4's layers of Mamba-2: their fields, and how a GGUF keeps them.
#include "models/granite_h.h"

#include <cmath>

#include "base/strings.h"
#include "checkpoint/convert.h"
#include "models/gguf_names.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;
using Texts = std::vector<std::string>;

std::string hybrid_problem(const char* key, const Json& value, const char* name = "granite-h-tied") {
  const ScratchModel model(name);
  model.edit("config.json", [&](Json& json) { json[key] = value; });
  const auto config = read_config(*model.open());
  return config.ok() ? "" : config.error().line();
}

TEST(GraniteH, FieldsAreAsTheModelHasThem) {
  const auto expect = [](const std::string& problem, const char* said) {
    EXPECT_NE(problem.find(said), std::string::npos) << problem;
  };
  expect(hybrid_problem("layer_types", {"mamba", "attention", "conv"}),
         "field \"layer_types\": expected mamba or attention (linear_attention, full_attention) for each of 3 layers");
  expect(hybrid_problem("layer_types", {"mamba", "attention"}), "for each of 3 layers");
  expect(hybrid_problem("num_key_value_heads", 3), "field \"num_key_value_heads\": expected a divisor of 4 heads");
  expect(hybrid_problem("position_embedding_type", "alibi"),
         "field \"position_embedding_type\": expected \"rope\" or \"nope\", found \"alibi\"");
  expect(hybrid_problem("mamba_n_groups", 3), "field \"mamba_n_groups\": expected a divisor of 4 heads, found 3");
  expect(hybrid_problem("mamba_d_conv", 1), "field \"mamba_d_conv\": expected from 2 to 64 rows, found 1");
  expect(hybrid_problem("mamba_d_head", 8),
         "field \"mamba_d_head\": expected what makes 64 features of 4 heads, found 8");
  expect(hybrid_problem("num_local_experts", 2147483647), "field \"num_local_experts\": expected 1 to ");
  expect(hybrid_problem("num_experts_per_tok", 6, "granite-h-untied"), "expected 1 to 5, as many experts as");
  expect(hybrid_problem("time_step_limit", {0.0, 0.1}), "\"time_step_limit\"");
  expect(hybrid_problem("normalization_function", "layernorm"), "\"normalization_function\"");
}

// As the published files have it.
TEST(GraniteH, ReadsOlderWords) {
  const ScratchModel model("granite-h-tied");
  const ModelConfig before = config_of(model);
  model.edit("config.json", [](Json& json) {
    json["layer_types"] = {"mamba", "attention", "mamba"};
    json["position_embedding_type"] = "nope";
    json["init_method"] = "mup", json["normalization_function"] = "rmsnorm";
    json.erase("time_step_limit"), json.erase("mamba_d_head");
  });
  const ModelConfig after = config_of(model);
  EXPECT_EQ(after.own, before.own);
  EXPECT_EQ(after.own_field<Texts>("layer_types"), (Texts{"linear_attention", "full_attention", "linear_attention"}));
}

TEST(GraniteH, LayersThatNoPositionTurnsHaveNoTable) {
  const auto tables = [](const char* name) {
    return granite_h_architecture().rope_tables(config_of(ScratchModel(name))).size();
  };
  EXPECT_EQ(tables("granite-h-tied"), 0U);
  EXPECT_EQ(tables("granite-h-untied"), 1U);
}

TEST(GraniteH, StatesAreOfTheirOwnKind) {
  const auto specs = granite_h_architecture().cache_specs(config_of(ScratchModel("granite-h-untied")));
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[0].kind, nn::CacheKind::full);
  EXPECT_EQ(specs[1].kind, nn::CacheKind::state);
  EXPECT_EQ(specs[1].module, "model.layers.1.mamba");
  ASSERT_EQ(specs[1].states.size(), 2U);
  EXPECT_EQ(specs[1].states[0].shape, (std::vector<std::int64_t>{2, 96 + 2 * 2 * 24}));
  EXPECT_EQ(specs[1].states[1].shape, (std::vector<std::int64_t>{4, 24, 24}));
}

class GraniteHGguf : public testing::Test {
 protected:
  using Change = std::function<void(checkpoint::GgufMetadata&)>;
  [[nodiscard]] checkpoint::CheckpointSource write(const std::string& outtype, const Change& change = {}) const {
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    options.replace = true;
    set_gguf_form(source_, config_of(model_), "tiny", options).value();
    if (change) change(*options.metadata);
    (void)checkpoint::convert_checkpoint(source_, out_.path() / "m.gguf", options).value();
    return checkpoint::CheckpointSource::open(out_.path() / "m.gguf").value();
  }
  [[nodiscard]] std::string problem(const Change& change) const {
    const auto config = read_config(write("f32", change));
    return config.ok() ? "" : config.error().line();
  }

  const ScratchModel model_{"granite-h-untied"};
  const checkpoint::CheckpointSource source_ = checkpoint::CheckpointSource::open(model_.path()).value();
  const test::TempDir out_;
};

// llama.cpp's converter: A and D a number a row, the norm a group a row, and vectors that no type narrows.
TEST_F(GraniteHGguf, HasVectorsInRows) {
  for (const char* outtype : {"f32", "bf16", "q8_0"}) {
    const auto gguf = write(outtype);
    const auto both = [&](const char* theirs, const char* ours, const std::vector<std::int64_t>& shape) {
      const auto* from = source_.find(cat("model.layers.1.mamba.", theirs));
      const auto* to = gguf.find(cat("blk.1.", ours));
      EXPECT_TRUE(from != nullptr && to != nullptr) << theirs;
      EXPECT_EQ(to->shape, shape) << ours;
      EXPECT_EQ(to->bytes.size(), from->bytes.size()) << ours << " is no longer in f32";
      std::pair<std::vector<float>, std::vector<float>> values;
      values.first.resize(from->bytes.size() / 4), values.second.resize(to->bytes.size() / 4);
      source_.read_f32(*from, values.first).value();
      gguf.read_f32(*to, values.second).value();
      return values;
    };
    const auto [rates, held] = both("A_log", "ssm_a", {4, 1});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(held[i], -std::exp(rates[i]));
    const auto [skips, held_skips] = both("D", "ssm_d", {4, 1});
    EXPECT_EQ(held_skips, skips);
    const auto [norm, held_norm] = both("norm.weight", "ssm_norm.weight", {2, 48});
    EXPECT_EQ(held_norm, norm);
    const auto [conv, held_conv] = both("conv1d.weight", "ssm_conv1d.weight", {192, 3});
    EXPECT_EQ(held_conv, conv);
  }
}

TEST_F(GraniteHGguf, SaysWhatConfigJsonSays) {
  const auto gguf = write("f32");
  const ModelConfig config = read_config(gguf).value();
  const ModelConfig before = config_of(model_);
  EXPECT_EQ(config.own, before.own);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_TRUE(gguf.gguf()->boolean("granitehybrid.rope.scaling.finetuned").value());
  EXPECT_EQ(gguf.gguf()->integer("granitehybrid.ssm.inner_size").value(), 96);
  EXPECT_EQ(gguf.gguf()->find("granitehybrid.attention.head_count_kv")->integers().value(),
            (std::vector<std::int64_t>{4, 0, 0}));
}

TEST_F(GraniteHGguf, WhatNoModelHasIsRefused) {
  const std::string odd = problem([](auto& metadata) { metadata.set("granitehybrid.ssm.inner_size", 80U); });
  EXPECT_NE(odd.find("key \"granitehybrid.ssm.inner_size\": expected 64, a multiple of hidden_size, found 80"),
            std::string::npos)
      << odd;
  const std::string word = problem([](auto& metadata) { metadata.set("granitehybrid.rope.scaling.finetuned", "yes"); });
  EXPECT_NE(word.find("granitehybrid.rope.scaling.finetuned"), std::string::npos) << word;
}

// llama.cpp has no biases in these.
TEST(GraniteH, AGgufSaysOnlyWhatLlamaCppComputes) {
  const ScratchModel model("granite-h-biased");
  for (const char* key : {"attention_bias", "mamba_proj_bias"}) {
    model.edit("config.json", [](Json& json) {
      json["attention_bias"] = false, json["mamba_proj_bias"] = false, json["mamba_conv_bias"] = true;
    });
    model.edit("config.json", [&](Json& json) { json[key] = true; });
    checkpoint::GgufMetadata metadata;
    const auto said = catching([&] {
      set_gguf_config(config_of(model), metadata);
      return Unit{};
    });
    ASSERT_FALSE(said.ok()) << key;
    EXPECT_NE(said.error().line().find("keep this model as a directory"), std::string::npos) << said.error().line();
  }
}

}  // namespace
}  // namespace tern::models
