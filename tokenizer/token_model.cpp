#include "tokenizer/token_model.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::tokenizer {

WordCache::WordCache() : entries_(kSlots) {}

void WordCache::put(std::string_view word, std::uint64_t hash, const Token* tokens, std::size_t count) {
  if (word.empty() || word.size() > kLongest) return;
  if (used_ * 2 >= kSlots || tokens_.size() + count > kMostTokens) {
    entries_.assign(kSlots, Entry{});
    keys_.clear();
    tokens_.clear();
    used_ = 0;
  }
  std::size_t i = hash & kMask;
  while (entries_[i].key_size != 0) i = (i + 1) & kMask;
  entries_[i] = {hash, static_cast<std::uint32_t>(keys_.size()), static_cast<std::uint32_t>(word.size()),
                 static_cast<std::uint32_t>(tokens_.size()), static_cast<std::uint32_t>(count)};
  keys_.insert(keys_.end(), word.begin(), word.end());
  tokens_.insert(tokens_.end(), tokens, tokens + count);
  ++used_;
}

bool TokenModel::has_id(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < present_.size() && present_[static_cast<std::size_t>(id)];
}

std::string TokenModel::value(std::string_view, const Token& token) const {
  return pieces_[static_cast<std::size_t>(token.id)];
}

void TokenModel::set_vocabulary(Vocabulary vocabulary) {
  std::size_t bytes = 0;
  TokenId largest = -1;
  for (const auto& [piece, id] : vocabulary) {
    // Ids index arrays here and embedding rows elsewhere; a sparse vocabulary larger than this is a damaged file.
    if (id < 0 || static_cast<std::size_t>(id) > vocabulary.size() * 16 + 65536) {
      throw Failure(data_error("vocabulary", "token ids from 0 without large gaps",
                               cat("id ", id, " of ", vocabulary.size(), " tokens"),
                               "fetch the file again, or correct it"));
    }
    bytes += piece.size();
    largest = std::max(largest, id);
  }
  table_.reserve(vocabulary.size(), bytes);
  pieces_.resize(static_cast<std::size_t>(largest + 1));
  present_.resize(pieces_.size());
  for (auto& [piece, id] : vocabulary) {
    table_.insert(piece, id);
    present_[static_cast<std::size_t>(id)] = true;
    pieces_[static_cast<std::size_t>(id)] = std::move(piece);
  }
}

}  // namespace tern::tokenizer
