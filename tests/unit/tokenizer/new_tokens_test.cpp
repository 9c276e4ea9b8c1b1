// Special tokens that a tokenizer gets beside its own: ids as transformers gives them, and the files that hold them.
#include <gtest/gtest.h>

#include "io/json.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/tokenizer/tok_files.h"
#include "tokenizer/gguf/tokenizer_gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace tern::tokenizer {
namespace {

namespace fs = std::filesystem;
using io::Json;

const fs::path kData = TERN_TEST_DATA;

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> out;
  for (const Json& each : list) out.push_back(each.text());
  return out;
}

void expect_ids(const Tokenizer& tokenizer, const Json& of, const Json& texts) {
  EXPECT_EQ(tokenizer.vocab_size(), of["size"].get<int>());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<TokenId> want;
    for (const Json& id : of["ids"][i]) want.push_back(id.get<TokenId>());
    EXPECT_EQ(tokenizer.encode(texts[i].text(), false), want) << texts[i].text();
  }
}

TEST(NewTokens, HaveTheIdsOfTransformersAndStandInTheFiles) {
  const Json golden = io::read_json_file(kData / "golden/new-tokens.json").value();
  for (const Json& of : golden["cases"]) {
    SCOPED_TRACE(of["name"].text());
    const test::TempDir scratch;
    const auto tokens = texts_of(of["tokens"]);
    scratch.write("model/tokenizer.json", read_packed(kData / "tokenizers" / (of["name"].text() + ".json")));
    scratch.write("model/tokenizer_config.json",
                  R"({"additional_special_tokens":["<old>"],"added_tokens_decoder":{"0":{"content":"<old>"}}})");
    const fs::path model = scratch / "model", written = scratch / "written";
    fs::create_directory(written);
    const auto tokenizer = Tokenizer::from_directory(model, tokens).value();
    expect_ids(tokenizer, of, golden["texts"]);
    for (const std::string& token : tokens) EXPECT_TRUE(tokenizer.is_special(tokenizer.piece_to_id(token).value()));
    write_tokenizer_files(model, written, tokens).value();
    expect_ids(Tokenizer::from_directory(written).value(), of, golden["texts"]);
    const Json config = io::read_json_file(written / "tokenizer_config.json").value();
    auto listed = tokens;
    listed.insert(listed.begin(), "<old>");
    EXPECT_EQ(texts_of(config["additional_special_tokens"]), listed);
    EXPECT_TRUE(config["added_tokens_decoder"].contains(std::to_string(tokenizer.piece_to_id(tokens[0]).value())));
    // What has them already gets them once.
    expect_ids(Tokenizer::from_directory(written, tokens).value(), of, golden["texts"]);
  }
}

TEST(NewTokens, NeedATokenizerJson) {
  const test::TempDir scratch;
  scratch.write("model/tokenizer.model", read_packed(kData / "tokenizers/sentencepiece/uni-bytes.model.zst"));
  const auto made = Tokenizer::from_directory(scratch / "model", {"<new>"});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().line().find("which can get new special tokens"), std::string::npos) << made.error().line();
}

TEST(NewTokens, StandBehindTheVocabularyOfAGguf) {
  GgufVocabulary vocabulary;
  vocabulary.tokens = {"a", "b", "<old>"};
  vocabulary.scores = {1, 2, 3};
  add_special_tokens(vocabulary, {"<new>", "b", "<old>"});
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b", "<old>", "<new>"}));
  EXPECT_EQ(vocabulary.token_types, (std::vector<std::int32_t>{1, 3, 3, 3}));
  EXPECT_EQ(vocabulary.scores.size(), 4U);
}

}  // namespace
}  // namespace tern::tokenizer
