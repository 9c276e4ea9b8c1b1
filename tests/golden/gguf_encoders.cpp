// Encoders, models of embeddings and rerankers in GGUFs that llama.cpp's converter wrote: the numbers of their
// directories.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "engine/llm.h"
#include "golden.h"
#include "models/registry.h"
#include "tests/support/parsed_json.h"

namespace tern::golden {
namespace {

using engine::PooledOutput;
using engine::Pooling;

constexpr double kPooled = 1e-4;  // absolute, as logits

std::filesystem::path gguf(const std::string& name) { return fixture("gguf") / (name + ".gguf"); }

// A text with padding in its midst counts its place in a GGUF, where transformers' RoBERTa does not (encoders.py).
std::vector<std::size_t> comparable(const std::string& name, const Texts& texts) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool is_padded = std::find(texts[i].begin(), texts[i].end(), 1) != texts[i].end();
    if (!is_padded || name.find("roberta") == std::string::npos) out.push_back(i);
  }
  return out;
}

struct Case {
  const char* name;
  Pooling pooling;
  const char* numbers;  // of pooled.safetensors
};

class GgufEncoders : public ::testing::TestWithParam<Case> {};

TEST_P(GgufEncoders, GiveWhatTheirDirectoriesGive) {
  const auto& [name, pooling, key] = GetParam();
  const Numbers numbers(fixture(name) / "pooled.safetensors");
  auto model = load_any(gguf(name));
  const bool has_labels = std::string_view(key) == "logits";
  EXPECT_EQ(model.config.head == models::ModelHead::classification, has_labels);
  if (has_labels) {
    EXPECT_EQ(model.architecture->encoder->label_pooling(model.config), pooling);
  } else {
    EXPECT_EQ(session::read_pooling_config(*model.source)->pooling, pooling);
  }
  const auto tokens = numbers.ints("tokens");
  const auto texts = texts_of(tokens, numbers.ints("lengths"));
  const auto want = numbers.floats(key);
  const auto got = pooled(model, texts, {pooling, has_labels ? PooledOutput::labels : PooledOutput::hidden, 3});
  ASSERT_EQ(got.size(), want.size());
  const std::size_t width = want.size() / texts.size();
  const auto compared = comparable(name, texts);
  EXPECT_GE(compared.size(), 4U);
  for (const std::size_t i : compared) {
    EXPECT_LE(max_difference(std::span(got).subspan(i * width, width), std::span(want).subspan(i * width, width)),
              kPooled)
        << "text " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GgufEncoders,
                         ::testing::Values(Case{"xlm-roberta", Pooling::cls, "cls"},
                                           Case{"modernbert", Pooling::mean, "mean"},
                                           Case{"qwen3-embedding", Pooling::last, "last"},
                                           Case{"xlm-roberta-reranker", Pooling::cls, "logits"},
                                           Case{"modernbert-reranker", Pooling::cls, "logits"},
                                           Case{"roberta-seq-cls", Pooling::cls, "logits"}),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase(name, '-');
                           return name;
                         });

std::unique_ptr<session::Session> open(const std::string& name) {
  session::SessionOptions options;
  options.model = gguf(name).string();
  options.runtime.backend_file = TERN_CPU_PLUGIN;
  options.dtype = TERN_F32;
  options.heads = models::Heads::any;
  return session::open_session(options).value();
}

// Pairs of texts, joined as the directory's tokenizer joins them. (Their scores are of the ids: the tiny tokenizer
// begins texts with the model's padding, which has another place in a directory.)
TEST(GgufRerankers, JoinPairsAsRobertaDoes) {
  const auto session = open("xlm-roberta-reranker");
  EXPECT_EQ(session->model.config.labels, std::vector<std::string>{"relevant"});
  const auto llm = engine::LLM::open(*session, {}).value();
  const auto rows = test::parsed_json(std::ifstream(fixture("xlm-roberta-reranker") / "pairs.json"));
  for (const auto& row : rows) {
    const engine::RerankPair pair{std::string(row["query"].text()), std::string(row["document"].text())};
    const auto ids = session->text->tokenizer.encode_pair(pair.query, pair.document).ids;
    EXPECT_EQ(io::Json(ids), row["ids"]) << pair.query;
    const auto logit = pooled(session->model, texts_of(ids, {static_cast<std::int32_t>(ids.size())}),
                              {Pooling::cls, PooledOutput::labels, 1});
    const auto found = llm->rerank(std::span(&pair, 1)).front();
    ASSERT_FALSE(found.error) << found.error->line();
    EXPECT_NEAR(found.values.at(0), 1.0 / (1.0 + std::exp(-static_cast<double>(logit.at(0)))), 1e-5) << pair.query;
  }
}

// llama.cpp keeps the rows of "yes" and "no" of Qwen3-Reranker's head, and nothing else of it.
TEST(GgufRerankers, ReadQwen3sVerdicts) {
  const Numbers numbers(fixture("qwen3-tied") / "golden.safetensors");
  auto model = load_any(gguf("qwen3-reranker"));
  EXPECT_EQ(model.config.labels, (std::vector<std::string>{"yes", "no"}));
  const auto tokens = numbers.ints("tokens");
  const Texts texts = {tokens};
  const auto got = pooled(model, texts, {Pooling::last, PooledOutput::labels, 1});
  const auto logits = numbers.floats("logits");
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const std::span<const float> last = std::span(logits).subspan((tokens.size() - 1) * vocab, vocab);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_NEAR(got[0], last[45], kPooled);
  EXPECT_NEAR(got[1], last[110], kPooled);
  EXPECT_EQ(session::read_pooling_config(*model.source)->pooling, std::nullopt);
  const auto as_words = models::read_config(*model.source);
  ASSERT_FALSE(as_words.ok());
  EXPECT_NE(as_words.error().line().find("expected a language model, found a classification"), std::string::npos);
}

// What the converter leaves out is not guessed.
TEST(GgufRerankers, RefuseBertsWithoutItsDenseLayer) {
  const auto source = checkpoint::CheckpointSource::open(gguf("bert-reranker")).value();
  const auto config = models::read_config(source, models::Heads::any);
  ASSERT_FALSE(config.ok());
  EXPECT_NE(
      config.error().line().find("tensor cls.weight: expected the layer below the labels, found none: llama.cpp's "
                                 "converter leaves BERT's out"),
      std::string::npos)
      << config.error().line();
}

}  // namespace
}  // namespace tern::golden
