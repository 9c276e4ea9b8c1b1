// A long text is merged in parts: the tokens are those of merging it as a whole, lowest rank first, leftmost first.
#include <gtest/gtest.h>

#include <random>

#include "tokenizer/bpe.h"

namespace tern::tokenizer {
namespace {

struct Trained {
  std::vector<std::pair<std::string, TokenId>> vocabulary;
  BpeModel::Merges merges;
};

// Merges of random neighbours, as a trainer would make them; some vocabularies are sparse and cut often, others never.
Trained random_merges(std::mt19937& random, int letters, int merges) {
  Trained out;
  std::vector<std::string> pieces;
  for (int i = 0; i < letters; ++i) pieces.emplace_back(1, static_cast<char>('a' + i));
  while (static_cast<int>(out.merges.size()) < merges) {
    const std::string left = pieces[random() % pieces.size()];
    const std::string right = pieces[random() % pieces.size()];
    const bool known = std::find(out.merges.begin(), out.merges.end(), std::pair{left, right}) != out.merges.end();
    if (known || left.size() + right.size() > 6) continue;
    out.merges.emplace_back(left, right);
    if (std::find(pieces.begin(), pieces.end(), left + right) == pieces.end()) pieces.push_back(left + right);
  }
  // A merge of what only a later one makes: its first symbols are not known when it is read.
  if (random() % 4 == 0) std::swap(out.merges[0], out.merges[out.merges.size() - 1]);
  for (const std::string& piece : pieces)
    out.vocabulary.emplace_back(piece, static_cast<TokenId>(out.vocabulary.size()));
  return out;
}

std::vector<std::string> merged_as_a_whole(const std::string& text, const BpeModel::Merges& merges) {
  std::vector<std::string> tokens;
  for (const char c : text) tokens.emplace_back(1, c);
  while (true) {
    std::size_t best = merges.size();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = std::find(merges.begin(), merges.end(), std::pair{tokens[i], tokens[i + 1]});
      const auto rank = static_cast<std::size_t>(found - merges.begin());
      if (rank < best) {
        best = rank;
        at = i;
      }
    }
    if (best == merges.size()) return tokens;
    tokens[at] += tokens[at + 1];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BpeParts, AreTheWhole) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 120; ++trial) {
    const int letters = 3 + static_cast<int>(random() % 8);
    const Trained trained = random_merges(random, letters, 4 + static_cast<int>(random() % 30));
    const BpeModel model(trained.vocabulary, trained.merges, {}, "vocabulary");
    std::string text;
    for (int i = 0; i < 160; ++i) text += static_cast<char>('a' + random() % static_cast<unsigned>(letters));
    Workspace work;
    std::vector<Token> tokens;
    model.tokenize(text, work, tokens);
    std::vector<std::string> found;
    for (const Token& token : tokens) found.push_back(text.substr(token.begin, token.end - token.begin));
    ASSERT_EQ(found, merged_as_a_whole(text, trained.merges)) << text;
    for (const Token& token : tokens) {
      EXPECT_EQ(trained.vocabulary[static_cast<std::size_t>(token.id)].first,
                text.substr(token.begin, token.end - token.begin));
    }
  }
}

}  // namespace
}  // namespace tern::tokenizer
