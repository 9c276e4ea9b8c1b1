// What mixtures of experts add to a model's description.
#include "models/experts.h"

#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "models/gguf_names.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "models/write_weights.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

std::string error_of(const ScratchModel& model) {
  const auto config = read_config(*model.open());
  return config.ok() ? "" : config.error().line();
}

// The hub's files say num_experts, transformers 5 writes num_local_experts.
TEST(Experts, AreCountedByEitherKey) {
  const ScratchModel model("qwen3-moe-tied");
  const auto experts = [&] { return config_of(model).own_field<std::int64_t>("num_experts"); };
  EXPECT_EQ(experts(), 8);
  model.edit("config.json", [](Json& json) { json["num_experts"] = 8; });
  EXPECT_EQ(experts(), 8);
  model.edit("config.json", [](Json& json) { json.erase("num_local_experts"); });
  EXPECT_EQ(experts(), 8);
  model.edit("config.json", [](Json& json) { json.erase("num_experts"); });
  EXPECT_EQ(experts(), 128);
  model.edit("config.json", [](Json& json) { json["num_experts"] = 8, json["num_local_experts"] = 9; });
  EXPECT_NE(error_of(model).find("field \"num_local_experts\": expected what \"num_experts\" says, 8, found 9"),
            std::string::npos)
      << error_of(model);
}

TEST(Experts, OfATokenAreAsManyAsThereAreAtMost) {
  for (const char* name : {"qwen3-moe-tied", "qwen2-moe-untied", "mixtral"}) {
    const ScratchModel model(name);
    for (const int count : {0, 9}) {
      model.edit("config.json", [&](Json& json) { json["num_experts_per_tok"] = count; });
      EXPECT_NE(error_of(model).find("field \"num_experts_per_tok\": expected 1 to "), std::string::npos)
          << error_of(model);
    }
  }
}

TEST(Experts, AreNoMoreThanAListCanHold) {
  const ScratchModel model("mixtral");
  model.edit("config.json", [](Json& json) { json["num_local_experts"] = 2147483647; });
  EXPECT_NE(error_of(model).find("field \"num_local_experts\": expected 1 to 524288 experts"), std::string::npos)
      << error_of(model);
}

TEST(Experts, OfMixtralHaveItsDefaults) {
  const ScratchModel model("mixtral");
  model.edit("config.json", [](Json& json) {
    for (const char* key : {"rms_norm_eps", "rope_parameters", "num_local_experts"}) json.erase(key);
  });
  EXPECT_EQ(config_of(model).rms_norm_eps, 1e-5);
  EXPECT_EQ(config_of(model).rope_theta, 1e6);
  EXPECT_EQ(config_of(model).own_field<std::int64_t>("num_local_experts"), 8);
}

// ggml drops outer dimensions of one, as published files of Qwen2's experts show: the shared expert's gate is a vector.
TEST(Experts, AGateOfOneRowMayBeAVector) {
  const ScratchModel model("qwen2-moe-untied");
  const auto source = model.open();
  checkpoint::ConvertOptions options;
  options.outtype = "q8_0";
  set_gguf_form(*source, config_of(model), "tiny", options).value();
  int changed = 0;
  for (auto& tensor : options.tensors) {
    if (!tensor.name.ends_with("ffn_gate_inp_shexp.weight")) continue;
    ASSERT_EQ(tensor.shape, (std::vector<std::int64_t>{1, 64}));
    tensor.shape = {64};
    ++changed;
  }
  EXPECT_EQ(changed, 2);
  const auto path = model.path() / "model.gguf";
  (void)checkpoint::convert_checkpoint(*source, path, options).value();
  auto gguf = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
  const auto loaded = load_model(read_config(*gguf).value(), gguf, cpu_device(), {}).value();
  const auto& gate = loaded.store->at("model.layers.0.mlp.shared_expert_gate.weight").desc;
  EXPECT_EQ(to_string(gate), "f32[1,64]");
}

TEST(Experts, StandInTheLayersThatTheConfigurationSays) {
  const auto layers = [](const ScratchModel& model) { return sparse_layers(config_of(model)); };
  const ScratchModel model("qwen3-moe-untied");
  EXPECT_EQ(layers(model), (std::vector<bool>{true, false, true}));
  model.edit("config.json", [](Json& json) { json["decoder_sparse_step"] = 2, json["mlp_only_layers"] = nullptr; });
  EXPECT_EQ(layers(model), (std::vector<bool>{false, true, false}));
  model.edit("config.json", [](Json& json) { json["mlp_only_layers"] = {3}; });
  EXPECT_NE(error_of(model).find("field \"mlp_only_layers\": expected layers from 0 to 2, found [3]"),
            std::string::npos)
      << error_of(model);
}

TEST(Experts, OfQwen2ComeWithoutWindows) {
  const ScratchModel model("qwen2-moe-tied");
  model.edit("config.json", [](Json& json) { json["layer_types"][1] = kWindow; });
  EXPECT_NE(error_of(model).find("field \"layer_types\": expected full_attention for each layer"), std::string::npos)
      << error_of(model);
}

// A loss of the router's own would be added to the one that tern computes.
TEST(Experts, RefuseTheRoutersOwnLoss) {
  const ScratchModel model("mixtral");
  model.edit("config.json", [](Json& json) { json["router_aux_loss_coef"] = 0.5; });
  EXPECT_EQ(error_of(model), "");
  model.edit("config.json", [](Json& json) { json["output_router_logits"] = true; });
  EXPECT_NE(error_of(model).find("field \"output_router_logits\": expected false, found true"), std::string::npos)
      << error_of(model);
}

// What is written has transformers' tensors, each expert's apart, to the bit.
TEST(Experts, AreWrittenApart) {
  for (const char* name : {"qwen3-moe-untied", "qwen2-moe-tied", "mixtral"}) {
    const ScratchModel model(name);
    const auto source = model.open();
    ParameterReader reader(*source);
    const ModelConfig config = config_of(model);
    const auto specs = find_architecture(config.architecture)->parameters(config);
    const test::TempDir out;
    WriteWeightsOptions options;
    options.rows = [&](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
      reader.read_rows(spec, first, count, 0, values);
    };
    write_weights(specs, out.path(), options);
    const auto ours = checkpoint::Safetensors::open(out.path() / "model.safetensors").value();
    const auto theirs = checkpoint::Safetensors::open(model.path() / "model.safetensors").value();
    ASSERT_EQ(ours.tensors().size(), theirs.tensors().size()) << name;
    for (const auto& tensor : theirs.tensors()) {
      const auto* found = ours.tensor(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
      EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
          << tensor.name;
    }
  }
}

// llama.cpp computes Qwen3's weights normalised and Qwen2's as they are, in every layer, whatever a GGUF holds.
TEST(Experts, AGgufSaysOnlyWhatLlamaCppComputes) {
  const auto problem = [](const char* name, const std::function<void(Json&)>& change) {
    const ScratchModel model(name);
    model.edit("config.json", change);
    checkpoint::ConvertOptions options;
    const auto form = set_gguf_form(*model.open(), config_of(model), "tiny", options);
    return form.ok() ? "" : form.error().line();
  };
  EXPECT_EQ(problem("qwen3-moe-tied", [](Json&) {}), "");
  EXPECT_NE(problem("qwen3-moe-tied", [](Json& json) { json["norm_topk_prob"] = false; }).find("\"norm_topk_prob\""),
            std::string::npos);
  EXPECT_EQ(problem("qwen2-moe-untied", [](Json&) {}), "");
  EXPECT_NE(problem("qwen2-moe-untied", [](Json& json) { json["norm_topk_prob"] = true; }).find("\"norm_topk_prob\""),
            std::string::npos);
  EXPECT_NE(
      problem("qwen3-moe-untied", [](Json& json) { json["norm_topk_prob"] = true, json["use_sliding_window"] = false; })
          .find("\"mlp_only_layers\""),
      std::string::npos);
}

}  // namespace
}  // namespace tern::models
