// The pre-tokenizers of tokenizer.json: each cuts the splits of a text further; some rewrite it on the way.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/regex.h"
#include "tokenizer/split_scanner.h"

namespace tern::tokenizer {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(AlignedText& text) const = 0;
  // True where apply() may change characters, not only cut.
  [[nodiscard]] virtual bool rewrites() const { return false; }
};

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;  // applied in order

// What becomes of a delimiter that was found.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

enum class PrependScheme { first, never, always };

// A character test by CharFlag mask, or a single character.
struct CharTest {
  std::uint16_t flags = 0;
  char32_t character = 0xFFFFFFFF;
};

[[nodiscard]] std::unique_ptr<PreTokenizer> make_char_split(CharTest test, SplitBehavior behavior);
// `pattern` in Oniguruma's syntax, or a literal. A grammar that split_scanner.h knows is scanned by hand.
[[nodiscard]] std::unique_ptr<PreTokenizer> make_regex_split(std::string_view pattern, bool literal,
                                                             SplitBehavior behavior, bool invert,
                                                             const std::string& where);
[[nodiscard]] std::unique_ptr<PreTokenizer> make_grammar_split(const SplitGrammar& grammar);
[[nodiscard]] std::unique_ptr<PreTokenizer> make_words_and_symbols();  // Whitespace: \w+|[^\w\s]+
[[nodiscard]] std::unique_ptr<PreTokenizer> make_unicode_scripts();
[[nodiscard]] std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t characters);
[[nodiscard]] std::unique_ptr<PreTokenizer> make_metaspace(char32_t replacement, PrependScheme scheme, bool split);
// `map_bytes` false leaves the bytes as they are, for a model that maps them itself.
[[nodiscard]] std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool map_bytes);

// The printable character that stands for a byte in byte-level vocabularies, and back (-1: none).
[[nodiscard]] char32_t byte_to_char(unsigned char byte);
[[nodiscard]] int char_to_byte(char32_t c);

}  // namespace tern::tokenizer
