// Vocabularies for GGUF files, made from the generated tokenizer.json files.
#include "tokenizer/gguf/vocabulary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "checkpoint/gguf.h"
#include "io/mapped_file.h"
#include "tests/support/temp_dir.h"
#include "tokenizer/gguf/tokenizer_gguf.h"

namespace tern::tokenizer {
namespace {

namespace fs = std::filesystem;

class GgufVocabularyTest : public ::testing::Test {
 protected:
  const fs::path& model(const std::string& name, const std::string& config = "{}") {
    fs::copy_file(fs::path(TERN_TEST_DATA) / "tokenizers" / (name + ".json"), folder_ / "tokenizer.json",
                  fs::copy_options::overwrite_existing);
    std::ofstream(folder_ / "tokenizer_config.json") << config;
    return folder_;
  }

  test::TempDir scratch_;
  const fs::path& folder_ = scratch_.path();
};

// Broken if the split is taken for another model's.
TEST_F(GgufVocabularyTest, NamesTheSplitThatModelsShare) {
  const std::vector<std::pair<std::string, std::string>> known = {
      {"bl-smollm", "smollm"}, {"bl-gpt2", "gpt-2"}, {"bl-deepseek", "deepseek-coder"}};
  for (const auto& [name, pre] : known) {
    const auto made = make_gguf_vocabulary(model(name), 0);
    ASSERT_TRUE(made.ok()) << name << ": " << made.error().line();
    EXPECT_EQ(made->pre, pre) << name;
    EXPECT_EQ(made->model, "gpt2");
  }
}

TEST_F(GgufVocabularyTest, AFileReadBackGivesTheSameIds) {
  const fs::path& folder = model("bl-smollm");
  const auto original = Tokenizer::from_directory(folder).value();
  const std::int64_t size = original.vocab_size() + 5;
  checkpoint::GgufMetadata metadata;
  metadata.set("general.architecture", "llama");
  set_gguf_vocabulary(make_gguf_vocabulary(folder, size).value(), metadata);
  const fs::path file = folder / "vocabulary.gguf";
  auto writer = checkpoint::GgufWriter::create(file, metadata, {}).value();
  ASSERT_TRUE(writer.finish().ok());
  const auto read = read_gguf_vocabulary(checkpoint::Gguf::open(file).value()).value();
  EXPECT_EQ(read.tokens.size(), static_cast<std::size_t>(size)) << "filled up to the rows of the embedding";
  EXPECT_EQ(read.token_types.back(), 5) << "unused";
  const auto made = Tokenizer::from_gguf(read).value();
  for (const char* text :
       {"", "a", "The 12 quick foxes' 345 dens.\n\n  \tAnd more  ", "\xC3\xA9t\xC3\xA9 \xF0\x9F\x98\x80"}) {
    EXPECT_EQ(made.encode(text, true), original.encode(text, true)) << text;
  }
}

// As the directories of these models join a query and a document.
TEST(GgufPairs, AreJoinedByTheKindOfVocabulary) {
  GgufVocabulary bert{.where = "f",
                      .model = "bert",
                      .tokens = {"[CLS]", "[SEP]",
                                 "\xE2\x96\x81"
                                 "a",
                                 "\xE2\x96\x81"
                                 "b"}};
  bert.token_types = {3, 3, 1, 1};
  bert.bos_id = 0;
  bert.sep_id = 1;
  const auto of_bert = Tokenizer::from_gguf(bert).value().encode_pair("a", "b");
  EXPECT_EQ(of_bert.ids, (std::vector<TokenId>{0, 2, 1, 3, 1}));
  EXPECT_EQ(of_bert.type_ids, (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
  GgufVocabulary bpe{.where = "f", .model = "gpt2", .pre = "gpt-2", .tokens = {"<s>", "</s>", "a", "b"}};
  bpe.token_types = {3, 3, 1, 1};
  bpe.merges = {"a b"};
  bpe.tokens.emplace_back("ab");
  bpe.token_types.push_back(1);
  bpe.bos_id = 0;
  bpe.eos_id = 1;
  bpe.add_bos = bpe.add_eos = true;
  const auto of_roberta = Tokenizer::from_gguf(bpe).value().encode_pair("a", "b");
  EXPECT_EQ(of_roberta.ids, (std::vector<TokenId>{0, 2, 1, 1, 3, 1}));
  EXPECT_EQ(of_roberta.type_ids, std::vector<std::int32_t>(6, 0));
  bpe.tokens[0] = "[CLS]";  // ModernBERT's
  EXPECT_EQ(Tokenizer::from_gguf(bpe).value().encode_pair("a", "b").ids, (std::vector<TokenId>{0, 2, 1, 3, 1}));
  bpe.add_eos = false;
  EXPECT_ANY_THROW((void)Tokenizer::from_gguf(bpe).value().encode_pair("a", "b")) << "a language model's";
}

TEST_F(GgufVocabularyTest, OtherKindsAreRefusedByName) {
  for (const char* name : {"bert-cased", "t5", "wl-lower-strip"}) {
    const auto made = make_gguf_vocabulary(model(name), 0);
    ASSERT_FALSE(made.ok()) << name;
    EXPECT_NE(made.error().line().find("BPE"), std::string::npos) << made.error().line();
  }
}

// The model's roles, and what its post-processor adds, become keys.
TEST_F(GgufVocabularyTest, ByteFallbackKeepsScoresBytesAndRoles) {
  const auto made =
      make_gguf_vocabulary(model("llama", R"({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})"), 0);
  ASSERT_TRUE(made.ok()) << made.error().line();
  EXPECT_EQ(made->model, "llama");
  EXPECT_TRUE(made->add_bos.value_or(false));
  EXPECT_FALSE(made->add_eos.value_or(true));
  ASSERT_TRUE(made->bos_id && made->eos_id);
  EXPECT_EQ(made->token_types[static_cast<std::size_t>(*made->bos_id)], 3);
  EXPECT_NE(std::find(made->token_types.begin(), made->token_types.end(), 6), made->token_types.end());
  EXPECT_EQ(made->scores.size(), made->tokens.size());
}

}  // namespace
}  // namespace tern::tokenizer
