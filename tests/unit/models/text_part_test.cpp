// The language model of a checkpoint that also sees.
#include "models/text_part.h"

#include "models/parameter_reader.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

// transformers' own file, without the adapter that a ScratchModel brings.
class Whole {
 public:
  explicit Whole(const char* name = "qwen3.5-whole") {
    for (const char* part : {"config.json", "model.safetensors"})
      std::filesystem::copy(golden(name) / part, scratch_.path() / part);
  }
  [[nodiscard]] std::shared_ptr<checkpoint::CheckpointSource> open() const {
    return std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(scratch_.path()).value());
  }
  [[nodiscard]] std::string problem_after(const std::function<void(Json&)>& change) const {
    Json json = test::parsed_json(std::ifstream(scratch_.path() / "config.json"));
    change(json);
    std::ofstream(scratch_.path() / "config.json") << json.dump(2);
    const auto config = read_config(*open());
    return config.ok() ? "" : config.error().line();
  }

 private:
  test::TempDir scratch_;
};

TEST(TextPart, HasItsNamesInEveryWayOfSavingIt) {
  EXPECT_EQ(text_part_name("model.language_model.layers.0.mlp.up_proj.weight"), "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(text_part_name("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(text_part_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_part_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_part_name("mtp.fc.weight"), "mtp.fc.weight");
  EXPECT_EQ(text_part_name("model.layers.3.mlp.up_proj.weight"), "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(text_part_name("visual.blocks.0.attn.qkv.weight"), "");
  EXPECT_EQ(text_part_name("model.visual.pos_embed.weight"), "");
  EXPECT_EQ(part_of("model.visual.pos_embed.weight"), "visual");
  EXPECT_EQ(part_of("multi_modal_projector.norm.weight"), "multi_modal_projector");
}

TEST(TextPart, IsTheModelThatItWouldBeAlone) {
  const Whole whole;
  const auto source = whole.open();
  const ModelConfig config = read_config(*source).value();
  EXPECT_EQ(config.architecture, "Qwen3_5ForCausalLM");
  const ScratchModel alone("qwen3.5-untied");
  const auto other = alone.open();
  ParameterReader first(*source);
  ParameterReader second(*other);
  EXPECT_EQ(first.other_parts(), std::set<std::string>{"visual"});
  EXPECT_TRUE(second.other_parts().empty());
  for (const auto& spec : find_architecture(config.architecture)->parameters(config))
    EXPECT_EQ(first.read(spec), second.read(spec)) << spec.name;
  // What is written again is the language model alone.
  const Json written = config_json(config, "float32");
  EXPECT_EQ(written.find("architectures")->dump(), "[\"Qwen3_5ForCausalLM\"]");
  EXPECT_EQ(written.find("model_type")->dump(), "\"qwen3_5_text\"");
  EXPECT_FALSE(written.contains("text_config"));
  const auto loaded = load_model(config, source, cpu_device(), {}).value();
  ASSERT_EQ(loaded.notes.size(), 1U);
  EXPECT_EQ(loaded.notes.front(), "the checkpoint's visual is left out: this reads its language model alone");
}

// What the part leaves to the whole.
TEST(TextPart, TakesEndsOfTheWhole) {
  const Whole whole;
  EXPECT_EQ(whole.problem_after([](Json& json) {
    json["text_config"].erase("eos_token_id");
    json["eos_token_id"] = 7;
  }),
            "");
  EXPECT_EQ(read_config(*whole.open()).value().eos_token_ids, std::vector<std::int64_t>{7});
}

// Mistral Small 3.1 says it nowhere, InternVL says true of the whole and false of its text: then it is as the file has
// it.
TEST(TextPart, TiesEmbeddingsWhereBothSaySoOrTheFileHasNoHead) {
  struct Case {
    const char* name;
    int text;  // 1 true, 0 false, -1 nothing
    int whole;
    bool tied;
  };
  for (const auto& [name, text, of_whole, tied] :
       {Case{"qwen3.5-whole", 0, 0, false}, Case{"qwen3.5-whole", 1, 1, true}, Case{"qwen3.5-whole", 0, 1, false},
        Case{"qwen3.5-whole", 1, 0, false}, Case{"qwen3.5-whole", -1, -1, false}, Case{"gemma3-whole", -1, -1, true},
        Case{"gemma3-whole", 0, 1, true}, Case{"gemma3-whole", -1, 1, true}}) {
    const Whole model(name);
    EXPECT_EQ(model.problem_after([&, text = text, of_whole = of_whole](Json& json) {
      json["text_config"].erase("tie_word_embeddings"), json.erase("tie_word_embeddings");
      if (text >= 0) json["text_config"]["tie_word_embeddings"] = text == 1;
      if (of_whole >= 0) json["tie_word_embeddings"] = of_whole == 1;
    }),
              "");
    EXPECT_EQ(read_config(*model.open()).value().tie_word_embeddings, tied) << name << " " << text << " " << of_whole;
  }
}

// Where no weights are asked, they can't say it.
TEST(TextPart, OfConfigAloneTiesAsTheWholeSays) {
  for (const bool tied : {false, true}) {
    const Whole model;
    EXPECT_EQ(model.problem_after([&](Json& json) {
      json["text_config"].erase("tie_word_embeddings");
      json["tie_word_embeddings"] = tied;
    }),
              "");
    const auto alone = checkpoint::CheckpointSource::open_config(model.open()->path()).value();
    EXPECT_EQ(read_config(alone).value().tie_word_embeddings, tied);
  }
}

// Qwen2.5-VL as it is published: its fields are those of the whole, its tensors "model." and "visual.".
TEST(TextPart, MayHaveItsFieldsAmongThoseOfTheWhole) {
  const Whole whole("qwen2.5-vl-whole");
  const ModelConfig apart = read_config(*whole.open()).value();
  EXPECT_EQ(whole.problem_after([](Json& json) {
    Json flat = json["text_config"];
    flat.erase("rope_parameters");
    for (const char* key : {"architectures", "vision_config", "image_token_id"}) flat[key] = json[key];
    flat["model_type"] = "qwen2_5_vl";
    flat["rope_theta"] = json["text_config"]["rope_parameters"]["rope_theta"];
    flat["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
    json = flat;
  }),
            "");
  const ModelConfig flat = read_config(*whole.open()).value();
  EXPECT_EQ(flat.architecture, "Qwen2ForCausalLM");
  EXPECT_EQ(flat.num_parameters(), apart.num_parameters());
  EXPECT_EQ(flat.rope_scaling, RopeScaling::none);
  EXPECT_EQ(flat.rope_theta, apart.rope_theta);
  EXPECT_FALSE(config_json(flat, "float32").contains("vision_config"));
}

// Gemma 3 4B as it is published: what is usual is not said.
TEST(TextPart, MayLeaveOutWhatIsUsual) {
  const Whole whole("gemma3-whole");
  EXPECT_EQ(whole.problem_after([](Json& json) {
    json["text_config"] = {{"hidden_size", 2560},
                           {"intermediate_size", 10240},
                           {"model_type", "gemma3_text"},
                           {"num_hidden_layers", 34},
                           {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                           {"sliding_window", 1024}};
    json["eos_token_id"] = {1, 106};
  }),
            "");
  const ModelConfig config = read_config(*whole.open()).value();
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.num_attention_heads, 8);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.rope_factor, 8.0);
  EXPECT_EQ(config.rope_theta, 1000000.0);
  EXPECT_EQ(config.rope_local_theta, 10000.0);
  EXPECT_EQ(config.eos_token_ids, (std::vector<std::int64_t>{1, 106}));
}

TEST(TextPart, ErrorsNameTheFieldWithinTheWhole) {
  EXPECT_NE(Whole()
                .problem_after([](Json& json) { json["text_config"]["linear_conv_kernel_dim"] = 1; })
                .find("config.json: text_config: field \"linear_conv_kernel_dim\": expected from 2 to 64 rows"),
            std::string::npos);
  EXPECT_NE(Whole()
                .problem_after([](Json& json) { json["text_config"]["model_type"] = "llama"; })
                .find("field \"model_type\": expected \"qwen3_5_text\", as Qwen3_5ForConditionalGeneration has, found "
                      "\"llama\""),
            std::string::npos);
  const std::string other = Whole().problem_after([](Json& json) { json["architectures"] = {"NoSuchModel"}; });
  EXPECT_NE(other.find("field \"architectures\": expected of a model with a text_config, one of "
                       "Qwen3_5ForConditionalGeneration, Qwen3_5MoeForConditionalGeneration, "),
            std::string::npos)
      << other;
  EXPECT_NE(other.find(", found NoSuchModel"), std::string::npos) << other;
  EXPECT_NE(Whole("mistral3-whole")
                .problem_after([](Json& json) { json["text_config"]["model_type"] = "no_such_model"; })
                .find("field \"model_type\": expected one of llama, mistral, "),
            std::string::npos);
  const std::string none = Whole().problem_after([](Json& json) { json.erase("architectures"); });
  EXPECT_NE(none.find("found none"), std::string::npos) << none;
}

}  // namespace
}  // namespace tern::models
