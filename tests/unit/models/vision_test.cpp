// What a checkpoint says of its vision tower, and the ways in which its weights are saved.
#include "models/vision.h"

#include "models/parameter_reader.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

// transformers' own file of a whole, without the adapter that a ScratchModel brings.
class SeeingWhole {
 public:
  explicit SeeingWhole(const char* name) {
    for (const char* part : {"config.json", "model.safetensors"})
      std::filesystem::copy(golden(name) / part, scratch_.path() / part);
  }
  [[nodiscard]] std::shared_ptr<checkpoint::CheckpointSource> open() const {
    return std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(scratch_.path()).value());
  }
  [[nodiscard]] ModelConfig config() const { return read_config(*open()).value(); }
  [[nodiscard]] std::string problem_after(const std::function<void(Json&)>& change,
                                          const std::function<void(const ModelConfig&)>& look = {}) const {
    const Json before = test::parsed_json(std::ifstream(scratch_.path() / "config.json"));
    Json json = before;
    change(json);
    write(json);
    const auto config = read_config(*open());
    write(before);
    if (config.ok() && look) look(*config);
    return config.ok() ? "" : config.error().line();
  }
  // Where the first part's fields are as they should be and the second's are not, the error names the field and both.
  void expect_problem(const std::function<void(Json&)>& change, const std::string& field,
                      const std::string& expected) const {
    const std::string problem = problem_after(change);
    EXPECT_NE(problem.find(field), std::string::npos) << problem;
    EXPECT_NE(problem.find(expected), std::string::npos) << problem;
  }

 private:
  void write(const Json& json) const { std::ofstream(scratch_.path() / "config.json") << json.dump(2); }
  test::TempDir scratch_;
};

TEST(Vision, TensorsHaveOneNameInEveryWayOfSavingThem) {
  EXPECT_EQ(vision_part_name("model.visual.blocks.0.attn.qkv.weight"), "visual.blocks.0.attn.qkv.weight");
  EXPECT_EQ(vision_part_name("visual.patch_embed.proj.weight"), "visual.patch_embed.proj.weight");
  EXPECT_EQ(vision_part_name("vision_tower.vision_model.post_layernorm.bias"), "vision_tower.post_layernorm.bias");
  EXPECT_EQ(vision_part_name("model.vision_tower.encoder.layer.1.lambda_1"), "vision_tower.encoder.layer.1.lambda_1");
  EXPECT_EQ(vision_part_name("multi_modal_projector.linear_1.bias"), "multi_modal_projector.linear_1.bias");
  EXPECT_EQ(vision_part_name("model.language_model.norm.weight"), "");
  EXPECT_EQ(vision_part_name("lm_head.weight"), "");
}

TEST(Vision, IsReadOnlyWhereItIsAskedFor) {
  const SeeingWhole whole("gemma3-whole");  // whose tower has a head, of which no feature needs anything
  const auto source = whole.open();
  const ModelConfig config = read_config(*source).value();
  ASSERT_NE(config.vision, nullptr);
  EXPECT_EQ(config.vision->image_token_id, 150);
  const auto without = load_model(config, source, cpu_device(), {}).value();
  EXPECT_FALSE(has_vision_weights(without));
  EXPECT_EQ(without.notes.size(), 1U);
  LoadOptions options;
  options.vision = true;
  const auto with = load_model(config, source, cpu_device(), options).value();
  EXPECT_TRUE(has_vision_weights(with));
  EXPECT_TRUE(with.notes.empty());
  EXPECT_EQ(with.store->find("vision_tower.head.probe"), nullptr);
}

TEST(Vision, AModelOfWordsHasNone) {
  EXPECT_EQ(config_of(ScratchModel("llama-tied")).vision, nullptr);
  EXPECT_EQ(SeeingWhole("mistral3-whole").config().vision, nullptr) << "another tower, which is not served";
  // LLaVA's class with Pixtral's tower.
  bool sees = true;
  EXPECT_EQ(SeeingWhole("llava-images")
                .problem_after([](Json& json) { json["vision_config"]["model_type"] = "pixtral"; },
                               [&](const ModelConfig& config) { sees = config.vision != nullptr; }),
            "");
  EXPECT_FALSE(sees);
}

TEST(Vision, QwenRefusesWhatItsTowerDoesNotCompute) {
  const SeeingWhole whole("qwen2.5-vl-images");
  const auto vision = [](const char* key, const Json& value) {
    return [key, value](Json& json) { json["vision_config"][key] = value; };
  };
  whole.expect_problem(vision("out_hidden_size", 33), "out_hidden_size", "32, as the language model has");
  whole.expect_problem(vision("num_heads", 3), "num_heads", "a multiple of four");
  whole.expect_problem(vision("window_size", 7), "window_size", "at least the 8 pixels");
  whole.expect_problem(vision("hidden_act", "relu"), "hidden_act", "\"silu\"");
  whole.expect_problem(vision("patch_size", 4000), "patch_size", "a size from 1 to 256");
  whole.expect_problem(vision("fancy", 1), "fancy", "the vision tower of Qwen2_5_VL");
  whole.expect_problem(
      [](Json& json) {
        json["text_config"]["rope_parameters"]["mrope_section"] = {1, 1, 1};
      },
      "mrope_section", "add up to the 4 pairs");
  whole.expect_problem([](Json& json) { json["text_config"]["rope_parameters"].erase("mrope_section"); },
                       "mrope_section", "[16, 24, 24]");  // what stands in is of larger heads
  EXPECT_EQ(whole.problem_after(vision("spatial_patch_size", 4)), "") << "a copy that the published files have";
  EXPECT_EQ(whole.problem_after(vision("in_chans", 3)), "");
  whole.expect_problem(vision("in_chans", 4), "in_chans", "3");
}

TEST(Vision, OthersRefuseWhatTheirTowersDoNotCompute) {
  const SeeingWhole qwen3("qwen3-vl-images");
  qwen3.expect_problem([](Json& json) { json["vision_config"]["num_position_embeddings"] = 50; },
                       "num_position_embeddings", "the square of a whole number");
  qwen3.expect_problem([](Json& json) { json["vision_config"]["deepstack_visual_indexes"] = {4}; },
                       "deepstack_visual_indexes", "layers from 0 to 3");
  const SeeingWhole qwen3_5("qwen3.5-images");
  qwen3_5.expect_problem([](Json& json) { json["vision_config"]["deepstack_visual_indexes"] = {1}; },
                         "deepstack_visual_indexes", "an empty array");
  const SeeingWhole llava("llava-images");
  llava.expect_problem([](Json& json) { json["vision_feature_layer"] = -5; }, "num_hidden_layers",
                       "enough layers for vision_feature_layer, -5");
  llava.expect_problem([](Json& json) { json["vision_feature_layer"] = 4; }, "num_hidden_layers",
                       "enough layers for vision_feature_layer, 4");
  llava.expect_problem([](Json& json) { json["vision_feature_select_strategy"] = "some"; },
                       "vision_feature_select_strategy", "\"full\"");
  llava.expect_problem([](Json& json) { json["projector_hidden_act"] = "relu"; }, "projector_hidden_act", "\"gelu\"");
  llava.expect_problem([](Json& json) { json["vision_config"]["hidden_act"] = "relu"; }, "hidden_act",
                       "\"quick_gelu\" or \"gelu\"");
  llava.expect_problem([](Json& json) { json["vision_config"]["patch_size"] = 5; }, "patch_size",
                       "a divisor of 16 pixels");
  llava.expect_problem([](Json& json) { json["vision_config"]["num_attention_heads"] = 5; }, "num_attention_heads",
                       "a divisor of 32");
  SeeingWhole("qwen2-vl-images")
      .expect_problem([](Json& json) { json["vision_config"]["hidden_act"] = "gelu"; }, "hidden_act", "\"quick_gelu\"");
  const SeeingWhole gemma("gemma3-images");
  gemma.expect_problem([](Json& json) { json["mm_tokens_per_image"] = 15; }, "mm_tokens_per_image", "square");
  gemma.expect_problem([](Json& json) { json["vision_config"]["patch_size"] = 5; }, "patch_size", "cuts 32 pixels");
  gemma.expect_problem([](Json& json) { json["vision_config"]["num_attention_heads"] = 5; }, "num_attention_heads",
                       "a divisor of 32");
  const SeeingWhole intern("internvl-images");
  intern.expect_problem([](Json& json) { json["vision_feature_layer"] = -2; }, "vision_feature_layer",
                        "the last layer");
  intern.expect_problem([](Json& json) { json["vision_feature_select_strategy"] = "full"; },
                        "vision_feature_select_strategy", "\"default\"");
  intern.expect_problem([](Json& json) { json["downsample_ratio"] = 0.3; }, "downsample_ratio", "one over");
  intern.expect_problem([](Json& json) { json["vision_config"]["norm_type"] = "batch"; }, "norm_type", "\"rms_norm\"");
  intern.expect_problem(
      [](Json& json) {
        json["vision_config"]["image_size"] = {24, 32};
      },
      "image_size", "the same for height and width");
  intern.expect_problem(
      [](Json& json) {
        json["vision_config"]["patch_size"] = {5, 5};
      },
      "patch_size", "cuts 24 pixels");
  intern.expect_problem([](Json& json) { json["projector_hidden_act"] = "relu"; }, "projector_hidden_act", "\"gelu\"");
}

// Grids that the tower can't read are named, not computed wrongly.
TEST(Vision, RefusesOtherGrids) {
  const auto problem = [](const char* model, std::vector<nn::PatchGrid> grids) {
    const ModelConfig config = SeeingWhole(model).config();
    const auto columns = catching([&] { return config.vision->tower->columns(*config.vision, grids); });
    return columns.ok() ? std::string() : columns.error().line();
  };
  EXPECT_EQ(problem("qwen2.5-vl-images", {{1, 4, 6}}), "");
  EXPECT_NE(problem("qwen2.5-vl-images", {{1, 4, 5}}).find("1 x 4 x 5"), std::string::npos);
  EXPECT_NE(problem("qwen3-vl-images", {{1, 4, 6}, {1, 4, 6}}).find("2 grids"), std::string::npos);
  EXPECT_NE(problem("qwen2-vl-images", {{2, 4, 6}}).find("2 x 4 x 6"), std::string::npos) << "of a video";
  EXPECT_NE(problem("gemma3-images", {{1, 8, 6}}).find("1 x 8 x 8"), std::string::npos);
  EXPECT_NE(problem("gemma3-images", {}).find("0 grids"), std::string::npos);
  EXPECT_NE(problem("llava-images", {{1, 4, 5}}).find("1 x 4 x 5"), std::string::npos);
  EXPECT_NE(problem("llava-images", {{1, 4, 4}, {1, 4, 4}}).find("2 grids"), std::string::npos);
  EXPECT_EQ(problem("internvl-images", {{1, 6, 6}, {1, 6, 6}}), "");
  EXPECT_NE(problem("internvl-images", {{1, 6, 6}, {1, 6, 7}}).find("1 x 6 x 7"), std::string::npos);
}

// vision_config as each is published, and the parameters that transformers' classes have of it beside a language model
// of 3584 features (counted on its meta device).
TEST(Vision, ReadsPublishedTowers) {
  struct Published {
    const char* like;  // the fixture with a language model of that kind
    const char* vision;
    std::int64_t parameters;
  };
  for (const auto& [like, published, parameters] :
       {Published{
            "qwen2.5-vl-images",
            R"({"depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
                      "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
                      "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
                      "tokens_per_second": 2, "temporal_patch_size": 2})",
            676550144},
        Published{"qwen2-vl-images",
                  R"({"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3,
                      "hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
                      "temporal_patch_size": 2})",
                  675759104},
        Published{"qwen3-vl-images",
                  R"({"deepstack_visual_indexes": [5, 11, 17], "depth": 24, "hidden_act": "gelu_pytorch_tanh",
                      "hidden_size": 1024, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 4096,
                      "model_type": "qwen3_vl_vision", "num_heads": 16, "num_position_embeddings": 2304,
                      "out_hidden_size": 3584, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2})",
                  432129024},
        Published{"gemma3-images",
                  R"({"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
                      "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
                      "patch_size": 14, "vision_use_head": false})",
                  420995952},
        Published{"internvl-images",
                  R"({"architectures": ["InternVisionModel"], "model_type": "internvl_vision", "hidden_size": 1024,
                      "num_hidden_layers": 24})",
                  331479040},
        Published{"qwen3.5-images",
                  R"({"deepstack_visual_indexes": [], "depth": 27, "hidden_act": "gelu_pytorch_tanh",
                      "hidden_size": 1152, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 4304,
                      "model_type": "qwen3_5", "num_heads": 16, "num_position_embeddings": 2304,
                      "out_hidden_size": 3584, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2})",
                  453650672},
        Published{"llava-images",
                  R"({"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
                      "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24,
                      "patch_size": 14, "projection_dim": 768, "vocab_size": 32000})",
                  320027648}}) {
    const SeeingWhole whole(like);
    std::int64_t count = 0;
    EXPECT_EQ(whole.problem_after(
                  [&, published = published](Json& json) {
                    json["vision_config"] = io::parse_json(published, like).value();
                    json["text_config"]["hidden_size"] = 3584;
                    json["text_config"]["num_attention_heads"] = 28;
                    json["text_config"]["num_key_value_heads"] = 4;
                    json["text_config"]["head_dim"] = 128;
                    if (json.contains("mm_tokens_per_image")) json["mm_tokens_per_image"] = 256;
                    if (json["text_config"]["rope_parameters"].contains("mrope_section"))
                      json["text_config"]["rope_parameters"].erase("mrope_section");
                  },
                  [&](const ModelConfig& config) {
                    for (const ParameterSpec& spec : config.vision->tower->parameters(*config.vision)) {
                      std::int64_t elements = 1;
                      for (const std::int64_t size : spec.shape) elements *= size;
                      count += elements;
                    }
                  }),
              "")
        << like;
    EXPECT_EQ(count, parameters) << like;
  }
}

}  // namespace
}  // namespace tern::models
