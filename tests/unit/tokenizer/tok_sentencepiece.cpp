// Ids of sentencepiece models equal to those of the library itself: script/golden.d/sentencepiece_models.py made the
// models and the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/temp_dir.h"
#include "tok_corpus.h"
#include "tok_files.h"
#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {
namespace {

const std::filesystem::path kModels = std::filesystem::path(TERN_TEST_DATA) / "tokenizers/sentencepiece";

class SentencePieceIds : public testing::TestWithParam<std::string> {};

TEST_P(SentencePieceIds, EqualTheLibrarys) {
  const auto made = Tokenizer::from_sentencepiece(read_packed(kModels / (GetParam() + ".model.zst")), GetParam());
  ASSERT_TRUE(made.ok()) << made.error().line();
  std::istringstream lines(read_packed(kModels / (GetParam() + ".golden")));
  std::uint64_t blocks = 0;
  for (std::string kind, expected; lines >> kind;) {
    std::uint64_t number = 0;
    lines >> number >> expected;
    if (kind == "full") {
      EXPECT_EQ(joined(made->encode(corpus::string(number), false, false)), expected) << "string " << number;
      continue;
    }
    ++blocks;
    IdDigest digest;
    for (std::uint64_t n = number * 1000; n < (number + 1) * 1000; ++n) {
      digest.add(made->encode(corpus::string(n), false, false));
    }
    EXPECT_EQ(digest.hex(), expected) << "strings from " << number * 1000;
  }
  EXPECT_EQ(blocks, 20U);
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceIds, testing::ValuesIn(stems(kModels, ".golden")), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// XLM-RoBERTa's file alone: fairseq counts its pieces otherwise than sentencepiece, and texts stand between <s> and
// </s>.
TEST(SentencePieceFairseq, IdsComeOneLater) {
  const std::string bytes = read_packed(kModels / "uni-nmt.model.zst");
  const Tokenizer plain = Tokenizer::from_sentencepiece(bytes, "uni-nmt").value();
  const test::TempDir folder;
  folder.write("sentencepiece.bpe.model", bytes);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  const Tokenizer made = Tokenizer::from_directory(folder.path()).value();
  EXPECT_EQ(made.vocab_size(), plain.vocab_size() + 2);
  EXPECT_EQ(made.piece_to_id("<mask>"), plain.vocab_size() + 1);
  const auto later = [](std::vector<TokenId> ids) {
    for (TokenId& id : ids) id = id == 0 ? 3 : id + 1;  // <unk>; no text has <s> or </s>
    return ids;
  };
  const auto wrapped = [](std::vector<TokenId> ids) {
    ids.insert(ids.begin(), 0);
    ids.push_back(2);
    return ids;
  };
  int unknown = 0;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const std::string text = corpus::string(n);
    if (text.find('<') != std::string::npos) continue;  // what could be a special token, of which there are others
    const auto ids = plain.encode(text, false);
    unknown += static_cast<int>(std::count(ids.begin(), ids.end(), 0));
    EXPECT_EQ(made.encode(text, true), wrapped(later(ids))) << n;
  }
  EXPECT_GT(unknown, 100);
  const auto a = later(plain.encode("the fox", false));
  const auto b = later(plain.encode("a dog", false));
  auto joined = wrapped(a);
  joined.push_back(2);
  joined.insert(joined.end(), b.begin(), b.end());
  joined.push_back(2);
  EXPECT_EQ(made.encode_pair("the fox", "a dog").ids, joined);
  EXPECT_EQ(made.encode("the <mask>", false).back(), made.piece_to_id("<mask>"));
  // Without the class nothing says how its pieces are counted; a file of another kind is refused.
  folder.write("tokenizer_config.json", "{}");
  EXPECT_NE(Tokenizer::from_directory(folder.path()).error().line().find("found neither"), std::string::npos);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizerFast"})");
  folder.write("sentencepiece.bpe.model", std::string("\n\4\n\2ab", 6));
  const std::string line = Tokenizer::from_directory(folder.path()).error().line();
  EXPECT_NE(line.find("expected <unk>, <s> and </s> as the first three pieces"), std::string::npos) << line;
}

}  // namespace
}  // namespace tern::tokenizer
