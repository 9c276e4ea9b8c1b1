// What a GGUF says of DeepSeek's models: heads by their latent vector, and each head's keys and values apart.
#include "models/deepseek.h"

#include "checkpoint/convert.h"
#include "models/gguf_names.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

// The configuration that comes back from a GGUF whose metadata the test may spoil.
Result<ModelConfig> through_gguf(const char* name, const std::function<void(checkpoint::GgufMetadata&)>& spoil) {
  const ScratchModel model(name);
  const auto source = model.open();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";  // keys change their layout
  set_gguf_form(*source, read_config(*source).value(), "tiny", options).value();
  spoil(*options.metadata);
  (void)checkpoint::convert_checkpoint(*source, model.path() / "model.gguf", options).value();
  return read_config(checkpoint::CheckpointSource::open(model.path() / "model.gguf").value());
}

TEST(Deepseek, AGgufSaysWhatLlamaCppReads) {
  const ScratchModel model("deepseek-v3-plain");
  const auto source = model.open();
  checkpoint::ConvertOptions options;
  options.outtype = "f32";  // keys change their layout
  set_gguf_form(*source, read_config(*source).value(), "tiny", options).value();
  (void)checkpoint::convert_checkpoint(*source, model.path() / "model.gguf", options).value();
  const auto gguf = checkpoint::CheckpointSource::open(model.path() / "model.gguf").value();
  const std::pair<const char*, std::int64_t> wanted[] = {
      {"attention.head_count", 4},      {"attention.head_count_kv", 1},     {"attention.key_length", 28},
      {"attention.value_length", 20},   {"attention.key_length_mla", 24},   {"attention.value_length_mla", 12},
      {"attention.q_lora_rank", 24},    {"attention.kv_lora_rank", 20},     {"rope.dimension_count", 8},
      {"expert_gating_func", 2},        {"expert_group_count", 4},          {"expert_group_used_count", 2},
      {"leading_dense_block_count", 1}, {"expert_feed_forward_length", 24}, {"expert_shared_count", 1}};
  for (const auto& [key, value] : wanted) {
    EXPECT_EQ(gguf.gguf()->integer(cat("deepseek2.", key)).value(), value) << key;
  }
  EXPECT_FLOAT_EQ(static_cast<float>(gguf.gguf()->number("deepseek2.rope.scaling.yarn_log_multiplier").value()), 0.1F);
  EXPECT_EQ(gguf.require("blk.0.attn_k_b.weight").value()->shape, (std::vector<std::int64_t>{4, 20, 16}));
  EXPECT_EQ(gguf.require("blk.0.attn_v_b.weight").value()->shape, (std::vector<std::int64_t>{4, 12, 20}));
  const ModelConfig back = read_config(gguf).value();
  const ModelConfig before = config_of(model);
  EXPECT_EQ(back.rope_mscale, 1.0);
  EXPECT_EQ(back.rope_mscale_all_dim, 1.0);
  for (const char* key : {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    EXPECT_EQ(back.own_field<std::int64_t>(key), before.own_field<std::int64_t>(key)) << key;
  }
}

TEST(Deepseek, HowExpertsAreScoredTellsV2FromV3) {
  EXPECT_EQ(through_gguf("deepseek-v3-plain", [](auto&) {}).value().architecture, "DeepseekV3ForCausalLM");
  EXPECT_EQ(through_gguf("deepseek-v2-tied", [](auto&) {}).value().architecture, "DeepseekV2ForCausalLM");
}

TEST(Deepseek, AGgufOfOtherHeadsIsRefusedByName) {
  const auto refuses = [](const char* name, const char* key, std::uint32_t value, const char* expected) {
    const auto config = through_gguf(name, [&](auto& metadata) { metadata.set(cat("deepseek2.", key), value); });
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().line().find(cat("\"deepseek2.", key, "\": expected ", expected)), std::string::npos)
        << config.error().line();
  };
  refuses("deepseek-v3-plain", "attention.head_count_kv", 4, "1, found 4");
  refuses("deepseek-v3-plain", "attention.key_length", 24, "28, found 24");
  refuses("deepseek-v3-plain", "attention.value_length", 12, "20, found 12");
  refuses("deepseek-v2-tied", "expert_gating_func", 3, "1, the softmax, found 3");
  refuses("deepseek-v2-tied", "expert_group_count", 2, "1, found 2");
}

// llama.cpp judges groups by their best two and YaRN by one factor, so no GGUF is written that it would misread.
TEST(Deepseek, AGgufHasNoWordForTheOthers) {
  for (const char* name : {"deepseek-v2-untied", "deepseek-v3-untied", "deepseek-v3-tied"}) {
    const ScratchModel model(name);
    checkpoint::GgufMetadata metadata;
    const auto written = catching([&] {
      set_gguf_config(config_of(model), metadata);
      return Unit{};
    });
    ASSERT_FALSE(written.ok()) << name;
    EXPECT_NE(written.error().line().find("keep this model as a directory"), std::string::npos)
        << written.error().line();
  }
}

// The indexer of V3.2 is in the file, under llama.cpp's names.
TEST(Deepseek, AGgufOfV32SaysItsIndexer) {
  const auto back = through_gguf("deepseek-v32-plain", [](auto&) {});
  ASSERT_TRUE(back.ok()) << back.error().line();
  EXPECT_EQ(back->architecture, "DeepseekV32ForCausalLM");
  const ModelConfig before = config_of(ScratchModel("deepseek-v32-plain"));
  for (const char* key : {"index_topk", "index_n_heads", "index_head_dim", "q_lora_rank"})
    EXPECT_EQ(back->own_field<std::int64_t>(key), before.own_field<std::int64_t>(key)) << key;
  const auto without =
      through_gguf("deepseek-v32-plain", [](auto& metadata) { metadata.remove("deepseek32.attention.indexer.top_k"); });
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().line().find("deepseek32.attention.indexer.top_k"), std::string::npos)
      << without.error().line();
}

// Mistral 4's queries grow with each multiple of the length that its rope scaling stretches.
TEST(Mistral4, AGgufSaysHowQueriesGrow) {
  const auto back = through_gguf("mistral4-plain", [](auto&) {});
  ASSERT_TRUE(back.ok()) << back.error().line();
  EXPECT_EQ(back->architecture, "Mistral4ForCausalLM");
  EXPECT_DOUBLE_EQ(back->rope_query_growth, 0.4);
  EXPECT_EQ(back->rope_original_max_position, 64);
  const auto other = through_gguf("mistral4-plain", [](auto& metadata) {
    metadata.set("mistral4.attention.temperature_length", std::uint32_t{32});
  });
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().line().find("key \"mistral4.attention.temperature_length\": expected 64, the length that the "
                                      "rope scaling stretches, found 32"),
            std::string::npos)
      << other.error().line();
  // As llama.cpp's converter leaves it out.
  const auto still = through_gguf("mistral4-plain", [](auto& metadata) {
    metadata.remove("mistral4.attention.temperature_length");
    metadata.remove("mistral4.attention.temperature_scale");
  });
  EXPECT_EQ(still->rope_query_growth, 0.0);
}

}  // namespace
}  // namespace tern::models
