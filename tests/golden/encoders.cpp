// Encoders: what transformers makes of whole texts and of pairs of them.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/llm.h"
#include "golden.h"
#include "models/registry.h"
#include "tests/support/parsed_json.h"
#include "tests/support/temp_dir.h"

namespace tern::golden {
namespace {

using engine::PooledOutput;
using engine::Pooling;

constexpr double kPooled = 1e-4;  // absolute, as logits
constexpr std::uint32_t kInvariant = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;

struct Encoded {
  explicit Encoded(const char* name) : numbers(fixture(name) / "pooled.safetensors"), model(load_any(fixture(name))) {}
  Numbers numbers;
  models::LoadedModel model;
  std::vector<std::int32_t> tokens = numbers.ints("tokens");
  Texts texts = texts_of(tokens, numbers.ints("lengths"));
};

class EncoderVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(EncoderVectors, OfEachPooling) {
  Encoded made(GetParam());
  EXPECT_EQ(made.model.config.head, models::ModelHead::none);
  for (const auto& [name, pooling] :
       {std::pair{"cls", Pooling::cls}, std::pair{"last", Pooling::last}, std::pair{"mean", Pooling::mean}}) {
    const auto want = made.numbers.floats(name);
    for (const std::size_t together : {std::size_t{1}, std::size_t{3}, made.texts.size()}) {
      const auto got = pooled(made.model, made.texts, {pooling, PooledOutput::hidden, together});
      EXPECT_LE(max_difference(got, want), kPooled) << name << ", " << together << " at once";
    }
  }
}

TEST_P(EncoderVectors, AreTheSameToTheBitAloneAndAmongOthers) {
  Encoded made(GetParam());
  for (const Pooling pooling : {Pooling::cls, Pooling::mean}) {
    const auto alone = pooled(made.model, made.texts, {pooling, PooledOutput::hidden, 1, kInvariant});
    const auto together =
        pooled(made.model, made.texts, {pooling, PooledOutput::hidden, made.texts.size(), kInvariant});
    EXPECT_EQ(alone, together);
  }
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderVectors, ::testing::Values("xlm-roberta", "bert", "modernbert"));

class EncoderLabels : public ::testing::TestWithParam<const char*> {};

TEST_P(EncoderLabels, HaveTheLogitsOfTheirHead) {
  Encoded made(GetParam());
  const Pooling pooling = made.model.architecture->encoder->label_pooling(made.model.config);
  const auto want = made.numbers.floats("logits");
  for (const std::size_t together : {std::size_t{2}, made.texts.size()}) {
    const auto got = pooled(made.model, made.texts, {pooling, PooledOutput::labels, together});
    EXPECT_LE(max_difference(got, want), kPooled) << together << " at once";
  }
  EXPECT_EQ(pooled(made.model, made.texts, {pooling, PooledOutput::labels, 1, kInvariant}),
            pooled(made.model, made.texts, {pooling, PooledOutput::labels, made.texts.size(), kInvariant}));
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderLabels,
                         ::testing::Values("roberta-seq-cls", "xlm-roberta-reranker", "bert-reranker",
                                           "modernbert-seq-cls", "modernbert-reranker"));

class EncoderReranks : public ::testing::TestWithParam<const char*> {};

TEST_P(EncoderReranks, PairsAsTheirTokenizerJoinsThem) {
  const auto folder = fixture(GetParam());
  const auto rows = test::parsed_json(std::ifstream(folder / "pairs.json"));
  session::SessionOptions options;
  options.model = folder.string();
  options.runtime.backend_file = TERN_CPU_PLUGIN;
  options.heads = models::Heads::any;
  const auto session = session::open_session(options).value();
  engine::LLMOptions together;
  together.engine.max_num_seqs = 3;
  const auto llm = engine::LLM::open(*session, together).value();
  std::vector<engine::RerankPair> pairs;
  for (const auto& row : rows) {
    pairs.push_back({std::string(row["query"].text()), std::string(row["document"].text())});
    const auto joined = session->text->tokenizer.encode_pair(pairs.back().query, pairs.back().document);
    EXPECT_EQ(io::Json(joined.ids), row["ids"]);
    EXPECT_EQ(io::Json(joined.type_ids), row["types"]);
  }
  const auto scores = llm->rerank(pairs);
  ASSERT_EQ(scores.size(), pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_FALSE(scores[i].error) << scores[i].error->line();
    EXPECT_NEAR(scores[i].values.at(0), rows[i]["score"].get<double>(), 1e-5) << pairs[i].query;
  }
  pairs.front().instruction = "Find foxes";
  const auto told = llm->rerank(std::span(pairs).first(1));
  ASSERT_TRUE(told.front().error);
  EXPECT_NE(told.front().error->line().find("leave the system message out"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderReranks,
                         ::testing::Values("xlm-roberta-reranker", "bert-reranker", "modernbert-reranker"));

// A GGUF as llama.cpp's converter makes it.
TEST(Encoders, AreReadFromAGguf) {
  const Numbers numbers(fixture("bert") / "pooled.safetensors");
  auto model = load_any(fixture("bert") / "model.gguf");
  EXPECT_EQ(model.config.max_position_embeddings, 320);
  EXPECT_EQ(session::read_pooling_config(*model.source)->pooling, Pooling::cls);
  const auto tokens = numbers.ints("tokens");
  const auto texts = texts_of(tokens, numbers.ints("lengths"));
  const auto got = pooled(model, texts, {Pooling::mean, PooledOutput::hidden, texts.size()});
  EXPECT_LE(max_difference(got, numbers.floats("mean")), kPooled);
  const auto config = models::read_config(*model.source);
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().line().find("key \"general.architecture\": expected a language model, found an encoder"),
            std::string::npos)
      << config.error().line();
}

// What a tokenizer of another model would ask of it.
TEST(Encoders, HaveNoMoreTypesThanTheirModel) {
  const test::TempDir folder;
  std::filesystem::copy(fixture("bert-reranker"), folder.path(), std::filesystem::copy_options::recursive);
  std::string json = folder.read("tokenizer.json");
  const std::string second = R"("id":"B","type_id":1)";
  json.replace(json.find(second), second.size(), R"("id":"B","type_id":2)");
  folder.write("tokenizer.json", json);
  session::SessionOptions options;
  options.model = folder.path().string();
  options.runtime.backend_file = TERN_CPU_PLUGIN;
  options.heads = models::Heads::any;
  const auto session = session::open_session(options).value();
  const auto llm = engine::LLM::open(*session, {}).value();
  const engine::RerankPair pair{"a", "b"};
  const auto found = llm->rerank(std::span(&pair, 1)).front();
  ASSERT_TRUE(found.error);
  EXPECT_NE(found.error->line().find("expected 0 to 1, as the model has, found 2"), std::string::npos)
      << found.error->line();
}

// Whoever wants a language model is told what an encoder is for.
TEST(Encoders, AreNoLanguageModels) {
  const auto config = models::read_config(checkpoint::CheckpointSource::open(fixture("xlm-roberta")).value());
  ASSERT_FALSE(config.ok());
  EXPECT_NE(
      config.error().line().find("expected a language model, found an encoder, XLMRobertaModel; it answers in tern "
                                 "infer and tern deploy with --task_type embedding, reranker or seq_cls alone"),
      std::string::npos)
      << config.error().line();
}

// The head of a masked language model is left out, with a line.
TEST(Encoders, OtherHeadsAreLeftOut) {
  const auto says = [](const char* name, const char* what) {
    const auto model = load_any(fixture(name));
    return std::any_of(model.notes.begin(), model.notes.end(),
                       [&](const std::string& note) { return note.find(what) != std::string::npos; });
  };
  EXPECT_TRUE(says("xlm-roberta", "the checkpoint's lm_head is left out"));
  EXPECT_TRUE(says("bert", "the checkpoint's pooler is left out"));
  EXPECT_FALSE(says("bert-reranker", "left out"));
}

}  // namespace
}  // namespace tern::golden
