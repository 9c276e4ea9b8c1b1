// A byte-level BPE written out by hand: what tokenizer.json's parts do, seen on a vocabulary small enough to read.
#include <gtest/gtest.h>

#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {
namespace {

constexpr std::string_view kTiny = R"({"version": "1.0",
 "added_tokens": [{"id": 9, "content": "<s>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}],
 "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
   "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}},
 "decoder": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5, "Ġa": 6, "Ã": 7, "©": 8},
   "merges": ["a b", "ab c", ["Ġ", "a"]]}})";

TEST(Tokenizer, MergesByRankAndReportsOffsets) {
  const auto tokenizer = Tokenizer::from_json(kTiny, "tiny");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().line();
  const Encoding encoding = tokenizer->encode_with_offsets("abcb a\xC3\xA9<s>", true);
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{9, 4, 1, 6, 7, 8, 9}));
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> offsets{{0, 0}, {0, 3}, {3, 4}, {4, 6},
                                                                     {6, 7}, {6, 7}, {7, 10}};
  EXPECT_EQ(encoding.offsets, offsets);
  EXPECT_EQ(tokenizer->decode(encoding.ids, true), "abcb a\xC3\xA9");
  EXPECT_EQ(tokenizer->decode(encoding.ids, false), "<s>abcb a\xC3\xA9<s>");
  EXPECT_TRUE(tokenizer->is_special(9));
  EXPECT_EQ(tokenizer->vocab_size(), 10);
}

TEST(Tokenizer, StreamsWholeCharactersOnly) {
  const auto tokenizer = Tokenizer::from_json(kTiny, "tiny");
  ASSERT_TRUE(tokenizer.ok());
  IncrementalDecoder decoder(*tokenizer, true);
  EXPECT_EQ(decoder.push(0), "a");
  EXPECT_EQ(decoder.push(7), "");
  EXPECT_EQ(decoder.push(8), "\xC3\xA9");
  EXPECT_EQ(decoder.push(7), "");
  EXPECT_EQ(decoder.flush(), "\xEF\xBF\xBD");
}

TEST(Tokenizer, NamesTheFieldThatIsWrong) {
  const auto bad =
      Tokenizer::from_json(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}})", "f.json");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::data);
  EXPECT_NE(bad.error().line().find("f.json: field \"model\": merge 0"), std::string::npos) << bad.error().line();
  const auto dropout =
      Tokenizer::from_json(R"({"model": {"type": "BPE", "dropout": 0.1, "vocab": {"a": 0}, "merges": []}})", "f.json");
  ASSERT_FALSE(dropout.ok());
  EXPECT_NE(dropout.error().line().find("model.dropout"), std::string::npos) << dropout.error().line();
}

}  // namespace
}  // namespace tern::tokenizer
