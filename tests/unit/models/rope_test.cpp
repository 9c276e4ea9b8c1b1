// Scalings of rotary frequencies that say more than a factor, and queries that grow.
#include "models/rope.h"

#include <algorithm>
#include <cmath>

#include "models/config.h"
#include "models/registry.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

using Json = io::Json;

// Longrope's divisors, and Phi-3's original context, which it says beside the scaling.
TEST(Rope, LongropeSaysADivisorForEachFrequency) {
  const ScratchModel model("phi3-long");
  const ModelConfig config = config_of(model);
  const auto plain = [](int i) { return std::pow(10000.0, -2.0 * i / 6.0); };
  const double short_factor[] = {1.0, 1.25, 3.0};
  const double long_factor[] = {1.5, 2.25, 9.0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(rope_frequencies(config)[i], plain(i) / short_factor[i]);
    EXPECT_DOUBLE_EQ(long_rope_frequencies(config)[i], plain(i) / long_factor[i]);
  }
  EXPECT_DOUBLE_EQ(rope_amplitude(config), std::sqrt(1.0 + std::log(512.0 / 4.0) / std::log(4.0)));
  const auto refused = [](const std::function<void(Json&)>& spoil) {
    const ScratchModel spoiled("phi3-long");
    spoiled.edit("config.json", [&](Json& json) { spoil(json["rope_parameters"]); });
    return read_config(*spoiled.open()).error().line();
  };
  EXPECT_NE(refused([](Json& rope) {
              rope["long_factor"] = {1.5, 2.25};
            }).find("long_factor\": expected 3 positive numbers, one a frequency, found 2 of them; "),
            std::string::npos);
  EXPECT_NE(refused([](Json& rope) {
              rope["short_factor"] = {1.5, 0.0, 2.0};
            }).find("short_factor\": expected 3 positive numbers, one a frequency, found another; "),
            std::string::npos);
  EXPECT_NE(refused([](Json& rope) { rope["short_factor"] = {1.5, "x", 2.0}; }).find("a number"), std::string::npos);
  EXPECT_NE(refused([](Json& rope) {
              rope["original_max_position_embeddings"] = 8;
            }).find("original_max_position_embeddings\": expected 4, as beside rope_parameters, found 8; "),
            std::string::npos);
  model.edit("config.json", [](Json& json) {
    json["original_max_position_embeddings"] = 1;
    json["rope_parameters"].erase("original_max_position_embeddings");
  });
  EXPECT_NE(read_config(*model.open()).error().line().find("original_max_position_embeddings - 1: expected a positive"),
            std::string::npos);
}

// As it was published: "su", and the original context beside it. Elsewhere it lies within, or is the model's own.
TEST(Rope, LongropesOriginalContextStandsInOneOfThreePlaces) {
  const ScratchModel model("phi3-long");
  model.edit("config.json", [](Json& json) {
    json["rope_parameters"].erase("original_max_position_embeddings");
    json["rope_parameters"]["rope_type"] = "su";
  });
  EXPECT_EQ(config_of(model).rope_scaling, RopeScaling::longrope);
  EXPECT_EQ(config_of(model).rope_original_max_position, 4.0);
  const ScratchModel llama("llama-untied");
  llama.edit("config.json", [](Json& json) {
    const std::vector<double> divisors(12, 2.0);
    json["rope_parameters"] = {{"rope_type", "longrope"}, {"factor", 3.0}};
    json["rope_parameters"]["long_factor"] = divisors;
    json["rope_parameters"]["short_factor"] = divisors;
  });
  EXPECT_EQ(config_of(llama).rope_original_max_position, 512.0);
  EXPECT_DOUBLE_EQ(rope_amplitude(config_of(llama)), std::sqrt(1.0 + std::log(3.0) / std::log(512.0)));
  llama.edit("config.json", [](Json& json) { json["rope_parameters"]["original_max_position_embeddings"] = 64; });
  EXPECT_EQ(config_of(llama).rope_original_max_position, 64.0);
}

// Queries grow at each multiple of the original context, which is YaRN's.
TEST(Rope, QueriesGrowWithTheirPosition) {
  const ScratchModel model("ministral3-tied");
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.rope_query_growth, 0.4);
  const auto tables = find_architecture(config.architecture)->rope_tables(config);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].frequencies, tables[0].frequencies);
  for (const std::int64_t position : {0, 31, 32, 63, 64, 511}) {
    EXPECT_DOUBLE_EQ(tables[0].amplitude_at(position), 1.0) << position;
    EXPECT_DOUBLE_EQ(tables[1].amplitude_at(position), 1.0 + 0.4 * std::log(1.0 + position / 32)) << position;
  }
  const auto refused = [](const std::function<void(Json&)>& spoil) {
    const ScratchModel spoiled("ministral3-tied");
    spoiled.edit("config.json", spoil);
    return read_config(*spoiled.open()).error().line();
  };
  EXPECT_NE(refused([](Json& json) {
              json["rope_parameters"].erase("llama_4_scaling_beta");
            }).find("\"rope_parameters.llama_4_scaling_beta\": expected a value, found none"),
            std::string::npos);
  EXPECT_NE(refused([](Json& json) {
              json["rope_parameters"]["llama_4_scaling_beta"] = -1.0;
            }).find("\"rope_parameters.llama_4_scaling_beta\": expected a number from 0 on, found -1"),
            std::string::npos);
  EXPECT_NE(refused([](Json& json) {
              json["llama_4_scaling_beta"] = 0.4;
            }).find("\"llama_4_scaling_beta\": expected only fields that Ministral3ForCausalLM has"),
            std::string::npos);
  EXPECT_NE(refused([](Json& json) {
              json["rope_parameters"]["max_position_embeddings"] = 256;
            }).find("\"rope_parameters.max_position_embeddings\": expected only what the rope_type yarn has"),
            std::string::npos);
  const ScratchModel four("mistral4-untied");
  EXPECT_EQ(config_of(four).rotary_dim, 8);
  four.edit("config.json", [](Json& json) { json["rope_parameters"]["partial_rotary_factor"] = 0.5; });
  EXPECT_NE(read_config(*four.open()).error().line().find("partial_rotary_factor\": expected 0.4, the turned features"),
            std::string::npos);
  EXPECT_NE(refused([](Json& json) { json.erase("rope_parameters"); }).find("a field \"rope_parameters\", found none"),
            std::string::npos);
  EXPECT_NE(refused([](Json& json) {
              json["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"llama_4_scaling_beta", 0.1}};
            }).find("expected yarn, whose original context the growth of queries goes by, found \"linear\""),
            std::string::npos);
}

// Whole heads turn, of which the share says how many pairs, even where others of the architecture turn a part.
TEST(Rope, ProportionalRopeLeavesSlowPairsStill) {
  const auto expect_share = [](const ScratchModel& model, std::size_t turned, double theta) {
    const auto frequencies = rope_frequencies(config_of(model));
    ASSERT_EQ(frequencies.size(), 12U);
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_DOUBLE_EQ(frequencies[i], i < turned ? std::pow(theta, -static_cast<double>(i) / 12.0) / 2.0 : 0.0) << i;
    }
  };
  expect_share(ScratchModel("llama-proportional"), 3, 1000.0);
  const ScratchModel glm("glm4-tied");
  glm.edit("config.json", [](Json& json) {
    json["rope_parameters"] = {{"rope_type", "proportional"}, {"factor", 2.0}, {"partial_rotary_factor", 0.5}};
  });
  expect_share(glm, 6, 10000.0);
  glm.edit("config.json", [](Json& json) {
    json["rope_parameters"].erase("partial_rotary_factor");
    json["partial_rotary_factor"] = 0.25;
  });
  expect_share(glm, 3, 10000.0);
}

TEST(RopeConfig, ReadsBothSpellingsOfRopeScaling) {
  const ScratchModel new_style;  // rope_parameters, as transformers 5 writes
  const ModelConfig config = read_config(*new_style.open()).value();
  EXPECT_EQ(config.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(config.rope_factor, 8.0);
  EXPECT_EQ(config.rope_original_max_position, 64);
  const ScratchModel old_style;
  old_style.edit("config.json", [](Json& json) {
    json["rope_scaling"] = json["rope_parameters"];
    json["rope_theta"] = 10000.0;
    json["rope_scaling"].erase("rope_theta");
    json.erase("rope_parameters");
  });
  const ModelConfig other = read_config(*old_style.open()).value();
  EXPECT_EQ(rope_frequencies(other), rope_frequencies(config));
}

// transformers changes frequencies of `dynamic` beyond max_position_embeddings, where tern does not go.
TEST(RopeConfig, DynamicRopeIsPlainWithinTheContext) {
  const ScratchModel model("llama-untied");
  const auto plain = rope_frequencies(config_of(model));
  model.edit("config.json", [](Json& json) {
    json["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 10000.0}, {"factor", 4.0}};
  });
  EXPECT_EQ(rope_frequencies(config_of(model)), plain);
  EXPECT_EQ(rope_amplitude(config_of(model)), 1.0);
}

// Of an architecture that turns a part of each head; others have no such field.
TEST(RopeConfig, PositionsTurnAShareOfAHead) {
  const ScratchModel model("glm4-tied");
  EXPECT_EQ(config_of(model).rotary_dim, 6);
  model.edit("config.json", [](Json& json) { json["rope_parameters"].erase("partial_rotary_factor"); });
  EXPECT_EQ(config_of(model).rotary_dim, 12);
  model.edit("config.json", [](Json& json) { json["partial_rotary_factor"] = 0.75; });
  EXPECT_EQ(config_of(model).rotary_dim, 18);
  for (const double share : {0.0, 1.5, 0.3}) {  // 0.3 of 24 are 7
    model.edit("config.json", [&](Json& json) { json["partial_rotary_factor"] = share; });
    EXPECT_NE(read_config(*model.open()).error().line().find("a share of the 24 features of a head"),
              std::string::npos);
  }
  model.edit("config.json", [](Json& json) { json.erase("partial_rotary_factor"), json["head_dim"] = 6; });
  EXPECT_NE(read_config(*model.open()).error().line().find("a share of the 6 features of a head"), std::string::npos);
  const ScratchModel llama;
  llama.edit("config.json", [](Json& json) { json["rope_parameters"]["partial_rotary_factor"] = 0.5; });
  EXPECT_NE(read_config(*llama.open()).error().line().find("only what the rope_type llama3 has"), std::string::npos);
}

// What tern writes by its table says all that the formula needs, default or not.
TEST(RopeConfig, YarnsOriginalContextSurvives) {
  const ScratchModel model("qwen3-yarn");
  model.edit("config.json", [](Json& json) {
    json["max_position_embeddings"] = 32768;
    json["rope_parameters"]["original_max_position_embeddings"] = 8192;
  });
  const ModelConfig config = config_of(model);
  ModelConfig bare = config;
  bare.json = nullptr;
  model.edit("config.json", [&](Json& json) { json = config_json(bare, "float32"); });
  EXPECT_EQ(rope_frequencies(config_of(model)), rope_frequencies(config));
  EXPECT_EQ(config_of(model).rope_original_max_position, 8192.0);
}

// Both in transformers' words.
TEST(RopeConfig, YarnsAttentionFactor) {
  EXPECT_DOUBLE_EQ(rope_amplitude(config_of(ScratchModel("qwen3-yarn"))), 0.1 * std::log(4.0) + 1.0);
  const ScratchModel model("llama-yarn");
  EXPECT_DOUBLE_EQ(rope_amplitude(config_of(model)),
                   (0.1 * 0.7 * std::log(8.0) + 1.0) / (0.1 * 0.3 * std::log(8.0) + 1.0));
  model.edit("config.json", [](Json& json) { json["rope_parameters"]["attention_factor"] = 0.9; });
  EXPECT_DOUBLE_EQ(rope_amplitude(config_of(model)), 0.9);
}

}  // namespace
}  // namespace tern::models
