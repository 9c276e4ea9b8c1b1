// Layers that are gated delta networks: their fields, and how a GGUF keeps their weights.
#include "models/qwen3_5.h"

#include <cmath>

#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "models/gguf_names.h"
#include "models/parameter_reader.h"
#include "models/write_weights.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

std::string problem_of(const ScratchModel& model) {
  const auto config = read_config(*model.open());
  return config.ok() ? "" : config.error().line();
}

std::string gguf_problem_of(const ScratchModel& model) {
  checkpoint::ConvertOptions options;
  const auto form = set_gguf_form(*model.open(), config_of(model), "tiny", options);
  return form.ok() ? "" : form.error().line();
}

// Broken if a field that changes numbers may have a value that changes them otherwise than here.
TEST(Qwen35, FieldsAreAsTheModelHasThem) {
  struct Wrong {
    const char* key;
    Json value;
    const char* expected;
  };
  const Wrong cases[] = {
      {"linear_conv_kernel_dim", 1, "expected from 2 to 64 rows, found 1"},
      {"linear_num_value_heads", 3, "expected a multiple of 2 heads of keys, found 3"},
      {"linear_num_value_heads", 0, "expected a size from 1 to 2^31, found 0"},
      {"linear_key_head_dim", 0, "expected a size from 1 to 2^31, found 0"},
      {"layer_types", {"linear_attention"}, "expected linear_attention or full_attention for each of 4 layers"},
      {"layer_types",
       {"linear_attention", "linear_attention", "linear_attention", "sliding_attention"},
       "expected linear_attention or full_attention for each of 4 layers"},
      {"attn_output_gate", false, "expected true, found false"},
      {"output_gate_type", "sigmoid", "expected \"swish\" or \"silu\", found \"sigmoid\""},
  };
  for (const auto& [key, value, expected] : cases) {
    const ScratchModel model("qwen3.5-untied");
    model.edit("config.json", [&key = key, &value = value](Json& json) { json[key] = value; });
    EXPECT_NE(problem_of(model).find(cat("field \"", key, "\": ", expected)), std::string::npos) << problem_of(model);
  }
}

// As the published files say it.
TEST(Qwen35, EveryFourthLayerAttends) {
  const ScratchModel model("qwen3.5-untied");
  const auto said = config_of(model).own_field<std::vector<std::string>>("layer_types");
  model.edit("config.json", [](Json& json) {
    json.erase("layer_types");
    json["full_attention_interval"] = 4;
    json["mlp_only_layers"] = std::vector<std::string>();
    json["mamba_ssm_dtype"] = "float32", json["mtp_use_dedicated_embeddings"] = false;
    json["output_gate_type"] = "swish", json["attn_output_gate"] = true;
  });
  EXPECT_EQ(config_of(model).own_field<std::vector<std::string>>("layer_types"), said);
  model.edit("config.json", [](Json& json) { json["full_attention_interval"] = 2; });
  EXPECT_EQ(config_of(model).own_field<std::vector<std::string>>("layer_types"),
            (std::vector<std::string>{"linear_attention", "full_attention", "linear_attention", "full_attention"}));
}

TEST(Qwen35, StatesAreOfTheirOwnKind) {
  const ModelConfig config = config_of(ScratchModel("qwen3.5-untied"));
  const auto specs = find_architecture(config.architecture)->cache_specs(config);
  ASSERT_EQ(specs.size(), 4U);
  EXPECT_EQ(specs[3].kind, nn::CacheKind::full);
  EXPECT_EQ(specs[3].module, "model.layers.3.self_attn");
  EXPECT_EQ(specs[0].kind, nn::CacheKind::state);
  EXPECT_EQ(specs[0].module, "model.layers.0.linear_attn");
  ASSERT_EQ(specs[0].states.size(), 2U);
  EXPECT_EQ(specs[0].states[0].shape, (std::vector<std::int64_t>{3, 256}));
  EXPECT_EQ(specs[0].states[1].shape, (std::vector<std::int64_t>{4, 32, 32}));
}

// llama.cpp has one size of heads for keys and values, and no biases.
TEST(Qwen35, AGgufSaysOnlyWhatLlamaCppComputes) {
  EXPECT_EQ(gguf_problem_of(ScratchModel("qwen3.5-untied")), "");
  EXPECT_NE(gguf_problem_of(ScratchModel("qwen3.5-tied")).find("keep this model as a directory"), std::string::npos);
}

// llama.cpp's converter: reshape(groups, of_group, ...) -> swap the first two, of values' heads alone.
TEST(Qwen35, AGgufHasValuesHeadsTiled) {
  const ScratchModel model("qwen3.5-untied");
  const test::TempDir out;
  const auto source = model.open();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  set_gguf_form(*source, config_of(model), "tiny", options).value();
  (void)checkpoint::convert_checkpoint(*source, out.path() / "m.gguf", options).value();
  const auto gguf = checkpoint::CheckpointSource::open(out.path() / "m.gguf").value();
  const auto both = [&](const char* theirs, const char* ours) {
    const auto* from = source->find(cat("model.layers.1.linear_attn.", theirs));
    const auto* to = gguf.find(cat("blk.1.", ours));
    EXPECT_TRUE(from != nullptr && to != nullptr) << theirs;
    std::pair<std::vector<float>, std::vector<float>> values;
    values.first.resize(from->bytes.size() / 4), values.second.resize(to->bytes.size() / 4);
    source->read_f32(*from, values.first).value();
    gguf.read_f32(*to, values.second).value();
    return values;
  };
  constexpr std::size_t kTiles[] = {0, 2, 1, 3};  // the head in each place: two groups of two
  const auto [rates, held] = both("A_log", "ssm_a");
  const auto [bias, held_bias] = both("dt_bias", "ssm_dt.bias");
  for (std::size_t place = 0; place < 4; ++place) {
    EXPECT_EQ(held[place], -std::exp(rates[kTiles[place]]));
    EXPECT_EQ(held_bias[place], bias[kTiles[place]]);
  }
  const auto [conv, held_conv] = both("conv1d.weight", "ssm_conv1d.weight");
  EXPECT_EQ(gguf.find("blk.1.ssm_conv1d.weight")->shape, (std::vector<std::int64_t>{256, 4}));
  const auto [out_proj, held_out] = both("out_proj.weight", "ssm_out.weight");
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(held_conv[i * 4], conv[i * 4]) << "queries and keys stay";
    const std::size_t stored = kTiles[i / 32] * 32 + i % 32;
    EXPECT_EQ(held_conv[(128 + i) * 4 + 1], conv[(128 + stored) * 4 + 1]) << i;
    EXPECT_EQ(held_out[5 * 128 + i], out_proj[5 * 128 + stored]) << i;
  }
  const auto& types = *gguf.gguf()->find("qwen35.attention.recurrent_layers");
  EXPECT_EQ(types.count, 4U);
  EXPECT_EQ(gguf.gguf()->find("qwen35.rope.dimension_sections")->integers().value(),
            (std::vector<std::int64_t>{1, 1, 0, 0}));
}

TEST(Qwen35, ALayersTypeInAGgufIsTrueOrFalse) {
  const ScratchModel model("qwen3.5-untied");
  const test::TempDir out;
  const auto source = model.open();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  set_gguf_form(*source, config_of(model), "tiny", options).value();
  options.metadata->set("qwen35.attention.recurrent_layers", std::uint32_t{3});
  (void)checkpoint::convert_checkpoint(*source, out.path() / "m.gguf", options).value();
  const auto config = read_config(checkpoint::CheckpointSource::open(out.path() / "m.gguf").value());
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().line().find("expected a list of true and false, one a layer"), std::string::npos)
      << config.error().line();
}

// Blocks of 32 that span two heads of 16 can't change places: those weights alone are expanded, with a line.
TEST(Qwen35, BlocksThatSpanHeadsAreExpanded) {
  for (const int size : {16, 32}) {
    const ScratchModel model("qwen3.5-untied");
    model.edit("config.json",
               [&](Json& json) { json["linear_key_head_dim"] = size, json["linear_value_head_dim"] = size; });
    const ModelConfig config = config_of(model);
    const test::TempDir made;
    std::filesystem::copy(model.path() / "config.json", made.path() / "config.json");
    WriteWeightsOptions write;
    write.rows = [](const ParameterSpec& spec, std::int64_t first, std::int64_t /*count*/, std::span<float> values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto seed = static_cast<double>(first) * 131 + static_cast<double>(i);
        values[i] = static_cast<float>(std::sin(seed * 12.9898 + static_cast<double>(spec.name.size())));
      }
    };
    write_weights(find_architecture(config.architecture)->parameters(config), made.path(), write);
    const auto source =
        std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(made.path()).value());
    const test::TempDir out;
    checkpoint::ConvertOptions options;
    options.outtype = "q8_0";
    set_gguf_form(*source, config, "tiny", options).value();
    (void)checkpoint::convert_checkpoint(*source, out.path() / "m.gguf", options).value();
    const auto gguf = std::make_shared<checkpoint::CheckpointSource>(
        checkpoint::CheckpointSource::open(out.path() / "m.gguf").value());
    const auto loaded = load_model(read_config(*gguf).value(), gguf, cpu_device(), {}).value();
    const TensorDesc& held = loaded.store->at("model.layers.0.linear_attn.out_proj.weight").desc;
    EXPECT_EQ(is_quantised(held), size == 32);
    EXPECT_TRUE(is_quantised(loaded.store->at("model.layers.0.linear_attn.in_proj_qkv.weight").desc));
    const bool said = std::any_of(loaded.notes.begin(), loaded.notes.end(), [](const std::string& line) {
      return line.starts_with("weights of type Q8_0 were expanded to f32, ") &&
             line.ends_with(": the file has their heads in another order, and their blocks span several");
    });
    EXPECT_EQ(said, size == 16) << (loaded.notes.empty() ? "" : loaded.notes.front());
  }
}

// Published files have all experts in one tensor, which transformers takes apart when it saves.
TEST(Qwen35, ExpertsAreReadAsTheyWerePublished) {
  const ScratchModel apart("qwen3.5-moe-untied");
  const ScratchModel fused("qwen3.5-moe-untied");
  const auto source = apart.open();
  std::vector<checkpoint::TensorSpec> specs;
  std::map<std::string, std::vector<std::byte>> bytes;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& tensor : source->tensors()) {
    const std::size_t at = tensor.name.find(".experts.");
    std::string name = tensor.name;
    std::vector<std::int64_t> shape = tensor.shape;
    if (at != std::string::npos) {
      const bool down = tensor.name.ends_with("down_proj.weight");
      name = tensor.name.substr(0, at) + (down ? ".experts.down_proj" : ".experts.gate_up_proj");
      shape = down ? std::vector<std::int64_t>{6, 32, 24} : std::vector<std::int64_t>{6, 48, 32};
    }
    shapes[name] = shape;
  }
  for (const auto& [name, shape] : shapes) {
    specs.push_back({name, "F32", shape});
    auto& held = bytes[name];
    const auto append = [&](const std::string& from) {
      const auto part = source->require(from).value()->bytes;
      held.insert(held.end(), part.begin(), part.end());
    };
    const std::string block = name.substr(0, name.rfind('.'));
    if (name.ends_with(".experts.gate_up_proj")) {
      for (int e = 0; e < 6; ++e) {
        for (const char* half : {"gate", "up"}) append(cat(block, ".", e, ".", half, "_proj.weight"));
      }
    } else if (name.ends_with(".experts.down_proj")) {
      for (int e = 0; e < 6; ++e) append(cat(block, ".", e, ".down_proj.weight"));
    } else {
      append(name);
    }
  }
  auto writer = checkpoint::SafetensorsWriter::create(fused.path(), specs).value();
  for (const auto& [name, held] : bytes) writer.write(name, held).value();
  (void)writer.finish().value();
  const auto other = fused.open();
  const ModelConfig config = config_of(apart);
  ParameterReader first(*source);
  ParameterReader second(*other);
  const auto parameters = find_architecture(config.architecture)->parameters(config);
  second.require_all(parameters, config);
  for (const auto& spec : parameters) EXPECT_EQ(first.read(spec), second.read(spec)) << spec.name;
}

}  // namespace
}  // namespace tern::models
