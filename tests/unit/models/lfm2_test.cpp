// LFM2's fields: the mlp's width by its formula, and layers that a GGUF tells by their heads of keys and values.
#include "models/lfm2.h"

#include "checkpoint/convert.h"
#include "models/gguf_names.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;
using Texts = std::vector<std::string>;

std::string lfm2_problem(const char* key, const Json& value) {
  const ScratchModel model("lfm2-tied");
  model.edit("config.json", [&](Json& json) { json[key] = value; });
  const auto config = read_config(*model.open());
  return config.ok() ? "" : config.error().line();
}

TEST(Lfm2, FieldsAreAsTheModelHasThem) {
  EXPECT_NE(lfm2_problem("conv_L_cache", 1).find("field \"conv_L_cache\": expected from 2 to 64 rows, found 1"),
            std::string::npos);
  EXPECT_NE(lfm2_problem("layer_types", {"conv", "conv"})
                .find("field \"layer_types\": expected conv or full_attention for each of 3 layers"),
            std::string::npos);
  EXPECT_NE(lfm2_problem("num_key_value_heads", 3)
                .find("field \"num_key_value_heads\": expected a divisor of 4 heads, found 3"),
            std::string::npos);
  EXPECT_NE(lfm2_problem("block_ffn_dim_multiplier", 1e300)
                .find("field \"block_multiple_of\": expected what gives the mlp a width from 1 to 2^31, found 24"),
            std::string::npos)
      << lfm2_problem("block_ffn_dim_multiplier", 1e300);
  EXPECT_NE(lfm2_problem("block_use_swiglu", false).find("\"block_use_swiglu\": expected true"), std::string::npos);
}

// As the published files have it.
TEST(Lfm2, ReadsOlderKeys) {
  const ScratchModel model("lfm2-tied");
  const ModelConfig before = config_of(model);
  EXPECT_EQ(before.intermediate_size, 48);  // 2/3 of 48, times 1.25, up to a multiple of 24
  model.edit("config.json", [](Json& json) {
    json.erase("layer_types"), json.erase("tie_word_embeddings");
    json["full_attn_idxs"] = {1};
    json["tie_embedding"] = true;
    json["block_ff_dim"] = json["intermediate_size"];
    json.erase("intermediate_size");
    json["conv_dim"] = 32, json["block_use_swiglu"] = true, json["num_heads"] = 4;
  });
  const ModelConfig after = config_of(model);
  EXPECT_EQ(after.own_field<Texts>("layer_types"), before.own_field<Texts>("layer_types"));
  EXPECT_EQ(after.intermediate_size, before.intermediate_size);
  EXPECT_TRUE(after.tie_word_embeddings);
}

TEST(Lfm2, AGgufTellsLayersByTheirHeads) {
  const ScratchModel model("lfm2-tied");
  const test::TempDir out;
  const auto write = [&](const std::vector<std::int32_t>& heads) {
    const auto source = model.open();
    checkpoint::ConvertOptions options;
    options.outtype = "f32";
    options.replace = true;
    set_gguf_form(*source, config_of(model), "tiny", options).value();
    if (!heads.empty()) options.metadata->set("lfm2.attention.head_count_kv", heads);
    (void)checkpoint::convert_checkpoint(*source, out.path() / "m.gguf", options).value();
    return checkpoint::CheckpointSource::open(out.path() / "m.gguf").value();
  };
  const auto gguf = write({});
  EXPECT_EQ(gguf.gguf()->find("lfm2.attention.head_count_kv")->integers().value(),
            (std::vector<std::int64_t>{0, 2, 0}));
  EXPECT_EQ(gguf.gguf()->integer("lfm2.feed_forward_length").value(), 48);
  const ModelConfig config = read_config(gguf).value();
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.own_field<Texts>("layer_types"), (Texts{"conv", "full_attention", "conv"}));
  const auto other = read_config(write({1, 2, 0}));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().line().find("expected a list of numbers, one a layer, which are 0 or the same"),
            std::string::npos)
      << other.error().line();
  const auto odd = read_config(write({0, 3, 0}));
  ASSERT_FALSE(odd.ok());
  EXPECT_NE(odd.error().line().find("expected a divisor of 4 heads"), std::string::npos) << odd.error().line();
}

}  // namespace
}  // namespace tern::models
