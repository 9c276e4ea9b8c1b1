// Ids of sentencepiece models equal to those of the library itself: script/golden.d/sentencepiece_models.py made the
// models and the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

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

}  // namespace
}  // namespace tern::tokenizer
