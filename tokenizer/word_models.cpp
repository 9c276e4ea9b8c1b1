#include "tokenizer/word_models.h"

#include <algorithm>

#include "base/strings.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

Failure no_unknown(const std::string& token) {
  return Failure(data_error("vocabulary", cat("the unknown token \"", token, '"'), "none", "add it to the vocabulary"));
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options) : options_(std::move(options)) {
  for (const auto& [piece, id] : vocabulary) longest_ = std::max(longest_, piece.size());
  set_vocabulary(std::move(vocabulary));
  unk_id_ = table_.find(options_.unk_token);
}

void WordPieceModel::add_unknown(std::string_view piece, std::vector<Token>& out) const {
  if (unk_id_ < 0) throw no_unknown(options_.unk_token);
  out.push_back({unk_id_, 0, static_cast<std::uint32_t>(piece.size())});
}

void WordPieceModel::tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const {
  const bool cached = piece.size() <= WordCache::kLongest;
  const std::uint64_t hash = cached ? hash_bytes(piece) : 0;
  if (cached) {
    if (const WordCache::Entry* entry = work.cache.find(piece, hash)) {
      const Token* tokens = work.cache.tokens(*entry);
      out.insert(out.end(), tokens, tokens + entry->count);
      return;
    }
  }
  const std::size_t first = out.size();
  const auto characters =
      static_cast<std::size_t>(std::count_if(piece.begin(), piece.end(), [](char c) { return !is_continuation(c); }));
  if (characters > options_.max_input_chars_per_word || !split(piece, work, out)) {
    out.resize(first);
    add_unknown(piece, out);
  }
  if (cached) work.cache.put(piece, hash, out.data() + first, out.size() - first);
}

// False where some part is not in the vocabulary.
bool WordPieceModel::split(std::string_view piece, Workspace& work, std::vector<Token>& out) const {
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::string& prefix = begin == 0 ? options_.word_prefix : options_.continuing_subword_prefix;
    std::size_t end = std::min(piece.size(), begin + longest_);
    while (end < piece.size() && end > begin && is_continuation(piece[end])) --end;
    TokenId id = -1;
    work.scratch.assign(prefix).append(piece, begin, end - begin);
    while (end > begin) {
      id = table_.find(work.scratch);
      if (id >= 0) break;
      const std::size_t shorter = previous_char(piece, end);
      work.scratch.resize(work.scratch.size() - (end - shorter));
      end = shorter;
    }
    if (id < 0) return false;
    out.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    begin = end;
  }
  return true;
}

WordLevelModel::WordLevelModel(Vocabulary vocabulary, std::string unk_token) : unk_token_(std::move(unk_token)) {
  set_vocabulary(std::move(vocabulary));
  unk_id_ = table_.find(unk_token_);
}

void WordLevelModel::tokenize(std::string_view piece, Workspace&, std::vector<Token>& out) const {
  TokenId id = table_.find(piece);
  if (id < 0) id = unk_id_;
  if (id < 0) throw no_unknown(unk_token_);
  out.push_back({id, 0, static_cast<std::uint32_t>(piece.size())});
}

}  // namespace tern::tokenizer
