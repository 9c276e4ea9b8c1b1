#include "models/adapter.h"

#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "io/json.h"
#include "models/merge.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

LoadedModel load(const ScratchModel& scratch) { return load_scratch(scratch).value(); }

std::vector<float> floats(const checkpoint::Safetensors& file, const std::string& name) {
  const auto* tensor = file.tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

// Writes adapter_model.safetensors anew from PEFT's, with tensors left out, renamed or cut.
void rewrite(const std::filesystem::path& adapter, const std::function<bool(checkpoint::TensorSpec&)>& keep) {
  std::vector<checkpoint::TensorSpec> specs;
  std::vector<std::vector<std::byte>> contents;
  {
    const auto file = checkpoint::Safetensors::open_directory(adapter, "adapter_model").value();
    for (const auto& tensor : file.tensors()) {
      checkpoint::TensorSpec spec{tensor.name, "F32", tensor.shape};
      if (!keep(spec)) continue;
      std::int64_t count = spec.dtype == "F32" ? 4 : 1;
      for (const std::int64_t size : spec.shape) count *= size;
      contents.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
      contents.back().resize(static_cast<std::size_t>(count));
      specs.push_back(std::move(spec));
    }
  }
  std::filesystem::remove(adapter / "adapter_model.safetensors");
  checkpoint::SafetensorsWriteOptions options;
  options.stem = "adapter_model";
  auto writer = checkpoint::SafetensorsWriter::create(adapter, specs, options).value();
  for (std::size_t i = 0; i < specs.size(); ++i) writer.write(specs[i].name, contents[i]).value();
  writer.finish().value();
}

std::string load_error(const ScratchModel& scratch) {
  auto model = load(scratch);
  const auto adapter = load_adapter(model, "lora", scratch.path() / "adapter");
  return adapter.ok() ? "no error" : adapter.error().line();
}

TEST(AdapterConfig, ScalesAsPeftDoes) {
  AdapterConfig config;
  config.rank = 4;
  config.alpha = 8;
  EXPECT_FLOAT_EQ(config.scaling(), 2.0F);
  config.use_rslora = true;
  EXPECT_FLOAT_EQ(config.scaling(), 4.0F);
}

TEST(AdapterConfig, WritesWhatItReads) {
  AdapterConfig config;
  config.rank = 16;
  config.alpha = 24;
  config.dropout = 0.05;
  config.use_rslora = true;
  config.target_modules = {"q_proj", "v_proj"};
  config.base_model = "somewhere/model";
  const ScratchModel scratch;
  std::ofstream(scratch.path() / "adapter_config.json") << adapter_config_json(config);
  const AdapterConfig again = read_adapter_config(scratch.path()).value();
  EXPECT_EQ(adapter_config_json(again), adapter_config_json(config));
  EXPECT_EQ(again.rank, 16);
  EXPECT_TRUE(again.use_rslora);
}

struct Feature {
  const char* key;
  Json value;
};

// What PEFT would compute differently is refused by name, never ignored.
TEST(AdapterConfig, RefusesWhatItDoesNotServe) {
  const std::vector<Feature> features = {{"bias", "some"},
                                         {"ensure_weight_tying", true},
                                         {"modules_to_save", {"lm_head("}},
                                         {"use_dora", "yes"},
                                         {"rank_pattern.q_proj", 0},
                                         {"alpha_pattern.q_proj", -1},
                                         {"alpha_pattern.(", 8},
                                         {"target_modules", "q_proj("},
                                         {"exclude_modules", 1},
                                         {"layers_to_transform", "all"},
                                         {"layers_pattern", "["},
                                         {"init_lora_weights", "pissa_niter_4"},
                                         {"init_lora_weights", "lora_ga"},
                                         {"velora_config", {{"num_groups", 2}}},
                                         {"lora_bias", true},
                                         {"use_what_comes_next_year", true},
                                         {"peft_type", "IA3"},
                                         {"r", 0},
                                         {"r", "eight"},
                                         {"r", 4.5},
                                         {"r", 1e300},
                                         {"peft_type", 7},
                                         {"lora_dropout", 1.0},
                                         {"use_rslora", "yes"},
                                         {"target_modules", {1, 2}}};
  for (const auto& feature : features) {
    const ScratchModel scratch;
    scratch.edit("adapter/adapter_config.json", [&](Json& json) {
      const std::string key = feature.key;
      const auto dot = key.find('.');
      if (dot == std::string::npos) {
        json[key] = feature.value;
      } else {
        json[key.substr(0, dot)] = Json::object();
        json[key.substr(0, dot)][key.substr(dot + 1)] = feature.value;
      }
    });
    const auto config = read_adapter_config(scratch.path() / "adapter");
    ASSERT_FALSE(config.ok()) << feature.key;
    EXPECT_NE(config.error().line().find(cat('"', feature.key, '"')), std::string::npos) << config.error().line();
    EXPECT_NE(config.error().mend, "") << feature.key;
  }
  const ScratchModel scratch;
  scratch.edit("adapter/adapter_config.json", [](Json& json) { json = {1}; });
  EXPECT_EQ(read_adapter_config(scratch.path() / "adapter").error().line(),
            cat((scratch.path() / "adapter/adapter_config.json").string(),
                ": expected an object, found [1]; take the file from the adapter's repository or checkpoint again"));
}

TEST(AdapterConfig, NumbersOfAModuleAreTheFirstPatternsThatMatch) {
  AdapterConfig config;
  config.rank = 4;
  config.alpha = 8;
  config.rank_pattern = {{"q_proj", 16}, {"^model.layers.0.mlp.up_proj", 2}};
  config.alpha_pattern = {{"self_attn..*", 64}, {"q_proj", 1}};
  EXPECT_EQ(config.rank_of("model.layers.3.self_attn.q_proj"), 16);
  EXPECT_EQ(config.rank_of("model.layers.3.self_attn.eq_proj"), 4) << "only whole parts of a name";
  EXPECT_EQ(config.rank_of("model.layers.0.mlp.up_proj"), 2);
  EXPECT_EQ(config.rank_of("whole.model.layers.0.mlp.up_proj"), 4) << "^ is the begin";
  EXPECT_EQ(config.scaling_of("model.layers.3.self_attn.q_proj"), 4.0F);
  EXPECT_EQ(config.scaling_of("model.layers.0.mlp.up_proj"), 4.0F);
  EXPECT_EQ(config.scaling_of("model.layers.0.mlp.down_proj"), 2.0F);
}

TEST(AdapterConfig, SelectsAsPeftDoes) {
  AdapterConfig config;
  config.target_modules = {"q_proj", "model.layers.0.mlp.up_proj"};
  config.layers_to_transform = {1, 3};
  config.exclude_modules = {{"layers.3.self_attn.q_proj"}, false};
  EXPECT_TRUE(config.selects("model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(config.selects("model.layers.2.self_attn.q_proj"));
  EXPECT_FALSE(config.selects("model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(config.selects("model.layers.0.mlp.up_proj")) << "a whole name, whatever the layer";
  EXPECT_FALSE(config.selects("self_attn.q_proj")) << "of no layer";
  EXPECT_TRUE(config.selects("model.layers.1.experts.7.q_proj")) << "the first number is the layer's";
  config.layers_pattern = {"h", "experts"};
  EXPECT_FALSE(config.selects("model.layers.1.experts.7.q_proj"));
  EXPECT_TRUE(config.selects("model.layers.7.experts.1.q_proj"));
}

// PEFT would leave out what the configuration does not choose, and so compute something else.
TEST(Adapter, RefusesTensorsThatItsConfigurationDoesNotChoose) {
  const ScratchModel scratch;
  scratch.edit("adapter/adapter_config.json", [](Json& json) { json["layers_to_transform"] = 1; });
  EXPECT_NE(load_error(scratch).find("model.layers.0."), std::string::npos) << load_error(scratch);
  EXPECT_NE(load_error(scratch).find("adapter_config.json does not choose this module"), std::string::npos);
}

TEST(Adapter, RefusesTensorsOfAnotherModel) {
  const std::string module = "base_model.model.model.layers.0.mlp.up_proj.";
  {
    const ScratchModel scratch;
    rewrite(scratch.path() / "adapter",
            [&](checkpoint::TensorSpec& spec) { return spec.name != module + "lora_B.weight"; });
    EXPECT_NE(load_error(scratch).find("layers.0.mlp.up_proj: expected both lora_A and lora_B"), std::string::npos);
  }
  {
    const ScratchModel scratch;
    rewrite(scratch.path() / "adapter", [&](checkpoint::TensorSpec& spec) {
      if (spec.name == module + "lora_A.weight") spec.shape[1] -= 1;
      return true;
    });
    EXPECT_NE(load_error(scratch).find("found [4, 63]"), std::string::npos) << load_error(scratch);
  }
  {
    const ScratchModel scratch;
    rewrite(scratch.path() / "adapter", [&](checkpoint::TensorSpec& spec) {
      if (spec.name.find(".layers.0.") != std::string::npos)
        spec.name.replace(spec.name.find(".layers.0."), 10, ".layers.7.");
      return true;
    });
    EXPECT_NE(load_error(scratch).find("one that this model has no place for; the adapter is of another model"),
              std::string::npos);
  }
  {
    const ScratchModel scratch;
    rewrite(scratch.path() / "adapter", [&](checkpoint::TensorSpec& spec) {
      if (spec.name == module + "lora_A.weight") spec.dtype = "F8_E8M0";
      return true;
    });
    EXPECT_TRUE(load_error(scratch).ends_with(
        "lora_A.weight: expected a float dtype, found F8_E8M0; save the adapter as float32"))
        << load_error(scratch);
  }
}

TEST(Adapter, ChoosesModulesByNameAndPart) {
  const ScratchModel scratch;
  const auto model = load(scratch);
  EXPECT_EQ(select_modules(model.config, {"all-linear"}).value().size(), 14U);
  EXPECT_EQ(select_modules(model.config, {"q_proj", "down_proj"}).value().size(), 4U);
  EXPECT_EQ(select_modules(model.config, {"mlp.up_proj"}).value().size(), 2U);
  EXPECT_EQ(select_modules(model.config, {"model.layers.1.self_attn.v_proj"}).value().size(), 1U);
  for (const char* name : {"qwen2-tied", "qwen3-untied"}) {
    const ScratchModel qwen(name);
    EXPECT_EQ(select_modules(load(qwen).config, {"all-linear"}).value().size(), 14U) << name;  // no norm, no bias, no head
  }
  const auto unknown = select_modules(model.config, {"q_proj", "c_attn"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
  EXPECT_NE(unknown.error().line().find("c_attn"), std::string::npos);
  EXPECT_FALSE(select_modules(model.config, {"proj"}).ok()) << "only whole parts of a name";
}

// In the file's own order of rows, also where the model computes in another.
class MergedModel : public testing::TestWithParam<std::pair<const char*, std::size_t>> {};
TEST_P(MergedModel, HasTheScaledProductAddedAndNothingElse) {
  const ScratchModel scratch(GetParam().first);
  const ScratchModel target(GetParam().first);
  std::filesystem::remove(target.path() / "model.safetensors");
  MergeOptions options;
  options.adapters = {scratch.path() / "adapter"};
  options.dtype = TERN_F32;
  const auto source = scratch.open();
  merge_weights(*source, read_config(*source).value(), options, target.path()).value();
  const auto merged = checkpoint::Safetensors::open_directory(target.path()).value();
  const auto base = checkpoint::Safetensors::open_directory(scratch.path()).value();
  const auto adapter = checkpoint::Safetensors::open_directory(scratch.path() / "adapter", "adapter_model").value();
  ASSERT_EQ(merged.tensors().size(), base.tensors().size());
  std::size_t changed = 0;
  for (const auto& tensor : base.tensors()) {
    const auto before = floats(base, tensor.name);
    const auto after = floats(merged, tensor.name);
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    if (adapter.tensor(peft_name(module, "lora_A")) == nullptr) {
      EXPECT_EQ(after, before) << tensor.name;
      continue;
    }
    ++changed;
    const auto a = floats(adapter, peft_name(module, "lora_A"));
    const auto b = floats(adapter, peft_name(module, "lora_B"));
    const auto in = static_cast<std::size_t>(tensor.shape[1]);
    for (std::size_t i = 0; i < before.size(); ++i) {
      double want = before[i];
      for (std::size_t r = 0; r < 4; ++r) want += 2.0 * b[i / in * 4 + r] * a[r * in + i % in];
      ASSERT_NEAR(after[i], want, 1e-6) << tensor.name << " element " << i;
    }
  }
  EXPECT_EQ(changed, GetParam().second);
}
INSTANTIATE_TEST_SUITE_P(Models, MergedModel,
                         testing::Values(std::pair{"llama-tied", 14U}, std::pair{"qwen3-next-untied", 10U}));

Status merge(const ScratchModel& scratch, const MergeOptions& options, const ScratchModel& target) {
  const auto source = scratch.open();
  return merge_weights(*source, read_config(*source).value(), options, target.path());
}

TEST(Merge, RefusesAnAdapterOfAnotherModel) {
  const ScratchModel scratch;
  const ScratchModel other("llama-untied");
  MergeOptions options;
  options.adapters = {other.path() / "adapter"};
  const ScratchModel target;
  const Status merged = merge(scratch, options, target);
  ASSERT_FALSE(merged.ok());
  EXPECT_NE(merged.error().line().find("the adapter is of another model"), std::string::npos);
}

TEST(Merge, RefusesAnAdapterWithMoreThanTheModelHas) {
  const ScratchModel scratch;
  rewrite(scratch.path() / "adapter", [&](checkpoint::TensorSpec& spec) {
    if (spec.name.find(".layers.0.mlp.up_proj.") != std::string::npos)
      spec.name.replace(spec.name.find(".layers.0."), 10, ".layers.7.");
    return true;
  });
  MergeOptions options;
  options.adapters = {scratch.path() / "adapter"};
  const ScratchModel target;
  std::filesystem::remove(target.path() / "model.safetensors");
  EXPECT_EQ(merge(scratch, options, target).error().line(),
            cat((scratch.path() / "adapter/adapter_model.safetensors").string(),
                ": expected only LoRA pairs of this model's linear layers, found 28 tensors, of which 26 fit; "
                "the adapter is of another model: name the one it was trained on"));
}

struct Stored {
  const char* name;
  std::function<void(const ScratchModel&)> spoil;
  const char* says;
};

// AutoGPTQ's biases of nothing but zeros may be passed over; others are numbers that would be lost.
TEST(Loader, RefusesBiasesThatTheConfigurationDenies) {
  const ScratchModel scratch("llama-untied");
  scratch.edit("config.json", [](Json& j) { j["attention_bias"] = false; });
  const auto model = load_scratch(scratch);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().line().find("_proj.bias: expected only tensors that LlamaForCausalLM reads"),
            std::string::npos)
      << model.error().line();
}

TEST(Loader, RefusesWeightsThatAreNotTheModels) {
  const std::vector<Stored> cases = {
      {"one layer too many",
       [](const ScratchModel& m) { m.edit("config.json", [](Json& j) { j["num_hidden_layers"] = 3; }); },
       "model.layers.2."},
      {"one layer unused",
       [](const ScratchModel& m) { m.edit("config.json", [](Json& j) { j["num_hidden_layers"] = 1; }); },
       "only tensors that LlamaForCausalLM reads"},
      {"another width",
       [](const ScratchModel& m) { m.edit("config.json", [](Json& j) { j["intermediate_size"] = 97; }); },
       "[97, 64], found [96, 64]"},
      {"no head",
       [](const ScratchModel& m) { m.edit("config.json", [](Json& j) { j["tie_word_embeddings"] = false; }); },
       "lm_head.weight"},
  };
  for (const auto& each : cases) {
    const ScratchModel scratch;
    each.spoil(scratch);
    const auto model = load_scratch(scratch);
    ASSERT_FALSE(model.ok()) << each.name;
    EXPECT_EQ(model.error().kind, ErrorKind::data);
    EXPECT_NE(model.error().line().find(each.says), std::string::npos) << model.error().line();
  }
}

}  // namespace
}  // namespace tern::models
