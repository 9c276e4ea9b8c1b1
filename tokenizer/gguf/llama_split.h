// llama.cpp's cuts of a text before byte-pair encoding, by the expressions of its table (text/gguf_pre.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/pre_tokenizer.h"

namespace tern::tokenizer {

// Runs of digits in groups of three from the right; what precedes a run stays with its first group.
inline constexpr std::string_view kDigitGroups = "digit groups";
// The same for ASCII digits alone, cut from what precedes them where their number is a multiple of three.
inline constexpr std::string_view kAsciiDigitGroups = "ASCII digit groups";

// `pattern` isolates its matches. As in llama.cpp, an expression with \p{..} sees each character outside ASCII as its
// category alone (all letters are upper and lower case at once), any other sees the characters themselves; \s, \d and
// \w are ASCII's, and white space beyond it is a vertical tab. Beside the categories there are \p{LU} and \p{LL}, all
// letters but a-z, or A-Z, and \p{Han}. Throws Failure naming `where` if it does not compile.
[[nodiscard]] std::unique_ptr<PreTokenizer> make_llama_split(std::string_view pattern, const std::string& where);

// Isolates what BERT's words are cut at: punctuation, ASCII symbols, Chinese characters.
[[nodiscard]] std::unique_ptr<PreTokenizer> make_llama_bert_split();

}  // namespace tern::tokenizer
