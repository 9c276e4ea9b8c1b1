#include "tokenizer/fim_tokens.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace tern::tokenizer {
namespace {

GgufVocabulary vocabulary(const std::vector<std::string>& tokens) {
  GgufVocabulary out;
  out.where = "test";
  out.model = "llama";
  out.tokens = {"<unk>", "<s>", "</s>"};
  out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
  out.scores.assign(out.tokens.size(), 0.0F);
  out.token_types.assign(out.tokens.size(), 1);
  return out;
}

std::optional<FimTokens> found(const GgufVocabulary& vocabulary) {
  return fim_tokens(Tokenizer::from_gguf(vocabulary).value());
}

TEST(FimTokens, AreKnownByTheNamesOfTheirFamilies) {
  const std::vector<std::array<std::string, 3>> families = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                                            {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                                            {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                                                            {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}};
  for (const auto& [prefix, suffix, middle] : families) {
    const auto tokens = found(vocabulary({"a", middle, suffix, prefix}));
    ASSERT_TRUE(tokens) << prefix;
    EXPECT_EQ(tokens->middle, 4);
    EXPECT_EQ(tokens->suffix, 5);
    EXPECT_EQ(tokens->prefix, 6);
    EXPECT_FALSE(tokens->separator);
  }
  const auto codestral = found(vocabulary({"[PREFIX]", "[SUFFIX]", "[MIDDLE]"}));
  ASSERT_TRUE(codestral);
  EXPECT_EQ(codestral->prefix, 3);
  EXPECT_FALSE(codestral->middle);
  EXPECT_FALSE(found(vocabulary({"<|fim_prefix|>", "<|fim_suffix|>"})));
}

TEST(FimTokens, AreThoseThatTheFileNames) {
  GgufVocabulary named = vocabulary({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "x", "<|file_sep|>"});
  EXPECT_EQ(found(named)->middle, 5);
  named.fim_ids[2] = 6;
  EXPECT_EQ(found(named)->middle, 6);
  EXPECT_EQ(found(named)->prefix, 3);
  EXPECT_EQ(found(named)->separator, 7);
  EXPECT_EQ(found(named)->ends, std::vector<TokenId>{7});
}

TEST(FimTokens, OfAFileOfTokens) {
  const auto json = [](const std::string& words) {
    return Tokenizer::from_json(cat(R"({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel",
                                        "unk_token": "u", "vocab": {"u": 0)",
                                    words, "}}}"),
                                "test")
        .value();
  };
  EXPECT_FALSE(fim_tokens(json("")));
  const auto tokens =
      fim_tokens(json(R"(, "<fim_prefix>": 1, "<fim_suffix>": 2, "<fim_middle>": 3, "<|endoftext|>": 4)"));
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->prefix, 1);
  EXPECT_EQ(tokens->ends, std::vector<TokenId>{4});
}

}  // namespace
}  // namespace tern::tokenizer
