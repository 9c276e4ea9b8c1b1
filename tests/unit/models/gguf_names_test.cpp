#include "models/gguf_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/strings.h"
#include "checkpoint/gguf_writer.h"
#include "io/json.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "models/rope.h"
#include "scratch_model.h"
#include "tests/support/temp_dir.h"

namespace tern::models {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointSource;

class GgufNames : public ::testing::TestWithParam<const char*> {
 protected:
  static fs::path golden(const std::string& name) { return fs::path(TERN_TEST_DATA) / "golden" / name; }

  // A copy of the tiny Llama with other keys in its config.json.
  fs::path variant(const std::function<void(io::Json&)>& change) {
    const fs::path folder = scratch_ / "variant";
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::copy_file(golden("llama-tied") / "model.safetensors", folder / "model.safetensors");
    auto config = io::read_json_file(golden("llama-tied") / "config.json").value();
    change(config);
    std::ofstream(folder / "config.json") << config.dump();
    return folder;
  }

  fs::path to_gguf(const fs::path& model, const std::string& outtype) {
    const auto source = CheckpointSource::open(model).value();
    checkpoint::ConvertOptions options;
    options.outtype = outtype;
    set_gguf_form(source, read_config(source).value(), "tiny", options).value();
    const fs::path target = scratch_ / "model.gguf";
    (void)checkpoint::convert_checkpoint(source, target, options).value();
    return target;
  }

  static void expect_equal_weights(const fs::path& left, const fs::path& right) {
    const auto a = CheckpointSource::open(left).value();
    const auto b = CheckpointSource::open(right).value();
    const ModelConfig config = read_config(a).value();
    ParameterReader first(a);
    ParameterReader second(b);
    for (const auto& spec : find_architecture(config.architecture)->parameters(config)) {
      EXPECT_EQ(first.read(spec), second.read(spec)) << spec.name;
    }
  }

  test::TempDir scratch_;
};

// Broken if a name, a shape or the order of a head's rows does not survive the way to GGUF and back.
TEST_P(GgufNames, ThereAndBackIsTheSameModel) {
  const fs::path model = golden(GetParam());
  const fs::path gguf = to_gguf(model, "f32");
  expect_equal_weights(model, gguf);

  const auto source = CheckpointSource::open(gguf).value();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  const ModelConfig back = set_hugging_face_form(source, read_config(source).value(), options).value();
  options.files["config.json"] = io::write_json(config_json(back, "float32"));
  (void)checkpoint::convert_checkpoint(source, scratch_ / "back", options).value();
  const auto written = CheckpointSource::open(scratch_ / "back").value();
  const auto original = CheckpointSource::open(model).value();
  EXPECT_EQ(written.tensors().size(), original.tensors().size());
  for (const auto& tensor : original.tensors()) {
    ASSERT_NE(written.find(tensor.name), nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, written.find(tensor.name)->bytes)) << tensor.name;
  }
  const ModelConfig before = read_config(original).value();
  const ModelConfig after = read_config(written).value();
  EXPECT_EQ(after.head_dim, before.head_dim);
  EXPECT_EQ(after.num_key_value_heads, before.num_key_value_heads);
  EXPECT_EQ(after.sliding_window, before.sliding_window);
  EXPECT_EQ(after.tie_word_embeddings, before.tie_word_embeddings);
  EXPECT_FLOAT_EQ(static_cast<float>(after.rms_norm_eps), static_cast<float>(before.rms_norm_eps));
  EXPECT_EQ(rope_frequencies(after), rope_frequencies(before));
}

// llama.cpp calls a language model that was made to see by another name; of text it computes the same.
TEST_F(GgufNames, APartOfAWholeHasItsOwnName) {
  for (const auto& [model, theirs, ours] :
       {std::tuple{"qwen2-tied", "qwen2vl", "qwen2"}, std::tuple{"qwen3-tied", "qwen3vl", "qwen3"},
        std::tuple{"qwen3-moe-tied", "qwen3vlmoe", "qwen3moe"}}) {
    const auto own = CheckpointSource::open(to_gguf(golden(model), "f32")).value();
    checkpoint::GgufMetadata metadata;
    const std::string prefix = cat(ours, ".");
    for (const auto& [key, value] : own.gguf()->metadata())
      metadata.set(key.starts_with(prefix) ? cat(theirs, ".", key.substr(prefix.size())) : key, value);
    metadata.set("general.architecture", theirs);
    metadata.set(cat(theirs, ".rope.dimension_sections"), std::vector<std::int32_t>{2, 3, 3, 0});
    metadata.set(cat(theirs, ".n_deepstack_layers"), std::uint32_t{1});
    std::vector<checkpoint::GgufTensorSpec> specs;
    for (const auto& tensor : own.tensors()) specs.push_back({tensor.name, checkpoint::GgmlType::f32, tensor.shape});
    const fs::path renamed = scratch_ / "renamed.gguf";
    auto writer = checkpoint::GgufWriter::create(renamed, metadata, specs).value();
    for (const auto& tensor : own.tensors()) writer.write(tensor.name, tensor.bytes).value();
    writer.finish().value();
    expect_equal_weights(golden(model), renamed);
    fs::remove(scratch_ / "model.gguf");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GgufNames,
    ::testing::Values("llama-tied", "llama-untied", "mistral", "qwen2-tied", "qwen3-tied", "qwen3-untied",
                      "granite-tied", "granite-untied", "gemma2-tied", "gemma3-tied", "mixtral", "qwen2-moe-untied",
                      "qwen3-moe-tied", "olmo2-tied", "olmo2-untied", "smollm3-tied", "qwen3-yarn", "glm4-tied",
                      "glm4-untied", "phi3-tied", "phi3-untied", "olmo3-untied", "glm4-moe-tied", "glm4-moe-untied",
                      "granite-moe-tied", "granite-moe-untied", "qwen3.5-untied", "qwen3.5-moe-untied",
                      "qwen3-next-untied", "lfm2-tied", "gpt-oss-untied", "cohere-tied", "cohere2-tied",
                      "granite-h-tied", "granite-h-untied", "falcon-h1-plain", "phi3-long", "phi3-short",
                      "llama-proportional", "ministral3-tied", "gemma4-tied", "gemma4-untied", "llama4-tied"));

// A GGUF has no word for these.
TEST_F(GgufNames, RopeScalingsThatCannotBeSaidAreRefused) {
  const auto problem = [](const ScratchModel& model) {
    checkpoint::ConvertOptions options;
    const auto form = set_gguf_form(*model.open(), config_of(model), "tiny", options);
    return form.ok() ? "" : form.error().line();
  };
  const ScratchModel yarn("llama-yarn");
  EXPECT_NE(problem(yarn).find("expected one that a GGUF has a word for, with its numbers, found yarn"),
            std::string::npos)
      << problem(yarn);
  // OLMo 3's files say what the formula gives.
  const ScratchModel said("qwen3-yarn");
  said.edit("config.json",
            [](io::Json& json) { json["rope_parameters"]["attention_factor"] = 0.1 * std::log(4.0) + 1.0; });
  EXPECT_EQ(problem(said), "");
  said.edit("config.json", [](io::Json& json) { json["rope_parameters"]["attention_factor"] = 1.0; });
  EXPECT_NE(problem(said).find("found yarn"), std::string::npos) << problem(said);
  // Its borders have words.
  said.edit("config.json", [](io::Json& json) {
    json["rope_parameters"].erase("attention_factor");
    json["rope_parameters"]["beta_fast"] = 12.0, json["rope_parameters"]["beta_slow"] = 2.0;
  });
  const ModelConfig back = read_config(CheckpointSource::open(to_gguf(said.path(), "f32")).value()).value();
  EXPECT_EQ(rope_frequencies(back), rope_frequencies(config_of(said)));
  const ScratchModel dynamic("llama-untied");
  dynamic.edit("config.json", [](io::Json& json) {
    json["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 10000.0}, {"factor", 4.0}};
  });
  EXPECT_NE(problem(dynamic).find("found dynamic"), std::string::npos) << problem(dynamic);
}

// The law of the tables: config -> GGUF -> config loses no field, nor does what positions turn by.
TEST_P(GgufNames, EveryFieldSurvivesAGguf) {
  const auto original = CheckpointSource::open(golden(GetParam())).value();
  const ModelConfig config = read_config(original).value();
  const ModelConfig back = read_config(CheckpointSource::open(to_gguf(golden(GetParam()), "f32")).value()).value();
  EXPECT_EQ(back.architecture, config.architecture);
  const auto turns = rope_frequencies(config);
  const auto turns_back = rope_frequencies(back);
  ASSERT_EQ(turns_back.size(), turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) EXPECT_NEAR(turns_back[i], turns[i], 1e-6 * turns[i]) << i;
  EXPECT_NEAR(rope_amplitude(back), rope_amplitude(config), 1e-6);
  EXPECT_EQ(long_rope_frequencies(back), long_rope_frequencies(config));
  if (config.rope_scaling == RopeScaling::longrope) {
    EXPECT_EQ(back.rope_original_max_position, config.rope_original_max_position);
  }
  for (const Field& field : find_architecture(config.architecture)->fields) {
    const std::string key = field.gguf;
    if (key == kImplied || key.starts_with("tokenizer.")) continue;  // the vocabulary writes those
    EXPECT_EQ(value_text(field_value(back, field)), value_text(field_value(config, field))) << field.json << key;
  }
}

// What a GGUF says of longrope and of `proportional` becomes a config.json of the same numbers.
TEST_F(GgufNames, ScalingsOfDivisorsComeBackAsTheyWere) {
  for (const char* name : {"phi3-long", "phi3-short", "llama-proportional"}) {
    const auto gguf = CheckpointSource::open(to_gguf(golden(name), "f32")).value();
    checkpoint::ConvertOptions options;
    const ModelConfig back = set_hugging_face_form(gguf, read_config(gguf).value(), options).value();
    const ScratchModel model(name);
    const ModelConfig config = config_of(model);
    model.edit("config.json", [&](io::Json& json) { json = config_json(back, "float32"); });
    const ModelConfig again = config_of(model);
    EXPECT_EQ(again.rope_scaling, config.rope_scaling) << name;
    EXPECT_EQ(rope_frequencies(again), rope_frequencies(config)) << name;
    EXPECT_EQ(long_rope_frequencies(again), long_rope_frequencies(config)) << name;
    EXPECT_NEAR(rope_amplitude(again), rope_amplitude(config), 1e-6) << name;
    EXPECT_EQ(again.rope_original_max_position, config.rope_original_max_position) << name;
    fs::remove(gguf.path());
  }
}

TEST_F(GgufNames, DivisorsThatSayNothingAreRefused) {
  const auto refused = [&](const std::function<void(checkpoint::ConvertOptions&)>& spoil) {
    const auto source = CheckpointSource::open(golden("phi3-long")).value();
    checkpoint::ConvertOptions options;
    options.replace = true;
    set_gguf_form(source, read_config(source).value(), "tiny", options).value();
    spoil(options);
    const fs::path target = scratch_ / "model.gguf";
    (void)checkpoint::convert_checkpoint(source, target, options).value();
    const auto config = read_config(CheckpointSource::open(target).value());
    return config.ok() ? "accepted" : config.error().line();
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  EXPECT_NE(refused([](auto& options) {
              options.added[0].values = {1.0F, -1.0F, 2.0F};
            }).find("tensor rope_factors_long.weight: expected 3 positive numbers, one a frequency, found another; "),
            std::string::npos);
  EXPECT_NE(refused([](auto& options) {
              options.metadata->set("phi3.rope.scaling.type", "linear");
              options.metadata->set("phi3.rope.scaling.attn_factor", 1.0F);
            }).find("tensor rope_factors_long.weight: expected none, as the rope scaling is not longrope, found one; "),
            std::string::npos);
  EXPECT_NE(refused([](auto& options) {
              options.added.clear();
              options.metadata->remove("phi3.rope.scaling.attn_factor");
              options.metadata->set("phi3.rope.scaling.type", "yarn");
              options.metadata->set("phi3.rope.scaling.factor", 4.0F);
              options.metadata->set("phi3.rope.scaling.yarn_log_multiplier", 1.0F);
            })
                .find("key \"phi3.rope.scaling.yarn_log_multiplier\": expected none, as llama.cpp reads none of phi3, "
                      "found 1; "),
            std::string::npos);
}

// YaRN's mscale_all_dim has a word in a GGUF, where mscale is one; and a GGUF may lack what config.json can't.
TEST_F(GgufNames, Ministral3SaysItsYarn) {
  const ScratchModel model("ministral3-tied");
  const auto refused = [&] {
    checkpoint::ConvertOptions options;
    const auto form = set_gguf_form(*model.open(), config_of(model), "tiny", options);
    return form.ok() ? "accepted" : form.error().line();
  };
  model.edit("config.json", [](io::Json& json) { json["rope_parameters"]["mscale_all_dim"] = 0.5; });
  const ModelConfig back = read_config(CheckpointSource::open(to_gguf(model.path(), "f32")).value()).value();
  EXPECT_EQ(rope_amplitude(back), rope_amplitude(config_of(model)));
  const ScratchModel again("ministral3-tied");
  again.edit("config.json", [&](io::Json& json) { json = config_json(back, "float32"); });
  EXPECT_EQ(rope_amplitude(config_of(again)), rope_amplitude(config_of(model)));
  EXPECT_EQ(config_of(again).rope_query_growth, 0.4);
  model.edit("config.json", [](io::Json& json) { json["rope_parameters"]["mscale"] = 0.5; });
  EXPECT_NE(refused().find("expected one that a GGUF has a word for, with its numbers, found yarn"), std::string::npos)
      << refused();
  ModelConfig plain = back;
  plain.rope_scaling = RopeScaling::none;
  try {
    (void)config_json(plain, "float32");
    FAIL() << "config.json of a Ministral 3 cannot say it";
  } catch (const Failure& why) {
    EXPECT_EQ(why.error().line(),
              "the rope_type: expected yarn, without which config.json can't say this architecture, found default; "
              "keep this model as a GGUF");
  }
}

// Broken if a share of pairs that no double says exactly lost one by rounding down.
TEST_F(GgufNames, EveryNumberOfTurnedPairsComesBack) {
  for (int turned = 0; turned < 12; ++turned) {
    const ScratchModel model("llama-proportional");
    model.edit("config.json",
               [&](io::Json& json) { json["rope_parameters"]["partial_rotary_factor"] = (turned + 0.5) / 12.0; });
    const auto frequencies = rope_frequencies(config_of(model));
    EXPECT_EQ(std::count(frequencies.begin(), frequencies.end(), 0.0), 12 - turned);
    const fs::path gguf = to_gguf(model.path(), "f32");
    const ModelConfig back = read_config(CheckpointSource::open(gguf).value()).value();
    fs::remove(gguf);
    EXPECT_EQ(rope_frequencies(back), turned > 0 ? frequencies : std::vector<double>(12, 0.0)) << turned;
  }
}

// llama.cpp's converter: reshape(heads, 2, half, columns), swap the middle axes.
TEST_F(GgufNames, PairsOfARotationStandSideBySide) {
  const auto hf = CheckpointSource::open(golden("llama-tied")).value();
  const ModelConfig config = read_config(hf).value();
  const auto gguf = CheckpointSource::open(to_gguf(golden("llama-tied"), "f32")).value();
  const auto& from = *hf.find("model.layers.0.self_attn.q_proj.weight");
  const auto& to = *gguf.find("blk.0.attn_q.weight");
  const auto columns = static_cast<std::size_t>(config.hidden_size);
  const auto half = static_cast<std::size_t>(config.head_dim / 2);
  std::vector<float> a(static_cast<std::size_t>(from.shape[0]) * columns);
  std::vector<float> b(a.size());
  ASSERT_TRUE(hf.read_f32(from, a).ok());
  ASSERT_TRUE(gguf.read_f32(to, b).ok());
  for (std::size_t head = 0; head < static_cast<std::size_t>(config.num_attention_heads); ++head) {
    for (std::size_t i = 0; i < half; ++i) {
      for (std::size_t part = 0; part < 2; ++part) {
        const std::size_t target = (head * half * 2 + 2 * i + part) * columns;
        const std::size_t stored = (head * half * 2 + part * half + i) * columns;
        ASSERT_TRUE(std::equal(a.begin() + static_cast<std::ptrdiff_t>(stored),
                               a.begin() + static_cast<std::ptrdiff_t>(stored + columns),
                               b.begin() + static_cast<std::ptrdiff_t>(target)))
            << head << ' ' << i << ' ' << part;
      }
    }
  }
  EXPECT_EQ(gguf.gguf()->text("general.architecture").value(), "llama");
  EXPECT_EQ(gguf.gguf()->integer("llama.rope.dimension_count").value(), config.head_dim);
}

// A quantised target packs the rows after they moved, not before.
TEST_F(GgufNames, QuantisedRowsMoveWhole) {
  const fs::path gguf = to_gguf(golden("llama-tied"), "q8_0");
  const auto a = CheckpointSource::open(golden("llama-tied")).value();
  const auto b = CheckpointSource::open(gguf).value();
  const ModelConfig config = read_config(a).value();
  ParameterReader first(a);
  ParameterReader second(b);
  for (const auto& spec : find_architecture(config.architecture)->parameters(config)) {
    const auto before = first.read(spec);
    const auto after = second.read(spec);
    float largest = 0;
    for (const float value : before) largest = std::max(largest, std::fabs(value));
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(after[i], before[i], largest / 127 + 1e-6F) << spec.name;  // half a step of the largest block
    }
  }
}

// Llama 3.1's scaling is a tensor in GGUF and four numbers in config.json.
TEST_F(GgufNames, Llama3ScalingSurvives) {
  const fs::path model = variant([](auto& config) {
    config.erase("rope_parameters");
    config["rope_theta"] = 500000.0;
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 32.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
  });
  const auto gguf = CheckpointSource::open(to_gguf(model, "f32")).value();
  ASSERT_NE(gguf.find("rope_freqs.weight"), nullptr);
  const auto before = rope_frequencies(read_config(CheckpointSource::open(model).value()).value());
  const auto during = rope_frequencies(read_config(gguf).value());
  checkpoint::ConvertOptions options;
  const ModelConfig back = set_hugging_face_form(gguf, read_config(gguf).value(), options).value();
  EXPECT_EQ(back.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(back.rope_factor, 32.0);
  ASSERT_EQ(during.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(during[i] / before[i], 1.0, 1e-6);
}

// The error of setting the form.
TEST_F(GgufNames, WhatIsNotTheModelsIsNamed) {
  const auto refused = [&](const fs::path& model) {
    const auto source = CheckpointSource::open(model).value();
    checkpoint::ConvertOptions options;
    options.outtype = "f32";
    const auto status = set_gguf_form(source, read_config(source).value(), "tiny", options);
    if (!status.ok()) return status.error().line();
    const auto report = checkpoint::convert_checkpoint(source, scratch_ / "refused.gguf", options);
    return report.ok() ? std::string("accepted") : report.error().line();
  };
  const fs::path wide = variant([](auto& config) { config["intermediate_size"] = 97; });
  EXPECT_EQ(refused(wide),
            wide.string() +
                ": tensor model.layers.0.mlp.gate_proj.weight: expected the shape [97, 64], found [96, 64]; "
                "config.json and the weights belong to different models");
  const fs::path shallow = variant([](auto& config) { config["num_hidden_layers"] = 1; });
  const std::string line = refused(shallow);
  EXPECT_EQ(line.rfind(shallow.string() + ": tensor model.layers.1.", 0), 0U) << line;
  EXPECT_TRUE(line.ends_with(
      ": expected only tensors that LlamaForCausalLM reads, found one that it does not; the checkpoint is of "
      "another architecture, or its config.json is"))
      << line;
}

// Divisors that no formula of config.json gives stay in the GGUF.
TEST_F(GgufNames, DivisorsWithoutANameAreRefused) {
  const auto hf = CheckpointSource::open(variant([](auto& config) { config.erase("rope_parameters"); })).value();
  const ModelConfig config = read_config(hf).value();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  set_gguf_form(hf, config, "tiny", options).value();
  std::vector<float> factors(static_cast<std::size_t>(config.head_dim / 2), 1.0F);
  factors[1] = 1.5F;
  options.added.push_back({"rope_freqs.weight", {config.head_dim / 2}, factors});
  const fs::path file = scratch_ / "model.gguf";
  (void)checkpoint::convert_checkpoint(hf, file, options).value();
  const auto gguf = CheckpointSource::open(file).value();
  checkpoint::ConvertOptions back;
  const auto named = set_hugging_face_form(gguf, read_config(gguf).value(), back);
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.error().line(), file.string() +
                                      ": tensor rope_freqs.weight: expected the factors of Llama 3.1's rope scaling, "
                                      "found others, which config.json cannot say; keep this model as a GGUF");
}

// What GGUF has no word for stays a directory: windows of some layers, and a scaling that llama.cpp would not read.
TEST_F(GgufNames, WhatGgufCannotSayIsRefused) {
  const auto refused = [&](const fs::path& model) {
    const auto source = CheckpointSource::open(model).value();
    checkpoint::ConvertOptions options;
    const auto status = set_gguf_form(source, read_config(source).value(), "tiny", options);
    return status.ok() ? std::string("accepted") : status.error().line();
  };
  EXPECT_EQ(refused(golden("qwen2-untied")),
            "key \"use_sliding_window\": expected false, as a GGUF has no word for it, found true; "
            "keep this model as a directory");
  EXPECT_EQ(refused(golden("llama4-untied")),
            "key \"no_rope_layers\": expected [1, 1, 1, 0], as a GGUF has no word for it, found [1, 0, 1, 0]; "
            "keep this model as a directory");
  const fs::path folder = scratch_ / "scaled";
  fs::create_directories(folder);
  fs::copy_file(golden("qwen2-tied") / "model.safetensors", folder / "model.safetensors");
  auto config = io::read_json_file(golden("qwen2-tied") / "config.json").value();
  config["rope_parameters"] = io::read_json_file(golden("llama-tied") / "config.json").value()["rope_parameters"];
  std::ofstream(folder / "config.json") << config.dump();
  EXPECT_EQ(refused(folder),
            folder.string() +
                ": the rope_type: expected default or linear for a GGUF, found llama3, which llama.cpp "
                "does not read from one of this architecture; keep this model as a directory");
  // Longrope's divisors are read of Phi-3 alone.
  const std::vector<double> divisors(8, 2.0);
  config["rope_parameters"] = {{"rope_type", "longrope"}, {"rope_theta", 10000.0}};
  config["rope_parameters"]["long_factor"] = divisors;
  config["rope_parameters"]["short_factor"] = divisors;
  std::ofstream(folder / "config.json") << config.dump();
  EXPECT_NE(refused(folder).find("found longrope, which llama.cpp does not read"), std::string::npos)
      << refused(folder);
}

TEST_F(GgufNames, UnknownTensorsAndAbsentOnesAreNamed) {
  const fs::path untied = variant([](auto& config) { config["tie_word_embeddings"] = false; });
  const auto source = CheckpointSource::open(untied).value();
  checkpoint::ConvertOptions options;
  const auto status = set_gguf_form(source, read_config(source).value(), "tiny", options);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().line().find("lm_head.weight"), std::string::npos) << status.error().line();
}

}  // namespace
}  // namespace tern::models
