#include "models/config.h"
#include "models/rope.h"
#include "models/stored_tensors.h"

#include <cmath>
#include <numbers>

#include "base/strings.h"
#include "checkpoint/gguf_writer.h"
#include "io/json.h"
#include "models/layer_windows.h"
#include "models/registry.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

// A list of a model's own stays one where it has one entry; one end of an answer is a number.
TEST(Config, ListsOfOneLayerStayLists) {
  const ScratchModel model("smollm3-tied");
  model.edit("config.json", [](Json& json) { json["num_hidden_layers"] = 1, json["no_rope_layers"] = {1}; });
  model.edit("config.json", [](Json& json) { json.erase("layer_types"); });
  ModelConfig bare = config_of(model);
  bare.json = nullptr;
  const Json json = config_json(bare, "float32");
  EXPECT_EQ(json.find("no_rope_layers")->dump(), "[1]");
  EXPECT_EQ(json.find("eos_token_id")->dump(), "2");
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

// Every field of an architecture's table as text, so that two configurations can be compared.
std::map<std::string, std::string> fields_of(const ModelConfig& config) {
  std::map<std::string, std::string> out;
  for (const Field& field : find_architecture(config.architecture)->fields)
    out[cat(field.json, " ", field.gguf)] = value_text(field_value(config, field));
  std::vector<std::string> frequencies;
  for (const double each : rope_frequencies(config)) frequencies.push_back(cat(each));
  out["frequencies"] = join(frequencies, " ");
  return out;
}

// The law of the tables: JSON -> config -> JSON loses no field.
TEST(Config, EveryFieldSurvivesJson) {
  for (const char* name : kTinyModels) {
    const ScratchModel model(name);
    const ModelConfig config = read_config(*model.open()).value();
    ModelConfig bare = config;  // as if it came from a GGUF: written by the table
    bare.json = nullptr;
    model.edit("config.json", [&](Json& json) { json = config_json(bare, "float32"); });
    EXPECT_EQ(fields_of(read_config(*model.open()).value()), fields_of(config)) << name;
  }
}

// What transformers wrote stays, whatever tern thinks of it: a Mistral without "sliding_window": null gets one of
// 4,096.
TEST(Config, SavedConfigIsTheSourcesOwn) {
  const ScratchModel model("mistral");
  model.edit("config.json", [](Json& json) {
    json["sliding_window"] = nullptr;
    json["use_cache"] = false;
    json["quantization_config"] = {{"quant_method", "fp8"}};
  });
  const Json before = *model.open()->config();
  ModelConfig config = read_config(*model.open()).value();
  EXPECT_EQ(config.sliding_window, 0);
  Json after = config_json(config, "bfloat16");
  EXPECT_EQ(after["dtype"], "bfloat16");
  EXPECT_FALSE(after.contains("quantization_config"));
  after["dtype"] = before["dtype"];
  after["quantization_config"] = before["quantization_config"];
  EXPECT_EQ(before, after);
  config.json = nullptr;
  const Json made = config_json(config, "bfloat16");
  ASSERT_TRUE(made.contains("sliding_window"));
  EXPECT_TRUE(made["sliding_window"].is_null());
  model.edit("config.json", [](Json& json) { json.erase("sliding_window"); });
  EXPECT_EQ(read_config(*model.open()).value().sliding_window, 4096);  // MistralConfig's own default
}

TEST(Config, FieldsWithoutEffectAreKnownAndOthersNamed) {
  const ScratchModel model;
  model.edit("config.json", [](Json& json) {
    json["_name_or_path"] = "somewhere";
    json["transformers.js_config"] = {{"dtype", "q4"}};
    json["rope_interleaved"] = false;
    json["is_llama_config"] = true;
    json["sliding_window"] = nullptr;
  });
  EXPECT_TRUE(read_config(*model.open()).ok()) << read_config(*model.open()).error().line();
  const auto refused = [](const char* key, const Json& value) {
    const ScratchModel spoiled;
    spoiled.edit("config.json", [&](Json& json) { json[key] = value; });
    const auto config = read_config(*spoiled.open());
    return config.ok() ? "accepted" : config.error().line().substr(spoiled.path().string().size());
  };
  EXPECT_EQ(
      refused("logit_scale", 0.5),
      "/config.json: field \"logit_scale\": expected only fields that LlamaForCausalLM has, found 0.5; if the field "
      "changes no number, remove it from config.json; else choose another model");
  EXPECT_EQ(refused("rope_interleaved", true),
            "/config.json: field \"rope_interleaved\": expected false, found true; "
            "choose another model: this one computes what tern does not");
  EXPECT_EQ(refused("attention_dropout", 0.1),
            "/config.json: field \"attention_dropout\": expected 0.0, found 0.1; "
            "choose another model: this one computes what tern does not");
}

// transformers' Qwen2Config: windows from max_window_layers on, unless layer_types says it.
TEST(Config, WindowsOfSomeLayers) {
  const ScratchModel model("qwen2-untied");
  const auto windows = [&] { return layer_windows(read_config(*model.open()).value()); };
  using Windows = std::vector<std::int64_t>;
  EXPECT_EQ(windows(), (Windows{0, 37}));
  model.edit("config.json", [](Json& json) { json["layer_types"] = nullptr; });
  EXPECT_EQ(windows(), (Windows{0, 37}));  // of max_window_layers
  model.edit("config.json", [](Json& json) { json["max_window_layers"] = 0; });
  EXPECT_EQ(windows(), (Windows{37, 37}));
  model.edit("config.json", [](Json& json) { json["layer_types"] = {"sliding_attention", "full_attention"}; });
  EXPECT_EQ(windows(), (Windows{37, 0}));
  const auto specs = find_architecture("Qwen2ForCausalLM")->cache_specs(read_config(*model.open()).value());
  EXPECT_EQ(specs[0].window, 37);
  EXPECT_EQ(specs[1].kind, nn::CacheKind::full);
  model.edit("config.json", [](Json& json) { json["use_sliding_window"] = false; });
  EXPECT_EQ(windows(), (Windows{0, 0}));
  model.edit("config.json", [](Json& json) { json["layer_types"] = {"sliding_attention"}; });
  EXPECT_NE(read_config(*model.open())
                .error()
                .line()
                .find("\"layer_types\": expected full_attention or sliding_attention for each of 2 layers"),
            std::string::npos);
  model.edit("config.json", [](Json& json) { json["layer_types"] = 1; });
  EXPECT_NE(read_config(*model.open()).error().line().find("\"layer_types\": expected a list of strings, found 1"),
            std::string::npos);
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
                ": field \"num_attention_heads\": expected a size from 1 to 2^31, found -1; "
                "take what describes the model from its repository again, or choose another model");
  std::filesystem::remove(model.path() / "config.json");
  EXPECT_EQ(read_config(*model.open()).error().line(),
            model.path().string() +
                ": expected a config.json beside the weights, found none; put it there from the model's repository");
}

INSTANTIATE_TEST_SUITE_P(
    Each, SpoiledConfig,
    testing::Values(
        Spoiled{"NoSize", [](Json& j) { j.erase("hidden_size"); }, "\"hidden_size\": expected a value, found none"},
        Spoiled{"TextForSize", [](Json& j) { j["vocab_size"] = "many"; }, "found \"many\""},
        Spoiled{"TextForNumber", [](Json& j) { j["rms_norm_eps"] = "small"; }, "\"rms_norm_eps\": expected a number"},
        Spoiled{"TextForTruth", [](Json& j) { j["attention_bias"] = "no"; }, "expected true or false, found \"no\""},
        Spoiled{"NumberForText", [](Json& j) { j["model_type"] = 7; }, "\"model_type\": expected a string, found 7"},
        Spoiled{"EndText", [](Json& j) { j["eos_token_id"] = "two"; }, "a list of integers, found \"two\""},
        Spoiled{"ManyLayers", [](Json& j) { j["num_hidden_layers"] = 65537; }, "expected from 1 to 8192 layers"},
        Spoiled{"ManyParameters",
                [](Json& j) {
                  j["num_hidden_layers"] = 8192, j["intermediate_size"] = j["vocab_size"] = 1 << 30,
                  j["hidden_size"] = 1 << 30;
                },
                "expected fewer than 2^62 parameters, found more"},
        Spoiled{"NegativeLayers", [](Json& j) { j["num_hidden_layers"] = -1; }, "num_hidden_layers"},
        Spoiled{"HugeSize", [](Json& j) { j["intermediate_size"] = std::int64_t{1} << 40; }, "intermediate_size"},
        Spoiled{"NoHeads", [](Json& j) { j["num_attention_heads"] = 0; }, "num_attention_heads"},
        Spoiled{"UnevenGroups", [](Json& j) { j["num_key_value_heads"] = 3; }, "a divisor of 4 heads"},
        Spoiled{"OddHeads", [](Json& j) { j["head_dim"] = 15; }, "an even size"},
        Spoiled{"Architecture", [](Json& j) { j["architectures"] = {"GPT2LMHeadModel"}; },
                "expected one of LlamaForCausalLM, MistralForCausalLM"},
        Spoiled{"UnknownType",
                [](Json& j) {
                  j.erase("architectures");
                  j["model_type"] = "gpt2";
                },
                ", found \"gpt2\"; choose another model"},
        Spoiled{"OtherType", [](Json& j) { j["model_type"] = "mistral"; },
                "expected \"llama\", as LlamaForCausalLM has, found \"mistral\""},
        Spoiled{"ActivationNumber", [](Json& j) { j["hidden_act"] = 7; }, "\"hidden_act\": expected a string, found 7"},
        Spoiled{"RopeMore", [](Json& j) { j["rope_parameters"]["beta_fast"] = 32; },
                "field \"rope_parameters.beta_fast\": expected only what the rope_type llama3 has, found 32"},
        Spoiled{"RopeLess", [](Json& j) { j["rope_parameters"].erase("low_freq_factor"); },
                "field \"rope_parameters\": expected a field \"low_freq_factor\", found none"},
        Spoiled{"ArchitectureNumber", [](Json& j) { j["architectures"] = {7}; }, "a list of strings"},
        Spoiled{"Activation", [](Json& j) { j["hidden_act"] = "gelu"; }, "expected \"silu\", found \"gelu\""},
        Spoiled{"Longrope", [](Json& j) { j["rope_parameters"]["rope_type"] = "longrope"; },
                "expected a field \"long_factor\", found none"},
        Spoiled{"NoSuchRope", [](Json& j) { j["rope_parameters"]["rope_type"] = "ntk"; },
                "default, linear, dynamic, yarn, llama3, longrope or proportional"},
        Spoiled{"Share",
                [](Json& j) {
                  j["rope_parameters"] = {{"rope_type", "proportional"}, {"partial_rotary_factor", 1.5}};
                },
                "partial_rotary_factor: expected a share from 0 to 1, found 1.5"},
        Spoiled{"Yarn",
                [](Json& j) {
                  j["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 0.5}};
                },
                "beta_fast - beta_slow: expected a positive number"},
        Spoiled{"RopeTwice",
                [](Json& j) {
                  j["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
                },
                "\"rope_scaling\": expected nothing beside rope_parameters that says something else"},
        Spoiled{"RopeText", [](Json& j) { j["rope_parameters"] = "llama3"; }, "an object"},
        Spoiled{"NoFactor", [](Json& j) { j["rope_parameters"]["factor"] = 0; }, "\"rope_parameters\": factor"},
        Spoiled{"Bands", [](Json& j) { j["rope_parameters"]["low_freq_factor"] = 5.0; }, "high_freq_factor"},
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
  EXPECT_EQ(json["rms_norm_eps"].dump(), "1e-05");  // the number that was meant, not its fp32
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
                ": key \"llama.attention.head_count\": expected a size from 1 to 2^31, found 0; "
                "take what describes the model from its repository again, or choose another model");
  EXPECT_EQ(refused([](auto& m) { m.set("llama.rope.scaling.type", "longrope"); }),
            where +
                ": tensor \"rope_factors_long.weight\": expected such a tensor, found none; `tern inspect` lists those "
                "there are");
  EXPECT_EQ(refused([](auto& m) { m.set("llama.rope.scaling.type", "ntk"); }),
            where +
                ": key \"llama.rope.scaling.type\": expected none, linear, yarn or longrope, found ntk; "
                "choose another model: this one computes what tern does not");
  EXPECT_EQ(
      refused([](auto& m) { m.set("llama.rope.scaling.attn_factor", 1.25F); }),
      where +
          ": key \"llama.rope.scaling.attn_factor\": expected 1, as the rope scaling is not longrope, found 1.25; "
          "choose another model: this one computes what tern does not");
  EXPECT_NE(refused([](auto& m) { m.set("tokenizer.ggml.eot_token_id", "end"); }).find("tokenizer.ggml.eot_token_id"),
            std::string::npos);
  EXPECT_EQ(refused([](auto& m) { m.set("general.architecture", "mamba"); }),
            where + ": key \"general.architecture\": expected one of " + join(gguf_names(), ", ") +
                ", found \"mamba\"; choose another model: this one computes what tern does not");
  EXPECT_EQ(refused([](auto& m) { m.set("llama.expert_shared_count", std::uint32_t{8}); }),
            where +
                ": key \"llama.expert_shared_count\": expected only fields that llama has, found one that it has not; "
                "choose another model: this one computes what tern does not");
  EXPECT_EQ(refused([](auto& m) { m.set("llama.attention.value_length", std::uint32_t{8}); }),
            where +
                ": key \"llama.attention.value_length\": expected 16, as keys have, found 8; "
                "take what describes the model from its repository again, or choose another model");
  EXPECT_EQ(refused([](auto& m) { m.remove("llama.context_length"); }),
            where +
                ": key \"llama.context_length\": expected a value, found none; "
                "take what describes the model from its repository again");
  EXPECT_EQ(refused([](auto& m) { m.set("llama.rope.dimension_count", std::uint32_t{18}); }),
            where +
                ": key \"llama.rope.dimension_count\": expected at most the 16 of a head, found 18; "
                "take what describes the model from its repository again, or choose another model");
  EXPECT_EQ(read_config(checkpoint::CheckpointSource::open(write(llama31(), {}, {2048})).value()).error().line(),
            where +
                ": tensor token_embd.weight: expected a matrix, found 1 dimensions; "
                "what describes the model is damaged: take it from its repository again");
}

// Broken if all features of a head were turned where the file says that only some are.
TEST_F(GgufConfig, TurnsOnlyTheFeaturesThatTheFileNames) {
  const auto part = [](auto& m) { m.set("llama.rope.dimension_count", std::uint32_t{8}); };
  const auto file = write(std::vector<float>(4, 1.0F), part);
  const ModelConfig config = read_config(checkpoint::CheckpointSource::open(file).value()).value();
  EXPECT_EQ(config.rotary_dim, 8);
  const auto frequencies = rope_frequencies(config);
  ASSERT_EQ(frequencies.size(), 4U);
  EXPECT_DOUBLE_EQ(frequencies[1], std::pow(500000.0, -2.0 / 8.0));
  const auto specs = find_architecture(config.architecture)->parameters(config);
  const auto q =
      std::find_if(specs.begin(), specs.end(), [](const auto& s) { return s.name.ends_with("q_proj.weight"); });
  std::vector<std::int64_t> rows;
  for (const RowRun& run : row_runs(*q, q->gguf)) {
    for (std::int64_t row = 0; row < run.count; ++row) rows.push_back(run.first + row);
  }
  const std::vector<std::int64_t> head = {0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  EXPECT_TRUE(std::equal(head.begin(), head.end(), rows.begin()));
  EXPECT_EQ(rows[16], 16);
  try {
    (void)config_json(config, "bfloat16");
    FAIL() << "config.json of a Llama cannot say it";
  } catch (const Failure& why) {
    EXPECT_EQ(why.error().line(),
              "key \"rope.dimension_count\": expected 16, as config.json has no word for it, found 8; "
              "keep this model as a GGUF");
  }
}

// llama.cpp calls Mistral "llama": the window tells them apart.
TEST_F(GgufConfig, AWindowMakesItMistral) {
  const std::vector<float> none(8, 1.0F);
  EXPECT_EQ(read(none).architecture, "LlamaForCausalLM");
  const auto file = write(none, [](auto& m) { m.set("llama.attention.sliding_window", std::uint32_t{64}); });
  const ModelConfig config = read_config(checkpoint::CheckpointSource::open(file).value()).value();
  EXPECT_EQ(config.architecture, "MistralForCausalLM");
  EXPECT_EQ(config.sliding_window, 64);
}

// They go into config.json and generation_config.json of a directory that is made of the file.
TEST_F(GgufConfig, NamesEveryEndOfAnAnswer) {
  const auto file = write(llama31(), [](auto& m) {
    m.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
    m.set("tokenizer.ggml.eot_token_id", std::uint32_t{7});
    m.set("tokenizer.ggml.eom_token_id", std::uint32_t{2});
  });
  const ModelConfig config = read_config(checkpoint::CheckpointSource::open(file).value()).value();
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{2, 7}));
  EXPECT_EQ(config_json(config, "bfloat16")["eos_token_id"].dump(), "[2,7]");
}

TEST_F(GgufConfig, RefusesDivisorsThatAreNone) {
  for (const auto& factors : {std::vector<float>(7, 1.0F), std::vector<float>(8, 0.0F)}) {
    const auto config = read_config(checkpoint::CheckpointSource::open(write(factors)).value());
    ASSERT_FALSE(config.ok());
    EXPECT_NE(config.error().line().find("rope_freqs.weight"), std::string::npos) << config.error().line();
  }
}

TEST(Config, CountsParameters) {
  for (const char* name : kTinyModels) {
    const ScratchModel model(name);
    const auto source = model.open();
    std::int64_t stored = 0;
    for (const auto& tensor : source->tensors()) {
      if (tensor.name.ends_with("e_score_correction_bias") || tensor.name.ends_with("expert_bias") ||
          tensor.name.ends_with("layer_scalar"))
        continue;  // buffers
      std::int64_t count = 1;
      for (const std::int64_t size : tensor.shape) count *= size;
      stored += count;
    }
    EXPECT_EQ(read_config(*source).value().num_parameters(), stored) << name;
  }
}

}  // namespace
}  // namespace tern::models
