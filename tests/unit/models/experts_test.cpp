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
  for (const char* name : {"qwen3-moe-tied", "qwen2-moe-untied", "mixtral", "glm4-moe-untied", "granite-moe-tied",
                           "qwen3.5-moe-untied", "qwen3-next-untied"}) {
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

TEST(Experts, ComeInGroupsThatHoldEnough) {
  const ScratchModel model("glm4-moe-untied");
  const auto problem = [&](const char* key, int value) {
    const ScratchModel changed("glm4-moe-untied");
    changed.edit("config.json", [&](Json& json) { json[key] = value; });
    return error_of(changed);
  };
  EXPECT_EQ(error_of(model), "");
  for (const int groups : {0, 3, 8}) {
    EXPECT_NE(problem("n_group", groups).find("field \"n_group\": expected a number of groups of at least two"),
              std::string::npos)
        << problem("n_group", groups);
  }
  for (const int chosen : {0, 1, 5}) {  // a token has three experts, and a group two
    EXPECT_NE(problem("topk_group", chosen).find("field \"topk_group\": expected 1 to 4 groups that hold"),
              std::string::npos)
        << problem("topk_group", chosen);
  }
}

TEST(Experts, OfTheFirstLayersAreNone) {
  const ScratchModel model("glm4-moe-untied");
  EXPECT_EQ(routed_layers(config_of(model)), (std::vector<bool>{false, true, true}));
}

// What balances the experts is held in fp32, whatever the model's dtype, and is no parameter.
TEST(Experts, ABufferIsNoParameter) {
  const ScratchModel model("glm4-moe-tied");
  LoadOptions options;
  options.dtype = TERN_BF16;
  const auto loaded = load_scratch(model, options).value();
  const std::string bias = "model.layers.0.mlp.gate.e_score_correction_bias";
  EXPECT_EQ(to_string(loaded.store->at(bias).desc), "f32[5]");
  EXPECT_EQ(to_string(loaded.store->at("model.layers.0.mlp.gate.weight").desc), "bf16[5,32]");
  std::int64_t elements = 0;
  int buffers = 0;
  for (const auto& spec : loaded.architecture->parameters(loaded.config)) {
    buffers += spec.is_buffer ? 1 : 0;
    elements += num_elements(loaded.store->at(spec.name).desc);
  }
  EXPECT_EQ(buffers, 2);
  EXPECT_EQ(loaded.config.num_parameters(), elements - std::int64_t{2} * 5);

  ParameterReader reader(*loaded.source);
  const auto specs = loaded.architecture->parameters(loaded.config);
  const test::TempDir out;
  WriteWeightsOptions write;
  write.dtype = TERN_BF16;
  write.rows = [&](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
    reader.read_rows(spec, first, count, spec.hugging_face, values);
  };
  write_weights(specs, out.path(), write);
  const auto written = checkpoint::Safetensors::open(out.path() / "model.safetensors").value();
  for (const auto& tensor : written.tensors()) {
    EXPECT_EQ(std::string_view(tensor.dtype->name), tensor.name.ends_with("e_score_correction_bias") ? "F32" : "BF16")
        << tensor.name;
  }
}

// Layers beyond the last predict further tokens. A GGUF counts them among the others.
TEST(Experts, LayersOfPredictionAreLeftOut) {
  const std::string layers = "the layers that predict further tokens are ";
  const ScratchModel model("glm4-moe-untied");
  EXPECT_EQ(load_scratch(model).value().notes, std::vector<std::string>{});
  checkpoint::ConvertOptions options;
  options.outtype = "f32";
  set_gguf_form(*model.open(), config_of(model), "tiny", options).value();
  options.metadata->set("glm4moe.nextn_predict_layers", std::uint32_t{1});
  const auto path = model.path() / "model.gguf";
  (void)checkpoint::convert_checkpoint(*model.open(), path, options).value();
  auto gguf = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
  const auto from_gguf = load_model(read_config(*gguf).value(), gguf, cpu_device(), {}).value();
  EXPECT_EQ(from_gguf.config.num_hidden_layers, 2);
  EXPECT_EQ(from_gguf.notes, std::vector<std::string>{layers + "left out: nothing here reads them"});

  model.edit("config.json", [](Json& json) { json["num_hidden_layers"] = 2, json["num_nextn_predict_layers"] = 1; });
  EXPECT_EQ(load_scratch(model).value().notes,
            std::vector<std::string>{layers + "read for guesses of the method mtp alone"});

  options.metadata->set("glm4moe.expert_gating_func", std::uint32_t{1});
  const auto softmax = model.path() / "softmax.gguf";
  const ScratchModel whole("glm4-moe-untied");
  (void)checkpoint::convert_checkpoint(*whole.open(), softmax, options).value();
  const auto refused = read_config(checkpoint::CheckpointSource::open(softmax).value());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().line().find("\"glm4moe.expert_gating_func\": expected 2, the sigmoid, found 1"),
            std::string::npos)
      << refused.error().line();
}

// What is written has transformers' tensors, each expert's apart, to the bit.
TEST(Experts, AreWrittenApart) {
  for (const char* name : {"qwen3-moe-untied", "qwen2-moe-tied", "mixtral", "glm4-moe-tied", "granite-moe-untied",
                           "qwen3.5-moe-untied", "qwen3-next-untied", "granite-h-untied"}) {
    const ScratchModel model(name);
    const auto source = model.open();
    ParameterReader reader(*source);
    const ModelConfig config = config_of(model);
    const auto specs = find_architecture(config.architecture)->parameters(config);
    const test::TempDir out;
    WriteWeightsOptions options;
    options.rows = [&](const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) {
      reader.read_rows(spec, first, count, spec.hugging_face, values);
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
