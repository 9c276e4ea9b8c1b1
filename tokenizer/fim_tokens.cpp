#include "tokenizer/fim_tokens.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"

namespace tern::tokenizer {
namespace {

// A GGUF may name the token; where several names are in the vocabulary, it's the one with the lowest id.
std::optional<TokenId> find(const Tokenizer& tokenizer, std::size_t which) {
  for (const auto& [key, value] : tokenizer.config().extra) {
    TokenId id = 0;
    if (key == cat(kFimKey, which) &&
        std::from_chars(value.data(), value.data() + value.size(), id).ec == std::errc()) {
      return id;
    }
  }
  std::optional<TokenId> lowest;
  for (const std::string_view name : fim_names()[which]) {
    const auto id = tokenizer.piece_to_id(name);
    if (id && (!lowest || *id < *lowest)) lowest = id;
  }
  return lowest;
}

}  // namespace

const FimNames& fim_names() {
  static const FimNames names = {{{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>",
                                   "▁<PRE>", "<|code_prefix|>", "<|prefix|>"},
                                  {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>",
                                   "▁<SUF>", "<|code_suffix|>", "<|suffix|>"},
                                  {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
                                   "<|code_middle|>", "<|middle|>"},
                                  {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
                                  {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
                                  {"<|file_sep|>"}}};
  return names;
}

std::optional<FimTokens> fim_tokens(const Tokenizer& tokenizer) {
  FimTokens out;
  auto prefix = find(tokenizer, 0), suffix = find(tokenizer, 1);
  out.middle = find(tokenizer, 2);
  if (!prefix || !suffix || !out.middle) {  // Codestral's, which has no token for the middle
    prefix = tokenizer.piece_to_id("[PREFIX]");
    suffix = tokenizer.piece_to_id("[SUFFIX]");
    out.middle.reset();
    if (!prefix || !suffix) return std::nullopt;
  }
  out.prefix = *prefix;
  out.suffix = *suffix;
  out.repository = find(tokenizer, 4);
  out.separator = find(tokenizer, 5);
  for (const auto& end : {find(tokenizer, 3), out.repository, out.separator}) {
    if (end) out.ends.push_back(*end);
  }
  for (const char* name : {"<EOT>", "▁<EOT>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"}) {
    if (const auto id = tokenizer.piece_to_id(name)) out.ends.push_back(*id);
  }
  return out;
}

}  // namespace tern::tokenizer
