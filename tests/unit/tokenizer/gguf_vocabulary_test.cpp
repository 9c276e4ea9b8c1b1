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
