// What config.json says of BERT, RoBERTa and XLM-RoBERTa, and what of it is served.
#include "models/bert.h"

#include "base/strings.h"
#include "checkpoint/gguf_writer.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

// A tiny encoder's config.json, changed.
Result<ModelConfig> read(
    const char* name, const std::function<void(io::Json&)>& change = [](io::Json&) {}) {
  const test::TempDir folder;
  io::Json json = test::parsed_json(std::ifstream(golden(name) / "config.json"));
  change(json);
  folder.write("config.json", json.dump());
  return read_config(checkpoint::CheckpointSource::open_config(folder.path()).value(), Heads::any);
}

TEST(Bert, PositionsOfRobertasKindBeginBehindThePadding) {
  EXPECT_EQ(read("bert")->max_position_embeddings, 320);
  const ModelConfig config = read("xlm-roberta").value();
  EXPECT_EQ(config.max_position_embeddings, 318);
  const auto positions =
      xlm_roberta_architecture().encoder->positions(config, std::vector<std::int32_t>{0, 9, 1, 7, 2});
  EXPECT_EQ(positions, (std::vector<std::int32_t>{2, 3, 1, 4, 5}));
  EXPECT_EQ(bert_architecture().encoder->positions, nullptr);
}

// As transformers before 5 and the authors wrote them.
TEST(Bert, ReadsPublishedFiles) {
  const auto config = read("bert", [](io::Json& json) {
    json["position_embedding_type"] = "absolute";
    json["gradient_checkpointing"] = false;
    json["output_past"] = true;
    json["directionality"] = "bidi";
    json["pooler_fc_size"] = 768;
    json["pooler_type"] = "first_token_transform";
    json["classifier_dropout"] = nullptr;
    json.erase("is_decoder");
    json.erase("layer_norm_eps");
  });
  ASSERT_TRUE(config.ok()) << config.error().line();
  EXPECT_EQ(config->rms_norm_eps, 1e-12);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(read("bert", [](io::Json& json) { json.erase("architectures"); })->head, ModelHead::none);
}

TEST(Bert, OtherWaysOfComputingAreRefusedByName) {
  const auto refuses = [](const char* model, const char* key, const io::Json& value, const char* expected) {
    const auto config = read(model, [&](io::Json& json) { json[key] = value; });
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().line().find(cat("field \"", key, "\": expected ", expected)), std::string::npos)
        << config.error().line();
  };
  refuses("bert", "is_decoder", true, "false");
  refuses("bert", "add_cross_attention", true, "false");
  refuses("bert", "position_embedding_type", "relative_key", "\"absolute\"");
  refuses("bert", "hidden_act", "relu", R"("gelu", "gelu_new" or "gelu_pytorch_tanh")");
  refuses("bert", "num_attention_heads", 5, "a divisor of hidden_size, 32");
  refuses("bert", "num_attention_heads", 0, "a size");
  refuses("xlm-roberta", "max_position_embeddings", 2, "more than pad_token_id + 1, 2");
  refuses("xlm-roberta", "max_position_embeddings", 0, "a size");
  refuses("xlm-roberta", "pad_token_id", -1, "a number from 0");
}

// A GGUF says apart how long a text may be, and has the table of positions.
TEST(Bert, ATextIsNoLongerThanTheTableOfPositions) {
  const test::TempDir folder;
  const auto read_with = [&](std::uint32_t context) {
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", "bert");
    metadata.set("bert.context_length", context);
    for (const auto& [key, value] :
         {std::pair{"bert.embedding_length", 32U}, std::pair{"bert.feed_forward_length", 48U},
          std::pair{"bert.block_count", 2U}, std::pair{"bert.attention.head_count", 4U}})
      metadata.set(key, value);
    const std::vector<float> table(32 * 16, 0.5F);
    const auto path = folder / "model.gguf";
    auto writer = checkpoint::GgufWriter::create(path, metadata,
                                                 {{"token_embd.weight", checkpoint::GgmlType::f32, {16, 32}},
                                                  {"position_embd.weight", checkpoint::GgmlType::f32, {16, 32}}})
                      .value();
    for (const char* name : {"token_embd.weight", "position_embd.weight"})
      writer.write(name, std::as_bytes(std::span(table))).value();
    writer.finish().value();
    return read_config(checkpoint::CheckpointSource::open(path).value(), Heads::any);
  };
  const auto config = read_with(12);
  ASSERT_TRUE(config.ok()) << config.error().line();
  EXPECT_EQ(config->max_position_embeddings, 12);
  EXPECT_EQ(config->head, ModelHead::none);
  const auto longer = read_with(17);
  ASSERT_FALSE(longer.ok());
  EXPECT_NE(longer.error().line().find("expected at most the 16 positions that it has"), std::string::npos)
      << longer.error().line();
}

TEST(Bert, ClassesAreReadByTheirEncoder) {
  const auto head_of = [](const char* name) -> std::optional<ModelHead> {
    const ModelClass found = find_class(name);
    if (found.architecture == nullptr) return std::nullopt;
    EXPECT_TRUE(found.architecture->encoder) << name;
    return found.head;
  };
  for (const char* family : {"Bert", "Roberta", "XLMRoberta"}) {
    EXPECT_EQ(head_of(cat(family, "Model").c_str()), ModelHead::none);
    EXPECT_EQ(head_of(cat(family, "ForMaskedLM").c_str()), ModelHead::none);
    EXPECT_EQ(head_of(cat(family, "ForSequenceClassification").c_str()), ModelHead::classification);
    EXPECT_FALSE(head_of(cat(family, "ForTokenClassification").c_str()));
  }
  for (const char* other : {"XLMRobertaForCausalLM", "LlamaForMaskedLM", "BertForPreTraining"})
    EXPECT_EQ(find_class(other).architecture, nullptr) << other;
}

}  // namespace
}  // namespace tern::models
