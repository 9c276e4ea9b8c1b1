#include "models/config.h"

#include <cmath>
#include <numbers>

#include "checkpoint/gguf_writer.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = nlohmann::ordered_json;

TEST(Config, ReadsBothSpellingsOfRopeScaling) {
  const ScratchModel new_style;  // rope_parameters, as transformers 5 writes
  const ModelConfig config = read_config(*new_style.open()).value();
  EXPECT_EQ(config.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(config.rope_factor, 8.0);
  EXPECT_EQ(config.rope_original_max_position, 64);
  const ScratchModel old_style;
  old_style.edit("config.json", [](Json& json) {
    json["rope_scaling"] = json["rope_parameters"];
    json["rope_theta"] = 10000.0;
    json["rope_scaling"].erase("rope_theta");
    json.erase("rope_parameters");
  });
  const ModelConfig other = read_config(*old_style.open()).value();
  EXPECT_EQ(rope_frequencies(other), rope_frequencies(config));
}

TEST(Config, WritesWhatItReads) {
  for (const char* name : {"llama-tied", "llama-untied", "mistral"}) {
    const ScratchModel model(name);
    const ModelConfig config = read_config(*model.open()).value();
    model.edit("config.json", [&](Json& json) { json = config_json(config, "float32"); });
    const ModelConfig again = read_config(*model.open()).value();
    EXPECT_EQ(config_json(again, "float32"), config_json(config, "float32")) << name;
    EXPECT_EQ(rope_frequencies(again), rope_frequencies(config)) << name;
    EXPECT_EQ(again.sliding_window, name == std::string("mistral") ? 37 : 0);
    EXPECT_EQ(again.head_dim, name == std::string("llama-untied") ? 24 : 16);
  }
}

TEST(Config, DefaultsAreThoseOfTransformers) {
  const ScratchModel model;
  model.edit("config.json", [](Json& json) {
    for (const char* key : {"num_key_value_heads", "head_dim", "rope_parameters", "rms_norm_eps", "hidden_act",
                            "tie_word_embeddings", "attention_bias", "mlp_bias", "architectures"})
      json.erase(key);
    json["sliding_window"] = nullptr;
  });
  const ModelConfig config = read_config(*model.open()).value();
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");  // of the model type
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.sliding_window, 0);
  EXPECT_FALSE(config.tie_word_embeddings);
}

struct Spoiled {
  const char* name;
  std::function<void(Json&)> change;
  const char* says;  // part of the error line
};
void PrintTo(const Spoiled& spoiled, std::ostream* out) { *out << spoiled.name; }

class SpoiledConfig : public testing::TestWithParam<Spoiled> {};

TEST_P(SpoiledConfig, IsRefusedByName) {
  const ScratchModel model;
  model.edit("config.json", GetParam().change);
  const auto config = read_config(*model.open());
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::data);
  EXPECT_NE(config.error().line().find(GetParam().says), std::string::npos) << config.error().line();
  EXPECT_NE(config.error().mend, "");
}

TEST(Config, AnErrorIsOneWholeLine) {
  const ScratchModel model;
  model.edit("config.json", [](Json& j) { j["num_attention_heads"] = -1; });
  EXPECT_EQ(read_config(*model.open()).error().line(),
            (model.path() / "config.json").string() +
                ": key \"num_attention_heads\": expected a positive integer, found -1; "
                "take config.json from the model's repository again");
  std::filesystem::remove(model.path() / "config.json");
  EXPECT_EQ(read_config(*model.open()).error().line(),
            model.path().string() +
                ": expected a config.json beside the weights, found none; put it there from the model's repository");
}

INSTANTIATE_TEST_SUITE_P(
    Each, SpoiledConfig,
    testing::Values(
        Spoiled{"NoSize", [](Json& j) { j.erase("hidden_size"); }, "\"hidden_size\": expected an integer"},
        Spoiled{"TextForSize", [](Json& j) { j["vocab_size"] = "many"; }, "found \"many\""},
        Spoiled{"TextForNumber", [](Json& j) { j["rms_norm_eps"] = "small"; }, "\"rms_norm_eps\": expected a number"},
        Spoiled{"TextForTruth", [](Json& j) { j["attention_bias"] = "no"; }, "expected true or false, found \"no\""},
        Spoiled{"NumberForText", [](Json& j) { j["model_type"] = 7; }, "\"model_type\": expected a string, found 7"},
        Spoiled{"EndText", [](Json& j) { j["eos_token_id"] = "two"; }, "a list of integers, found \"two\""},
        Spoiled{"ManyLayers", [](Json& j) { j["num_hidden_layers"] = 65537; }, "expected at most 65536 layers"},
        Spoiled{"ManyParameters",
                [](Json& j) {
                  j["num_hidden_layers"] = 65536, j["intermediate_size"] = j["vocab_size"] = 1 << 30,
                  j["hidden_size"] = 1 << 30;
                },
                "expected fewer than 2^62 parameters, found more"},
        Spoiled{"NegativeLayers", [](Json& j) { j["num_hidden_layers"] = -1; }, "num_hidden_layers"},
        Spoiled{"HugeSize", [](Json& j) { j["intermediate_size"] = std::int64_t{1} << 40; }, "intermediate_size"},
        Spoiled{"NoHeads", [](Json& j) { j["num_attention_heads"] = 0; }, "num_attention_heads"},
        Spoiled{"UnevenGroups", [](Json& j) { j["num_key_value_heads"] = 3; }, "a divisor of 4 heads"},
        Spoiled{"OddHeads", [](Json& j) { j["head_dim"] = 15; }, "an even size"},
        Spoiled{"Architecture", [](Json& j) { j["architectures"] = {"GPT2LMHeadModel"}; },
                "one of LlamaForCausalLM, MistralForCausalLM, found GPT2LMHeadModel"},
        Spoiled{"ArchitectureNumber", [](Json& j) { j["architectures"] = {7}; }, "a list of strings"},
        Spoiled{"Activation", [](Json& j) { j["hidden_act"] = "gelu"; }, "expected silu, found gelu"},
        Spoiled{"Yarn", [](Json& j) { j["rope_parameters"]["rope_type"] = "yarn"; }, "default, linear or llama3"},
        Spoiled{"RopeText", [](Json& j) { j["rope_parameters"] = "llama3"; }, "an object"},
        Spoiled{"NoFactor", [](Json& j) { j["rope_parameters"]["factor"] = 0; }, "rope factor"},
        Spoiled{"Bands", [](Json& j) { j["rope_parameters"]["low_freq_factor"] = 4.0; }, "high_freq_factor"},
        Spoiled{"Theta", [](Json& j) { j["rope_parameters"]["rope_theta"] = -1.0; }, "rope_theta"},
        Spoiled{"Epsilon", [](Json& j) { j["rms_norm_eps"] = -1e-5; }, "rms_norm_eps"},
        Spoiled{"Window", [](Json& j) { j["sliding_window"] = -4; }, "sliding_window"},
        Spoiled{"EndTokens",
                [](Json& j) {
                  j["eos_token_id"] = {1, "two"};
                },
                "a list of integers"}),
    [](const auto& tested) { return std::string(tested.param.name); });

// A GGUF that holds a config and no layer.
class GgufConfig : public testing::Test {
 protected:
  using Change = std::function<void(checkpoint::GgufMetadata&)>;
  [[nodiscard]] ModelConfig read(const std::vector<float>& factors) const {
    return read_config(checkpoint::CheckpointSource::open(write(factors)).value()).value();
  }
  [[nodiscard]] std::filesystem::path write(const std::vector<float>& factors, const Change& change = {},
                                            const std::vector<std::int64_t>& table_shape = {32, 64}) const {
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", "llama");
    const auto number = [&](const char* key, std::uint32_t value) { metadata.set(key, value); };
    number("llama.embedding_length", 64);
    number("llama.feed_forward_length", 96);
    number("llama.block_count", 2);
    number("llama.attention.head_count", 4);
    number("llama.attention.head_count_kv", 2);
    number("llama.context_length", 131072);
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    metadata.set("llama.rope.freq_base", 500000.0F);
    if (change) change(metadata);
    const std::vector<float> table(32 * 64, 0.5F);
    auto writer = checkpoint::GgufWriter::create(
                      scratch_.path() / "model.gguf", metadata,
                      {{"token_embd.weight", checkpoint::GgmlType::f32, table_shape},
                       {"rope_freqs.weight", checkpoint::GgmlType::f32, {static_cast<std::int64_t>(factors.size())}}})
                      .value();
    writer.write("token_embd.weight", std::as_bytes(std::span(table))).value();
    writer.write("rope_freqs.weight", std::as_bytes(std::span(factors))).value();
    writer.finish().value();
    return scratch_.path() / "model.gguf";
  }
  // As llama.cpp's conversion computes them for Llama 3.1: factor 8, bands 1 and 4 over 8192 positions.
  [[nodiscard]] static std::vector<float> llama31() {
    std::vector<float> factors;
    for (int i = 0; i < 8; ++i) {
      const double wavelength = 2.0 * std::numbers::pi * std::pow(500000.0, i / 8.0);
      if (wavelength < 8192.0 / 4.0) {
        factors.push_back(1.0F);
      } else if (wavelength > 8192.0) {
        factors.push_back(8.0F);
      } else {
        const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
        factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / 8.0 + smooth)));
      }
    }
    return factors;
  }
  ScratchModel scratch_;
};

TEST_F(GgufConfig, NamesLlama3sScalingAgain) {
  const ModelConfig config = read(llama31());
  EXPECT_EQ(config.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(config.rope_factor, 8.0);
  EXPECT_TRUE(config.rope_freq_factors.empty());
  EXPECT_TRUE(config.tie_word_embeddings);
  const Json json = config_json(config, "bfloat16");
  EXPECT_EQ(json["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(json["rope_scaling"]["original_max_position_embeddings"], 8192.0);
}

TEST_F(GgufConfig, KeepsOtherDivisorsAndWillNotMisnameThem) {
  auto factors = llama31();
  factors[2] = 1.5F;
  const ModelConfig config = read(factors);
  EXPECT_EQ(config.rope_freq_factors, factors);
  EXPECT_NEAR(rope_frequencies(config)[2], std::pow(500000.0, -2.0 / 8.0) / 1.5, 1e-9);
  EXPECT_THROW((void)config_json(config, "bfloat16"), Failure);
}

TEST_F(GgufConfig, RefusesMetadataOfNoModel) {
  const auto refused = [&](const Change& change) {
    const auto config = read_config(checkpoint::CheckpointSource::open(write(llama31(), change)).value());
    return config.ok() ? "accepted" : config.error().line();
  };
  const std::string where = (scratch_.path() / "model.gguf").string();
  EXPECT_EQ(refused([](auto& m) { m.set("llama.attention.head_count", std::uint32_t{0}); }),
            where +
                ": key \"llama.attention.head_count\": expected a positive integer, found 0; "
                "what describes the model is damaged: take it from its repository again");
  EXPECT_EQ(refused([](auto& m) { m.set("llama.rope.scaling.type", "yarn"); }),
            where +
                ": key \"llama.rope.scaling.type\": expected none or linear, found yarn; "
                "choose another model: this one computes what tern does not");
  EXPECT_EQ(read_config(checkpoint::CheckpointSource::open(write(llama31(), {}, {2048})).value()).error().line(),
            where +
                ": tensor token_embd.weight: expected a matrix, found 1 dimensions; "
                "what describes the model is damaged: take it from its repository again");
}

TEST_F(GgufConfig, RefusesDivisorsThatAreNone) {
  for (const auto& factors : {std::vector<float>(7, 1.0F), std::vector<float>(8, 0.0F)}) {
    const auto config = read_config(checkpoint::CheckpointSource::open(write(factors)).value());
    ASSERT_FALSE(config.ok());
    EXPECT_NE(config.error().line().find("rope_freqs.weight"), std::string::npos) << config.error().line();
  }
}

TEST(Config, CountsParameters) {
  for (const char* name : {"llama-tied", "mistral"}) {  // no biases
    const ScratchModel model(name);
    const auto source = model.open();
    std::int64_t stored = 0;
    for (const auto& tensor : source->tensors()) {
      std::int64_t count = 1;
      for (const std::int64_t size : tensor.shape) count *= size;
      stored += count;
    }
    EXPECT_EQ(read_config(*source).value().num_parameters(), stored) << name;
  }
}

}  // namespace
}  // namespace tern::models
