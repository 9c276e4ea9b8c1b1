// What config.json says of ModernBERT, in transformers' words and in those of
// the published files.
#include "models/modernbert.h"

#include "base/strings.h"
#include "models/rope.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

Result<ModelConfig> read(const std::function<void(io::Json&)>& change) {
  const test::TempDir folder;
  io::Json json = test::parsed_json(std::ifstream(golden("modernbert") / "config.json"));
  change(json);
  folder.write("config.json", json.dump());
  return read_config(checkpoint::CheckpointSource::open_config(folder.path()).value(), Heads::any);
}

TEST(ModernBert, ReadsThePublishedFile) {
  const auto config = read([](io::Json& json) {
    for (const char* key : {"layer_types", "rope_parameters", "dtype", "hidden_activation"}) json.erase(key);
    json["global_attn_every_n_layers"] = 2;
    json["global_rope_theta"] = 170000.0;
    json["local_rope_theta"] = 11000.0;
    json["layer_norm_eps"] = 1e-05;
    json["position_embedding_type"] = "absolute";
    json["reference_compile"] = nullptr;
    json["repad_logits_with_grad"] = false;
    json["gradient_checkpointing"] = false;
    json["max_position_embeddings"] = 7999;
  });
  ASSERT_TRUE(config.ok()) << config.error().line();
  EXPECT_EQ(config->own_field<std::vector<std::string>>("layer_types"),
            (std::vector<std::string>{kFull, kWindow, kFull, kWindow}));
  EXPECT_EQ(config->rope_theta, 170000.0);
  EXPECT_EQ(config->rope_local_theta, 11000.0);
  EXPECT_EQ(config->max_position_embeddings, 7999);
  EXPECT_EQ(config->head, ModelHead::none);
  const auto tables = modernbert_architecture().rope_tables(*config);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_NEAR(tables[0].frequencies[1], std::pow(170000.0, -0.25), 1e-12);
  EXPECT_NEAR(tables[1].frequencies[1], std::pow(11000.0, -0.25), 1e-12);
}

TEST(ModernBert, OtherWaysOfComputingAreRefusedByName) {
  const auto refuses = [](const char* key, const io::Json& value, const char* expected) {
    const auto config = read([&](io::Json& json) { json[key] = value; });
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().line().find(cat("field \"", key, "\": expected ", expected)), std::string::npos)
        << config.error().line();
  };
  refuses("classifier_pooling", "max", R"("cls" or "mean")");
  refuses("hidden_activation", "silu", R"("gelu", "gelu_new" or)");
  refuses("classifier_activation", "relu", R"("gelu", "gelu_new" or)");
  refuses("layer_types", {"full_attention"}, "full_attention or sliding_attention for each of 4 layers");
  refuses("local_attention", 0, "a size");
  refuses("num_attention_heads", 3, "a divisor of hidden_size, 32");
}

TEST(ModernBert, ClassesAreReadByTheEncoder) {
  for (const auto& [name, head] :
       {std::pair{"ModernBertModel", ModelHead::none}, std::pair{"ModernBertForMaskedLM", ModelHead::none},
        std::pair{"ModernBertForSequenceClassification", ModelHead::classification}}) {
    const ModelClass found = find_class(name);
    ASSERT_NE(found.architecture, nullptr) << name;
    EXPECT_EQ(found.architecture->name, "ModernBertModel");
    EXPECT_EQ(found.head, head);
  }
}

}  // namespace
}  // namespace tern::models
