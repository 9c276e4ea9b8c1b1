// Ids of GGUF vocabularies equal to llama.cpp's, for each kind and each pre-tokenizer that it knows:
// script/golden.d/gguf_tokenizers.py asked it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "checkpoint/gguf.h"
#include "tests/support/temp_dir.h"
#include "tok_corpus.h"
#include "tok_files.h"
#include "tokenizer/gguf/pre.h"
#include "tokenizer/gguf/tokenizer_gguf.h"

namespace tern::tokenizer {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(TERN_TEST_DATA) / "tokenizers/gguf";

struct Case {
  std::string title;
  std::vector<std::string> lines;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    std::istringstream lines(read_packed(kFolder / "llama.golden"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("case ")) {
        out.push_back({line.substr(5), {}});
      } else {
        out.back().lines.push_back(line);
      }
    }
    return out;
  }();
  return all;
}

// A vocabulary file, read once.
const GgufVocabulary& vocabulary(const std::string& name) {
  static std::map<std::string, GgufVocabulary> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const std::string bytes = read_packed(kFolder / (name + ".gguf.zst"));
  const test::TempDir scratch;
  GgufVocabulary read =
      read_gguf_vocabulary(checkpoint::Gguf::open(scratch.write("vocabulary.gguf", bytes)).value()).value();
  return known.emplace(name, std::move(read)).first->second;
}

GgufVocabulary changed(const std::string& title) {
  std::istringstream words(title);
  std::string word;
  words >> word;
  GgufVocabulary out = vocabulary(word);
  const std::map<std::string, std::optional<bool>*> flags = {
      {"add_bos", &out.add_bos},
      {"add_eos", &out.add_eos},
      {"add_space_prefix", &out.add_space_prefix},
      {"remove_extra_whitespaces", &out.remove_extra_whitespaces},
      {"lowercase", &out.lowercase},
      {"strip_accents", &out.strip_accents}};
  const std::map<std::string, std::string*> texts = {
      {"pre", &out.pre}, {"model", &out.model}, {"name", &out.name}, {"architecture", &out.architecture}};
  while (words >> word) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (flags.contains(key)) {
      *flags.at(key) = value == "1";
    } else if (texts.contains(key)) {
      *texts.at(key) = value;
    } else if (key == "ids") {
      out.bos_id = out.eos_id = std::nullopt;
    } else if (key == "merges") {
      out.merges.clear();
    } else if (key == "charsmap") {
      out.precompiled_charsmap.clear();
    } else {
      ADD_FAILURE() << "no such change: " << word;
    }
  }
  return out;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

// "1,2,3", or "-" for none.
std::set<std::uint64_t> numbers(const std::string& words) {
  std::set<std::uint64_t> out;
  std::istringstream in(words);
  for (std::string word; words != "-" && std::getline(in, word, ',');) out.insert(std::stoull(word));
  return out;
}

class LlamaIds : public testing::TestWithParam<std::size_t> {};

TEST_P(LlamaIds, AreLlamaCpps) {
  const Case& one = cases()[GetParam()];
  const auto made = Tokenizer::from_gguf(changed(one.title));
  ASSERT_TRUE(made.ok()) << made.error().line();
  std::size_t blocks = 0;
  for (const std::string& line : one.lines) {
    std::istringstream words(line);
    std::string kind, first, expected;
    words >> kind >> first;
    if (kind == "text") {
      int flags = 0;
      words >> flags >> expected;
      const std::string text = from_hex(first);
      EXPECT_EQ(joined(made->encode(text, (flags & 1) != 0, (flags & 2) != 0)), expected) << one.title << ": " << text;
      continue;
    }
    std::string refused;
    words >> expected >> refused;
    const std::set<std::uint64_t> left_out = numbers(refused);
    ++blocks;
    const std::uint64_t begin = std::stoull(first) * 1000;
    IdDigest digest;
    for (std::uint64_t n = begin; n < begin + 1000; ++n) {
      if (left_out.contains(n - begin)) continue;
      const std::string text = corpus::string(n);
      for (const int flags : {0, 1, 2, 3}) digest.add(made->encode(text, (flags & 1) != 0, (flags & 2) != 0));
    }
    EXPECT_EQ(digest.hex(), expected) << one.title << ": strings from " << begin;
  }
  EXPECT_GE(blocks, 1U);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, LlamaIds, testing::Range(std::size_t{0}, cases().size()), [](const auto& info) {
  std::string name = cases()[info.param].title;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return cat(info.param, "_", name);
});

// Broken if a name is added to the table without asking llama.cpp, or dropped from it.
TEST(LlamaPreTokenizers, AreAllCompared) {
  std::set<std::string> compared;
  for (const Case& one : cases()) {
    std::istringstream words(one.title);
    for (std::string word; words >> word;) {
      if (word.starts_with("pre=")) compared.insert(word.substr(4));
    }
  }
  std::set<std::string> known;
  for (const std::string_view name : gguf_pre_names()) {
    if (!name.empty()) known.emplace(name);
  }
  EXPECT_EQ(known, compared);
}

// Broken bytes are U+FFFD each, as llama.cpp reads them for byte-pair vocabularies.
TEST(LlamaIdsOfBrokenText, AreThoseOfReplacementCharacters) {
  const auto made = Tokenizer::from_gguf(changed("bytes pre=llama-bpe"));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->encode("a\xE2\x82z\xFF", false), made->encode("a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD", false));
}

}  // namespace
}  // namespace tern::tokenizer
