// What transformers makes of whole texts: vectors by each pooling, the logits of labels, and those of a reranker's two
// words.
#include <gtest/gtest.h>

#include "engine/pooler.h"
#include "golden.h"
#include "models/registry.h"

namespace tern::golden {
namespace {

using engine::PooledOutput;
using engine::Pooling;

constexpr double kPooled = 1e-4;  // absolute, as logits

TEST(Pooled, VectorsOfEachPooling) {
  const auto folder = fixture("qwen3-embedding");
  const Numbers numbers(folder / "pooled.safetensors");
  const auto tokens = numbers.ints("tokens");
  const auto texts = texts_of(tokens, numbers.ints("lengths"));
  auto model = load_any(folder);
  EXPECT_EQ(model.config.head, models::ModelHead::none);
  for (const auto& [name, pooling] :
       {std::pair{"cls", Pooling::cls}, std::pair{"last", Pooling::last}, std::pair{"mean", Pooling::mean}}) {
    for (const std::size_t together : {std::size_t{1}, std::size_t{3}, texts.size()}) {
      EXPECT_LE(max_difference(pooled(model, texts, {pooling, PooledOutput::hidden, together}), numbers.floats(name)),
                kPooled)
          << name << ", " << together << " at once";
    }
  }
}

// Of each token, every pooling is made: the first, the last, and the mean.
TEST(Pooled, VectorsOfEachToken) {
  const auto folder = fixture("qwen3-embedding");
  const Numbers numbers(folder / "pooled.safetensors");
  const auto tokens = numbers.ints("tokens");
  const auto texts = texts_of(tokens, numbers.ints("lengths"));
  auto model = load_any(folder);
  const auto width = static_cast<std::size_t>(model.config.hidden_size);
  for (const std::size_t together : {std::size_t{1}, std::size_t{3}, texts.size()}) {
    const auto got = pooled(model, texts, {Pooling::each, PooledOutput::hidden, together});
    ASSERT_EQ(got.size(), tokens.size() * width);
    std::vector<float> first, last, mean;
    const float* row = got.data();
    for (const auto& text : texts) {
      first.insert(first.end(), row, row + width);
      std::vector<float> sum(width);
      for (std::size_t i = 0; i < text.size(); ++i, row += width) {
        for (std::size_t at = 0; at < width; ++at) sum[at] += row[at] / static_cast<float>(text.size());
      }
      last.insert(last.end(), row - width, row);
      mean.insert(mean.end(), sum.begin(), sum.end());
    }
    EXPECT_LE(max_difference(first, numbers.floats("cls")), kPooled);
    EXPECT_LE(max_difference(last, numbers.floats("last")), kPooled);
    EXPECT_LE(max_difference(mean, numbers.floats("mean")), kPooled);
  }
}

TEST(Pooled, LogitsOfLabelsOfEachToken) {
  const auto folder = fixture("qwen3-seq-cls");
  const Numbers numbers(folder / "pooled.safetensors");
  const auto tokens = numbers.ints("tokens");
  const auto texts = texts_of(tokens, numbers.ints("lengths"));
  auto model = load_any(folder);
  const auto got = pooled(model, texts, {Pooling::each, PooledOutput::labels, texts.size()});
  ASSERT_EQ(got.size(), tokens.size() * 3);
  models::PooledOutputOptions of_labels;
  of_labels.output = PooledOutput::labels;
  std::vector<float> last;
  std::ptrdiff_t begin = 0;
  for (const auto& text : texts) {
    const std::ptrdiff_t at = begin + 3 * models::pooled_row(model.config, of_labels, text);
    last.insert(last.end(), got.begin() + at, got.begin() + at + 3);
    begin += 3 * static_cast<std::ptrdiff_t>(text.size());
  }
  EXPECT_LE(max_difference(last, numbers.floats("logits")), kPooled);
}

TEST(Pooled, LogitsOfLabelsAtTheLastTokenThatIsNoPadding) {
  const auto folder = fixture("qwen3-seq-cls");
  const Numbers numbers(folder / "pooled.safetensors");
  const auto tokens = numbers.ints("tokens");
  const auto texts = texts_of(tokens, numbers.ints("lengths"));
  auto model = load_any(folder);
  EXPECT_EQ(model.config.labels, (std::vector<std::string>{"negative", "neutral", "positive"}));
  for (const std::size_t together : {std::size_t{2}, texts.size()}) {
    const auto got = pooled(model, texts, {Pooling::last, PooledOutput::labels, together});
    EXPECT_LE(max_difference(got, numbers.floats("logits")), kPooled) << together << " at once";
  }
}

// The next token's logits after texts of some lengths are rows of the logits of the whole.
TEST(Pooled, LogitsOfTheNextToken) {
  const auto folder = fixture("qwen3-tied");
  const Numbers numbers(folder / "golden.safetensors");
  const auto tokens = numbers.ints("tokens");
  auto model = load_any(folder);
  const auto all = numbers.floats("logits");
  std::vector<std::span<const std::int32_t>> texts;
  std::vector<float> want;
  for (const std::size_t length : {std::size_t{5}, std::size_t{64}, std::size_t{1}}) {
    texts.push_back(std::span(tokens).first(length));
    const auto row = std::span(all).subspan((length - 1) * static_cast<std::size_t>(model.config.vocab_size),
                                            static_cast<std::size_t>(model.config.vocab_size));
    want.insert(want.end(), row.begin(), row.end());
  }
  EXPECT_LE(max_difference(pooled(model, texts, {Pooling::last, PooledOutput::tokens, 3}), want), kPooled);
}

// A run's rows are planned: more of them have no place.
TEST(Pooled, ARunHasAtMostItsTexts) {
  auto model = load_any(fixture("qwen3-embedding"));
  session::Runtime runtime;
  engine::Pooler pooler(model, {.max_tokens = 64, .max_texts = 2}, runtime);
  const std::vector<std::int32_t> text = {5, 6, 7};
  const std::vector<std::span<const std::int32_t>> texts(3, std::span(text));
  EXPECT_EQ(pooler.run(std::span(texts).first(2)).size(), 2U);
  EXPECT_THROW((void)pooler.run(texts), std::logic_error);
}

// A language model's head is no part of these, so whoever asks for one is told.
TEST(Pooled, OtherHeadsAreNoLanguageModels) {
  for (const auto& [name, found] :
       {std::pair{"qwen3-embedding", "one without a head"}, std::pair{"qwen3-seq-cls", "a classification"}}) {
    const auto source = checkpoint::CheckpointSource::open(fixture(name)).value();
    const auto config = models::read_config(source);
    ASSERT_FALSE(config.ok());
    EXPECT_NE(config.error().line().find(found), std::string::npos) << config.error().line();
  }
}

}  // namespace
}  // namespace tern::golden
