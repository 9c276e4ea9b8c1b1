// If these fail, the engine makes caches of another shape than the layers write.
#include <map>

#include "models/registry.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

TEST(CacheSpecs, AreOneALayerInTheModelsOwnShape) {
  for (const char* name : {"llama-untied", "mistral"}) {
    const ScratchModel model(name);
    const ModelConfig config = read_config(*model.open()).value();
    const bool window = name == std::string("mistral");
    const auto specs = find_architecture(config.architecture)->cache_specs(config);
    ASSERT_EQ(specs.size(), static_cast<std::size_t>(config.num_hidden_layers)) << name;
    EXPECT_EQ(specs[1].module, "model.layers.1.self_attn");
    for (const auto& spec : specs) {
      EXPECT_STREQ(nn::cache_kind_name(spec.kind), window ? "window" : "full");
      EXPECT_EQ(spec.kv_heads, config.num_key_value_heads);
      EXPECT_EQ(spec.key_dim, config.head_dim);
      EXPECT_EQ(spec.value_dim, config.head_dim);
      EXPECT_EQ(spec.window, window ? 37 : 0);
    }
  }
}

// A cache as large as the layer reads, in each of layers that are not alike.
TEST(CacheSpecs, FollowTheWindowsOfTheirLayers) {
  const std::map<std::string, std::vector<std::int64_t>> windows = {{"qwen2-untied", {0, 37}},
                                                                    {"gemma2-tied", {11, 0, 11, 0}},
                                                                    {"gemma2-untied", {0, 37, 37, 0}},
                                                                    {"gemma3-tied", {11, 11, 11, 11, 11, 0, 11}}};
  for (const auto& [name, want] : windows) {
    const ModelConfig config = read_config(*ScratchModel(name).open()).value();
    std::vector<std::int64_t> got;
    for (const auto& spec : find_architecture(config.architecture)->cache_specs(config)) {
      EXPECT_EQ(spec.kind, spec.window > 0 ? nn::CacheKind::window : nn::CacheKind::full);
      got.push_back(spec.window);
    }
    EXPECT_EQ(got, want) << name;
  }
}

}  // namespace
}  // namespace tern::models
