// What sentence-transformers' files say of pooling, in the forms that its releases wrote.
#include "session/pooling_config.h"

#include <gtest/gtest.h>

#include "checkpoint/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::session {
namespace {

constexpr const char* kModules =
    R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},)"
    R"( {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},)"
    R"( {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
constexpr const char* kLast =
    R"({"word_embedding_dimension": 1024, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false,)"
    R"( "pooling_mode_max_tokens": false, "pooling_mode_lasttoken": true, "include_prompt": true})";

class PoolingConfigs : public ::testing::Test {
 protected:
  PoolingConfigs() { e2e::write_tiny_model(scratch_.path()); }
  [[nodiscard]] Result<PoolingConfig> of(const std::filesystem::path& model) const {
    return read_pooling_config(checkpoint::CheckpointSource::open(model).value());
  }
  [[nodiscard]] Result<PoolingConfig> read(const std::string& modules, const std::string& pooling) const {
    std::filesystem::create_directories(scratch_ / "1_Pooling");
    (void)scratch_.write("modules.json", modules);
    (void)scratch_.write("1_Pooling/config.json", pooling);
    return of(scratch_.path());
  }
  void expect_problem(const std::string& modules, const std::string& pooling, const char* part) const {
    const auto config = read(modules, pooling);
    ASSERT_FALSE(config.ok()) << part;
    EXPECT_NE(config.error().line().find(part), std::string::npos) << config.error().line();
  }
  test::TempDir scratch_;
};

TEST_F(PoolingConfigs, NothingIsSaidWithoutModules) {
  const PoolingConfig none = of(scratch_.path()).value();
  EXPECT_FALSE(none.pooling || none.normalize);
}

TEST_F(PoolingConfigs, OfSwitchesAndOfAName) {
  EXPECT_EQ(read(kModules, kLast).value().pooling, Pooling::last);
  EXPECT_EQ(read(kModules, kLast).value().normalize, true);
  EXPECT_EQ(read(kModules, R"({"pooling_mode_mean_tokens": true})").value().pooling, Pooling::mean);
  EXPECT_EQ(read(kModules, R"({"pooling_mode_cls_token": true})").value().pooling, Pooling::cls);
  EXPECT_EQ(read(kModules, R"({"embedding_dimension": 8, "pooling_mode": "mean"})").value().pooling, Pooling::mean);
}

TEST_F(PoolingConfigs, WithoutNormalizeAVectorKeepsItsLength) {
  const auto config =
      read(R"([{"type": "sentence_transformers.sentence_transformer.modules.Pooling", "path": "1_Pooling"}])", kLast);
  EXPECT_EQ(config.value().normalize, false);
  EXPECT_EQ(config.value().pooling, Pooling::last);
}

TEST_F(PoolingConfigs, TextsStandBehindTheDefaultPrompt) {
  const auto prompt = [&](const char* json) {
    (void)scratch_.write("config_sentence_transformers.json", json);
    const auto config = read(kModules, kLast);
    return config.ok() ? config->prompt : config.error().line();
  };
  EXPECT_EQ(prompt(R"({"prompts": {"query": "q: "}, "default_prompt_name": null})"), "");
  EXPECT_EQ(prompt(R"({"prompts": {"query": "q: "}, "default_prompt_name": "query"})"), "q: ");
  EXPECT_NE(
      prompt(R"({"prompts": {"query": "q: "}, "default_prompt_name": "other"})").find("expected a field \"other\""),
      std::string::npos);
  scratch_.remove("config_sentence_transformers.json");
  (void)scratch_.write("sentence_bert_config.json", R"({"max_seq_length": 512, "do_lower_case": false})");
  EXPECT_TRUE(read(kModules, kLast).ok());
  (void)scratch_.write("sentence_bert_config.json", R"({"do_lower_case": true})");
  expect_problem(kModules, kLast, "field \"do_lower_case\": expected false: texts are read as they are");
  scratch_.remove("sentence_bert_config.json");
}

TEST_F(PoolingConfigs, OfAGguf) {
  const auto said = [&](std::uint32_t type) {
    checkpoint::GgufMetadata metadata;
    metadata.set("general.architecture", "qwen3");
    metadata.set("qwen3.pooling_type", type);
    const std::vector<float> table(32 * 64, 0.5F);
    auto writer = checkpoint::GgufWriter::create(scratch_ / "model.gguf", metadata,
                                                 {{"token_embd.weight", checkpoint::GgmlType::f32, {32, 64}}})
                      .value();
    writer.write("token_embd.weight", std::as_bytes(std::span(table))).value();
    writer.finish().value();
    return of(scratch_ / "model.gguf");
  };
  EXPECT_EQ(said(3).value().pooling, Pooling::last);
  EXPECT_EQ(said(1).value().pooling, Pooling::mean);
  EXPECT_EQ(said(2).value().pooling, Pooling::cls);
  EXPECT_FALSE(said(0).value().pooling || said(0).value().normalize);
  EXPECT_FALSE(said(4).value().pooling) << "of a reranker";
  ASSERT_FALSE(said(5).ok());
  EXPECT_NE(said(5).error().line().find("qwen3.pooling_type"), std::string::npos) << said(5).error().line();
}

TEST_F(PoolingConfigs, WhatIsNotComputedHereIsRefused) {
  expect_problem(kModules, R"({"pooling_mode_max_tokens": true})", "expected one of cls, lasttoken, mean");
  expect_problem(kModules, R"({"pooling_mode": "weightedmean"})", "expected one of cls, lasttoken, mean");
  expect_problem(kModules, R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})",
                 "one pooling, not several");
  expect_problem(kModules, R"({"pooling_mode_cls_token": false})", "expected a pooling mode, found none");
  expect_problem(R"([{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])", kLast,
                 "expected Transformer, Pooling or Normalize");
}

}  // namespace
}  // namespace tern::session
