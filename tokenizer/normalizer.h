// The normalizers of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"

namespace tern::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Rewrites every split that is not an added token.
  virtual void apply(AlignedText& text) const = 0;
  // True where the outcome depends on alignments, so that they must be tracked even if no offsets are asked for.
  [[nodiscard]] virtual bool needs_alignment() const { return false; }
};

using Normalizers = std::vector<std::unique_ptr<Normalizer>>;  // applied in order

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

// The characters that BERT sets apart as Chinese.
[[nodiscard]] bool is_bert_chinese(char32_t c);
[[nodiscard]] std::unique_ptr<Normalizer> make_bert_normalizer(const BertOptions& options);
[[nodiscard]] std::unique_ptr<Normalizer> make_strip(bool left, bool right);
[[nodiscard]] std::unique_ptr<Normalizer> make_strip_accents();
[[nodiscard]] std::unique_ptr<Normalizer> make_form(NormalForm form);
[[nodiscard]] std::unique_ptr<Normalizer> make_lowercase();
// llama.cpp's: one code point for one.
[[nodiscard]] std::unique_ptr<Normalizer> make_llama_lowercase();
// And what it does to a text before WordPiece.
[[nodiscard]] std::unique_ptr<Normalizer> make_llama_bert_normalizer(bool lowercase, bool strip_accents);
[[nodiscard]] std::unique_ptr<Normalizer> make_nmt();
// `charsmap`: sentencepiece's double-array trie and its table of replacements. Throws Failure where it is damaged.
// Applied cluster by cluster, as tokenizer.json has it; sentencepiece's own way is in spm_normalizer.h.
[[nodiscard]] std::unique_ptr<Normalizer> make_precompiled(std::string_view charsmap, const std::string& where);
[[nodiscard]] std::unique_ptr<Normalizer> make_replace(std::string_view pattern, bool literal, std::string content,
                                                       const std::string& where);
[[nodiscard]] std::unique_ptr<Normalizer> make_prepend(std::string prefix);
[[nodiscard]] std::unique_ptr<Normalizer> make_byte_level_normalizer();

// `text` alone through all of them.
[[nodiscard]] std::string normalize(const Normalizers& normalizers, std::string_view text);

}  // namespace tern::tokenizer
