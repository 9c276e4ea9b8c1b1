#include "engine/token_bytes.h"

#include <algorithm>
#include <array>

#include "tokenizer/token_decoder.h"

namespace tern::engine {

namespace {

// A token after which others decode as they do in a text's middle: some decoders treat the first one apart.
tokenizer::TokenId anchor_of(const tokenizer::Tokenizer& tokenizer) {
  for (const char* text : {"a", "x", "0", "the"}) {
    const auto ids = tokenizer.encode(text, false, false);
    if (!ids.empty() && !tokenizer.is_special(ids.back())) return ids.back();
  }
  return -1;
}

}  // namespace

std::vector<std::string> token_bytes(const tokenizer::Tokenizer& tokenizer, std::int64_t vocab_size) {
  std::vector<std::string> bytes(static_cast<std::size_t>(vocab_size));
  const tokenizer::TokenId anchor = anchor_of(tokenizer);
  std::vector<tokenizer::TokenId> ids;
  if (anchor >= 0) ids.push_back(anchor);
  const std::string before = tokenizer.decode(ids, false);
  const auto known = std::min<std::int64_t>(vocab_size, tokenizer.vocab_size());
  for (tokenizer::TokenId id = 0; id < known; ++id) {
    const std::string_view piece = tokenizer.id_to_piece(id);
    if (piece.empty() || tokenizer.is_special(id)) continue;
    std::string& own = bytes[static_cast<std::size_t>(id)];
    ids.push_back(id);
    const std::string text = tokenizer.decode(ids, false);
    ids.pop_back();
    if (text.starts_with(before)) own = text.substr(before.size());
    if (own.find("\xEF\xBF\xBD") == std::string::npos) continue;
    // Bytes that are no text by themselves: the token's spelling has them.
    const int byte = tokenizer::fallback_byte(piece);
    own = byte >= 0 ? std::string(1, static_cast<char>(byte)) : tokenizer::byte_level_bytes({std::string(piece)});
  }
  return bytes;
}

}  // namespace tern::engine
