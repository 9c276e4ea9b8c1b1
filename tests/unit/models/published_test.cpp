// config.json as models are published (tests/data/configs): each is read, and as transformers reads it.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <numbers>

#include "base/strings.h"
#include "models/registry.h"
#include "models/rope.h"
#include "published.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

class Published : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    rows_ = published_rows();
    ASSERT_GE(rows_.size(), 60U);
  }
  static void TearDownTestSuite() { rows_.clear(); }
  static void for_each(const std::function<void(const PublishedRow&, const ModelConfig&)>& check) {
    for (const PublishedRow& row : rows_) {
      SCOPED_TRACE(row.field().text("model", ""));
      check(row, row.config);
    }
  }

 private:
  static inline std::vector<PublishedRow> rows_;
};

TEST_F(Published, HasTheParametersThatItIsKnownFor) {
  for_each([](const PublishedRow& row, const ModelConfig& config) {
    std::int64_t body = config.num_parameters();
    if (!config.tie_word_embeddings) body -= config.vocab_size * config.hidden_size;
    EXPECT_EQ(body, row.expected().integer("parameters", 0));
    EXPECT_EQ(config.tie_word_embeddings, row.expected().boolean("tied", config.tie_word_embeddings));
  });
}

TEST_F(Published, TurnsByTheSameFrequencies) {
  for_each([](const PublishedRow& row, const ModelConfig& config) {
    const auto tables = find_architecture(config.architecture)->rope_tables(config);
    const auto sets = row.expected().at("rotary").items();
    ASSERT_GE(tables.size(), sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const std::vector<double>& made = tables[i].frequencies;
      ASSERT_EQ(made.size(), static_cast<std::size_t>(sets[i].integer("count", 0)));
      const auto expected = sets[i].at("frequencies").items();
      const double found[] = {made.front(), made[made.size() / 2], made.back()};
      for (std::size_t at = 0; at < 3; ++at)  // transformers has them in fp32
        EXPECT_NEAR(found[at], expected[at].number(), 2e-6 * std::fabs(expected[at].number())) << i << " " << at;
      EXPECT_NEAR(tables[i].amplitude, sets[i].number("amplitude", 0), 1e-9);
    }
  });
}

TEST_F(Published, SeesTheSameWindows) {
  for_each([](const PublishedRow& row, const ModelConfig& config) {
    std::int64_t windowed = 0;
    std::map<std::string, std::int64_t> windows;
    for (const auto& spec : find_architecture(config.architecture)->cache_specs(config)) {
      const std::int64_t window = spec.kind == nn::CacheKind::shared ? windows.at(spec.shares_with) : spec.window;
      windows[spec.module] = window;
      if (window == 0) continue;
      ++windowed;
      EXPECT_EQ(window, row.expected().integer("window", 0));
    }
    EXPECT_EQ(windowed, row.expected().integer("windowed", 0));
  });
}

// What is written again is as the source has it, and reads the same.
TEST_F(Published, IsWrittenAgain) {
  for_each([](const PublishedRow& /*row*/, const ModelConfig& config) {
    const test::TempDir scratch;
    const std::string written = config_json(config, "bfloat16").dump();
    scratch.write("config.json", written);
    const auto again = read_config(checkpoint::CheckpointSource::open_config(scratch.path()).value());
    ASSERT_TRUE(again.ok()) << again.error().line();
    EXPECT_EQ(again->num_parameters(), config.num_parameters());
    EXPECT_EQ(config_json(*again, "bfloat16").dump(), written);
  });
}

// What a published field must say to change nothing, and what it says elsewhere.
TEST(PublishedField, IsRefusedWhereItSaysSomethingElse) {
  const auto problem_of = [](const char* model, const char* key, const Json& value) {
    const ScratchModel scratch(model);
    scratch.edit("config.json", [&](Json& json) { json[key] = value; });
    const auto config = read_config(*scratch.open());
    return config.ok() ? "" : config.error().line();
  };
  struct Case {
    const char* model;
    const char* key;
    Json usual;
    Json other;
    const char* says;
  };
  const Case cases[] = {
      {"phi3-tied", "full_attn_mod", 1, 2, "expected 1, found 2"},
      {"phi3-tied", "interpolate_factor", 1, 4, "expected 1, found 4"},
      {"phi3-tied", "lm_head_bias", false, true, "expected false, found true"},
      {"llama-tied", "activation", "swiglu", "relu", "expected \"swiglu\", found \"relu\""},
      {"qwen2-tied", "is_causal", true, false, "expected true, found false"},
      {"qwen3-moe-tied", "qkv_bias", false, true, "expected false, found true"},
      {"qwen3-moe-tied", "use_qk_norm", true, false, "expected true, found false"},
      {"qwen3-moe-tied", "shared_expert_intermediate_size", 0, 64, "expected 0, found 64"},
      {"gemma2-tied", "sliding_window_size", 11, 4096, "expected what \"sliding_window\" says, 11"},
      {"granite-moe-tied", "position_embedding_type", "rope", "nope", "expected \"rope\", found \"nope\""},
      {"llama-tied", "quantization", nullptr, Json{{"bits", 4}}, "expected null, found {\"bits\":4}"},
      {"llama-tied", "no_such_field", nullptr, false, "only fields that LlamaForCausalLM has"}};
  for (const Case& each : cases) {
    EXPECT_EQ(problem_of(each.model, each.key, each.usual), "") << each.key;
    EXPECT_NE(problem_of(each.model, each.key, each.other).find(each.says), std::string::npos)
        << problem_of(each.model, each.key, each.other);
  }
}

// YaRN's ramp where it begins and ends at one pair, and what others note beside its numbers.
TEST(PublishedField, YarnMayBeAStepAndHaveNotes) {
  const ScratchModel model("qwen3-yarn");
  const auto frequencies = [&] { return rope_frequencies(config_of(model)); };
  const auto usual = frequencies();
  model.edit("config.json", [](Json& json) {
    json["rope_parameters"]["finetuned"] = true;
    json["rope_parameters"]["attn_factor"] = 0.87;
  });
  EXPECT_EQ(frequencies(), usual);
  model.edit("config.json", [](Json& json) {
    json["rope_parameters"]["beta_fast"] = 1.0;
    json["rope_parameters"]["beta_slow"] = 1.0;
    json["rope_parameters"]["truncate"] = false;
  });
  const auto step = frequencies();
  const ModelConfig config = config_of(model);
  for (std::size_t i = 0; i < step.size(); ++i) {
    const double whole = std::pow(config.rope_theta, -static_cast<double>(i) / static_cast<double>(step.size()));
    const bool turns = whole * config.rope_original_max_position > 2.0 * std::numbers::pi;
    EXPECT_DOUBLE_EQ(step[i], turns ? whole : whole / config.rope_factor) << i;
  }
}

}  // namespace
}  // namespace tern::models
