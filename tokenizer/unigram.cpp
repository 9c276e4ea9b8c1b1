#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

void PrefixTrie::build(std::vector<std::pair<std::string_view, TokenId>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    std::size_t begin, end, depth;  // entries that share a prefix of `depth` bytes
  };
  std::vector<Range> queue{{0, entries.size(), 0}};
  labels_.assign(1, 0);
  ids_.assign(1, -1);
  first_child_.clear();
  for (std::size_t node = 0; node < queue.size(); ++node) {
    auto [begin, end, depth] = queue[node];
    for (; begin < end && entries[begin].first.size() == depth; ++begin) {
      if (depth > 0) ids_[node] = entries[begin].second;
    }
    first_child_.push_back(static_cast<std::uint32_t>(queue.size()));
    while (begin < end) {
      const char label = entries[begin].first[depth];
      std::size_t last = begin;
      while (last < end && entries[last].first[depth] == label) ++last;
      if (node == 0) root_[static_cast<unsigned char>(label)] = static_cast<std::uint32_t>(queue.size());
      queue.push_back({begin, last, depth + 1});
      labels_.push_back(static_cast<unsigned char>(label));
      ids_.push_back(-1);
      begin = last;
    }
  }
  first_child_.push_back(static_cast<std::uint32_t>(queue.size()));
}

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options,
                           const std::string& where)
    : scores_(std::move(scores)), options_(std::move(options)) {
  if (options_.unk_id && (*options_.unk_id < 0 || static_cast<std::size_t>(*options_.unk_id) >= vocabulary.size())) {
    throw Failure(data_error(cat(where, ": unk_id"), cat("an id below ", vocabulary.size()), cat(*options_.unk_id),
                             "fetch the file again, or correct it"));
  }
  set_vocabulary(std::move(vocabulary));
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : scores_) lowest = std::min(lowest, score);
  constexpr double kUnkPenalty = 10;
  unk_score_ = options_.unk_score.value_or(lowest - kUnkPenalty);
  std::vector<std::pair<std::string_view, TokenId>> entries;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const bool hidden = id < options_.hidden.size() && options_.hidden[id];
    if (!pieces_[id].empty() && !hidden) entries.emplace_back(pieces_[id], static_cast<TokenId>(id));
  }
  trie_.build(std::move(entries));
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (std::size_t b = 0; b < 256; ++b) byte_ids_[b] = table_.find(cat("<0x", digits[b >> 4], digits[b & 15], ">"));
}

// Fills work.best: for each byte position the best path that ends there.
void UnigramModel::best_path(std::string_view piece, Workspace& work) const {
  work.best.assign(piece.size() + 1, {0, UINT32_MAX, 0});
  for (std::size_t at = 0; at < piece.size();) {
    const double here = work.best[at].score;
    const std::size_t length = utf8_length(static_cast<unsigned char>(piece[at]));
    bool single = false;
    const auto offer = [&](std::size_t size, double score, TokenId id) {
      score = options_.single_precision ? double{static_cast<float>(score) + static_cast<float>(here)} : score + here;
      Workspace::Best& best = work.best[at + size];
      if (best.begin == UINT32_MAX || score > best.score) best = {score, static_cast<std::uint32_t>(at), id};
    };
    trie_.each_prefix(piece.substr(at), [&](std::size_t size, TokenId id) {
      offer(size, scores_[static_cast<std::size_t>(id)], id);
      single = single || size == length;
    });
    if (!single) {
      if (!options_.unk_id) {
        throw Failure(data_error("vocabulary", "an unk_id for characters outside it", "none", "set unk_id"));
      }
      offer(length, unk_score_, *options_.unk_id);
    }
    at += length;
  }
}

// Adds the token for [begin, end), `found` unless it is unknown (-1); looked up anew where neighbouring unknowns that
// were joined may be a token.
void UnigramModel::add(std::string_view piece, const Part& part, std::vector<Token>& out) const {
  const auto [begin, end, found] = part;
  const std::string_view text = piece.substr(begin, end - begin);
  TokenId id = table_.find(text);
  if (!options_.joined_unknowns) id = found;
  if (id >= 0) {
    out.push_back({id, begin, end});
    return;
  }
  const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) >= 0; })) {
    for (const char c : text) out.push_back({byte_id(c), begin, end});
    return;
  }
  out.push_back({options_.unk_id.value(), begin, end});  // there is one: best_path() asked for it
}

void UnigramModel::tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const {
  const bool cached = piece.size() <= WordCache::kLongest;
  const std::uint64_t hash = cached ? hash_bytes(piece) : 0;
  if (cached) {
    if (const WordCache::Entry* entry = work.cache.find(piece, hash)) {
      const Token* tokens = work.cache.tokens(*entry);
      out.insert(out.end(), tokens, tokens + entry->count);
      return;
    }
  }
  best_path(piece, work);
  std::vector<Part> parts;
  bool joining = false;  // the part before was unknown
  for (auto end = static_cast<std::uint32_t>(piece.size()); end > 0; end = work.best[end].begin) {
    const Workspace::Best& best = work.best[end];
    const bool unknown = options_.unk_id && best.id == *options_.unk_id;
    if (unknown && joining) {
      parts.back().begin = best.begin;
    } else {
      parts.push_back({best.begin, end, unknown ? -1 : best.id});
    }
    joining = unknown;
  }
  const std::size_t first = out.size();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) add(piece, *part, out);
  if (cached) work.cache.put(piece, hash, out.data() + first, out.size() - first);
}

std::string UnigramModel::value(std::string_view piece, const Token& token) const {
  const std::string_view text = piece.substr(token.begin, token.end - token.begin);
  const bool bytes =
      options_.byte_fallback && table_.find(text) < 0 && token.id == byte_ids_[static_cast<unsigned char>(text[0])];
  return bytes ? pieces_[static_cast<std::size_t>(token.id)] : std::string(text);
}

}  // namespace tern::tokenizer
