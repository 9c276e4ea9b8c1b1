// Tiny models whose weights lie in blocks: what isn't expanded gives the numbers of what is.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "golden.h"
#include "tests/support/temp_dir.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using Scratch = test::TempDir;

constexpr double kLogits = 1e-4;     // absolute
constexpr double kFirstStep = 1e-5;  // relative

// Quantised experts are computed as they are stored, and give what their expanded twin gives: logits, and the gradients
// of an adapter below them.
class QuantisedExperts : public testing::TestWithParam<const char*> {};
TEST_P(QuantisedExperts, StayAsStored) {
  const auto folder = fixture("qwen3-moe-tied");
  const Numbers numbers(folder / "golden.safetensors");
  const Scratch scratch;
  const auto quantised = write_gguf(folder, GetParam(), scratch);
  const auto expanded = write_gguf(quantised, "f32", scratch);
  const auto run = [&](const fs::path& path, bool stays) {
    auto model = load(path);
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string weight = cat("model.layers.1.mlp.experts.", name, ".weight");
      EXPECT_EQ(is_quantised(model.store->at(weight).desc), stays) << weight;
    }
    EXPECT_FALSE(is_quantised(model.store->at("model.layers.1.mlp.gate.weight").desc))
        << "a router keeps its precision";
    const auto tokens = numbers.ints("tokens");
    std::pair<std::vector<float>, Gradients> result;
    result.first = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32);
    const auto adapter = models::load_adapter(model, "lora", folder / "adapter").value();
    StepOptions options;
    options.graph.adapters = adapter.layers;
    for (const auto& [module, layer] : adapter.layers) {
      options.graph.trainable.push_back(layer.lora_a);
      options.graph.trainable.push_back(layer.lora_b);
    }
    result.second = step_gradients(model, samples(numbers), options);
    return result;
  };
  const auto [logits, gradients] = run(quantised, true);
  const auto [wanted_logits, wanted] = run(expanded, false);
  EXPECT_LE(max_difference(logits, wanted_logits), kLogits);
  EXPECT_LE(worst_error(gradients, wanted), kFirstStep);
}
INSTANTIATE_TEST_SUITE_P(Types, QuantisedExperts, testing::Values("q8_0", "q4_1", "q4_0"),
                         [](const auto& tested) { return std::string(tested.param); });

// gpt-oss as it is published. Broken if its experts were expanded, or a half of them took the other's blocks.
TEST(Mxfp4, HasTheLogitsOfWhatTransformersExpands) {
  const auto folder = fixture("gpt-oss-mxfp4");
  const Numbers numbers(folder / "whole.safetensors");
  auto model = load(folder);
  EXPECT_TRUE(model.notes.empty());
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    const auto& desc = model.store->at(cat("model.layers.1.mlp.experts.", name, ".weight")).desc;
    EXPECT_EQ(desc.scheme.packing, TERN_PACK_GGUF_MXFP4) << name;
  }
  const auto want = numbers.floats("logits");
  auto tokens = numbers.ints("tokens");
  tokens.resize(want.size() / static_cast<std::size_t>(model.config.vocab_size));
  const auto got = prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32);
  EXPECT_LE(max_difference(got, want), kLogits);
}

// Columns of a GGUF's heads change places as whole blocks.
TEST(TiledHeads, AreComputedAsStored) {
  const auto folder = fixture("qwen3.5-untied");
  const Numbers numbers(folder / "golden.safetensors");
  const Scratch scratch;
  const auto quantised = write_gguf(folder, "q8_0", scratch);
  const auto expanded = write_gguf(quantised, "f32", scratch);
  const auto tokens = numbers.ints("tokens");
  const auto run = [&](const fs::path& path, bool stays) {
    auto model = load(path);
    EXPECT_EQ(is_quantised(model.store->at("model.layers.0.linear_attn.out_proj.weight").desc), stays);
    return prefill_logits(model, tokens, all_rows(tokens.size()), TERN_F32);
  };
  EXPECT_LE(max_difference(run(quantised, true), run(expanded, false)), kLogits);
}

}  // namespace
}  // namespace tern::golden
