// The normalizer of sentencepiece models: character map, extra white space, the dummy prefix, "▁" for spaces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/unigram.h"

namespace tern::tokenizer {

struct SpmNormalizerOptions {
  std::string_view charsmap;         // may be empty
  std::vector<std::string> symbols;  // user-defined: taken over as they are
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool whitespace_as_suffix = false;  // the dummy goes after the text
  bool llama = false;                 // llama.cpp's version of it: see Llama in the source
};

// Throws Failure naming `where` if the map is damaged.
[[nodiscard]] std::unique_ptr<Normalizer> make_spm_normalizer(const SpmNormalizerOptions& options,
                                                              const std::string& where);

// The longest of some strings that a text begins with.
class SymbolMatcher {
 public:
  explicit SymbolMatcher(const std::vector<std::string>& symbols);
  [[nodiscard]] std::size_t match(std::string_view text) const;  // its length; 0: none

 private:
  PrefixTrie trie_;
  bool empty_;
};

}  // namespace tern::tokenizer
