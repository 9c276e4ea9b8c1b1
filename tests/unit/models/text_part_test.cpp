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
  Whole() {
    for (const char* part : {"config.json", "model.safetensors"})
      std::filesystem::copy(golden("qwen3.5-whole") / part, scratch_.path() / part);
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
TEST(TextPart, TakesEndsAndTiedEmbeddingsOfTheWhole) {
  const Whole whole;
  EXPECT_EQ(whole.problem_after([](Json& json) {
    json["text_config"].erase("eos_token_id"), json["text_config"].erase("tie_word_embeddings");
    json["eos_token_id"] = 7, json["tie_word_embeddings"] = true;
  }),
            "");
  const ModelConfig config = read_config(*whole.open()).value();
  EXPECT_EQ(config.eos_token_ids, std::vector<std::int64_t>{7});
  EXPECT_TRUE(config.tie_word_embeddings);
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
                       "Qwen3_5ForConditionalGeneration, Qwen3_5MoeForConditionalGeneration, found NoSuchModel"),
            std::string::npos)
      << other;
  const std::string none = Whole().problem_after([](Json& json) { json.erase("architectures"); });
  EXPECT_NE(none.find("found none"), std::string::npos) << none;
}

}  // namespace
}  // namespace tern::models
