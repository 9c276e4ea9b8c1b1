// What Granite has beside Llama: four factors that config.json and a GGUF name differently, each with its own default.
#include "models/granite.h"

#include "scratch_model.h"

namespace tern::models {
namespace {

constexpr const char* kFactors[] = {"embedding_multiplier", "attention_multiplier", "residual_multiplier",
                                    "logits_scaling"};

TEST(Granite, AbsentFactorsAreOne) {
  const ScratchModel model("granite-tied");
  EXPECT_FLOAT_EQ(granite_architecture().head(config_of(model)).scale, 1.0F / 1.7F);
  for (const char* key : kFactors) {
    EXPECT_NE(config_of(model).own_field<double>(key), 1.0) << key;
    model.edit("config.json", [&](io::Json& json) { json.erase(key); });
    EXPECT_EQ(config_of(model).own_field<double>(key), 1.0) << key;
  }
  EXPECT_EQ(granite_architecture().head(config_of(model)).scale, 1.0F);
}

TEST(Granite, FactorsAreAboveZero) {
  for (const char* key : kFactors) {
    const ScratchModel model("granite-tied");
    model.edit("config.json", [&](io::Json& json) { json[key] = 0; });
    const auto config = read_config(*model.open());
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().line().find(std::string("field \"") + key + "\": expected a positive number, found 0"),
              std::string::npos)
        << config.error().line();
  }
}

// As llama.cpp reads a GGUF: no scale of the scores means the usual one, and that of the logits must be there.
TEST(Granite, AGgufHasDefaultsOfItsOwn) {
  const test::TempDir scratch;
  const auto write = [&](const char* left_out, bool rotated) {
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", "granite");
    const auto number = [&](const char* key, std::uint32_t value) { metadata.set(key, value); };
    number("granite.embedding_length", 64);
    number("granite.feed_forward_length", 96);
    number("granite.block_count", 2);
    number("granite.attention.head_count", 4);
    number("granite.context_length", 4096);
    metadata.set("granite.attention.layer_norm_rms_epsilon", 1e-5F);
    metadata.set("granite.embedding_scale", 12.0F);
    metadata.set("granite.residual_scale", 0.22F);
    metadata.set("granite.logit_scale", 8.0F);
    metadata.set("granite.attention.scale", 0.015625F);
    metadata.set("granite.rope.scaling.finetuned", rotated);
    metadata.remove(left_out);
    const std::vector<float> table(32 * 64, 0.5F);
    auto writer = checkpoint::GgufWriter::create(scratch.path() / "model.gguf", metadata,
                                                 {{"token_embd.weight", checkpoint::GgmlType::f32, {32, 64}}})
                      .value();
    writer.write("token_embd.weight", std::as_bytes(std::span(table))).value();
    writer.finish().value();
    return read_config(checkpoint::CheckpointSource::open(scratch.path() / "model.gguf").value());
  };
  const ModelConfig whole = write("", true).value();
  EXPECT_EQ(whole.architecture, "GraniteForCausalLM");
  EXPECT_EQ(whole.own_field<double>("embedding_multiplier"), 12.0);
  EXPECT_EQ(whole.own_field<double>("attention_multiplier"), 0.015625);
  EXPECT_EQ(whole.own_field<double>("residual_multiplier"), 0.22);
  EXPECT_EQ(whole.own_field<double>("logits_scaling"), 8.0);
  const auto without = [&](const char* key) { return write(key, true).value(); };
  EXPECT_EQ(without("granite.embedding_scale").own_field<double>("embedding_multiplier"), 1.0);
  EXPECT_EQ(without("granite.residual_scale").own_field<double>("residual_multiplier"), 1.0);
  const ModelConfig usual = without("granite.attention.scale");
  EXPECT_EQ(usual.own_field<double>("attention_multiplier"), 0.25);  // heads of 16
  EXPECT_EQ(config_json(usual, "float32")["attention_multiplier"], 0.25);
  for (const ParameterSpec& spec : granite_architecture().parameters(usual)) {  // its converter is that of Llama
    if (spec.name.ends_with("q_proj.weight") || spec.name.ends_with("k_proj.weight")) {
      EXPECT_EQ(spec.gguf.interleaved_heads, 4) << spec.name;
    }
  }
  EXPECT_NE(write("granite.logit_scale", true).error().line().find("\"granite.logit_scale\": expected a value"),
            std::string::npos);
  EXPECT_NE(write("", false).error().line().find("\"granite.rope.scaling.finetuned\": expected true"),
            std::string::npos);
}

// Published configurations have it; it changes no number but those of training.
TEST(Granite, DropoutOfAttentionIsServedButNotTrained) {
  const ScratchModel model("granite-tied");
  model.edit("config.json", [](io::Json& json) { json["attention_dropout"] = 0.1; });
  const LoadedModel loaded = load_scratch(model).value();
  for (const bool training : {false, true}) {
    graph::Graph graph;
    nn::BuildOptions build;
    build.training = training;
    nn::Context context(graph, *loaded.store, build);
    nn::TokenCapacity capacity;
    capacity.tokens = capacity.sequences = capacity.max_seqlen = 4;
    const nn::TokenInputs inputs = nn::declare_tokens(graph, capacity);
    try {
      (void)loaded.architecture->hidden_states(context, loaded.config, inputs);
      EXPECT_FALSE(training);
    } catch (const Failure& why) {
      EXPECT_TRUE(training);
      EXPECT_EQ(why.error().line(),
                "config.json: field \"attention_dropout\": expected 0 for training, found 0.1; set it to 0 to train "
                "without dropout of attention's weights");
    }
  }
  model.edit("config.json", [](io::Json& json) { json["attention_dropout"] = 1; });
  EXPECT_NE(read_config(*model.open()).error().line().find("expected a share from 0 to below 1"), std::string::npos);
}

}  // namespace
}  // namespace tern::models
