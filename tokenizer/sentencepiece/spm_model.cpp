#include "tokenizer/sentencepiece/spm_model.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

constexpr TokenId kFrozen = -2;  // of a symbol that is never joined

}  // namespace

SpmModel::SpmModel(Vocabulary vocabulary, std::vector<float> scores, TokenId unk_id, SpmOptions options)
    : hidden_(std::move(options.hidden)), symbols_(options.symbols), unk_id_(unk_id) {
  set_vocabulary(std::move(vocabulary));
  scores.resize(pieces_.size());
  for (float& score : scores) score = score == score ? score : -INFINITY;  // an order needs numbers
  std::vector<float> order = scores;
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (const float score : scores) {
    const auto place = std::lower_bound(order.begin(), order.end(), score, std::greater<>());
    ranks_.push_back(static_cast<std::uint32_t>(place - order.begin()));
  }
  constexpr std::string_view digits = "0123456789ABCDEF";
  byte_ids_.fill(-1);
  for (std::size_t b = 0; options.byte_fallback && b < 256; ++b) {
    byte_ids_[b] = table_.find(cat("<0x", digits[b >> 4], digits[b & 15], ">"));
    if (byte_ids_[b] < 0) byte_ids_[b] = table_.find(std::string(1, static_cast<char>(b)));
  }
  cut_words_ =
      table_.find(kMetaspace) >= 0 && std::none_of(pieces_.begin(), pieces_.end(), [](const std::string& piece) {
        std::size_t at = 0;
        while (piece.compare(at, kMetaspace.size(), kMetaspace) == 0) at += kMetaspace.size();
        return piece.find(kMetaspace, at) != std::string::npos;
      });
}

void SpmModel::tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const {
  for (std::size_t begin = 0; begin < piece.size();) {
    std::size_t end = piece.size();
    if (cut_words_) {
      end = begin;
      while (piece.substr(end).starts_with(kMetaspace)) end += kMetaspace.size();
      end = std::min(piece.find(kMetaspace, end), piece.size());
    }
    word(piece.substr(begin, end - begin), static_cast<std::uint32_t>(begin), work, out);
    begin = end;
  }
}

void SpmModel::word(std::string_view text, std::uint32_t base, Workspace& work, std::vector<Token>& out) const {
  const bool cached = text.size() <= WordCache::kLongest;
  const std::uint64_t hash = cached ? hash_bytes(text) : 0;
  const WordCache::Entry* entry = cached ? work.cache.find(text, hash) : nullptr;
  const std::size_t first = out.size();
  if (entry != nullptr) {
    const Token* tokens = work.cache.tokens(*entry);
    out.insert(out.end(), tokens, tokens + entry->count);
  } else {
    join(text, work);
    std::uint32_t at = 0;
    for (const Workspace::Symbol& symbol : work.symbols) {
      if (symbol.size == 0) continue;
      const TokenId id = find(text.substr(at, symbol.size));
      if (id >= 0) {
        out.push_back({id, at, at + symbol.size});
      } else {
        add_bytes(text.substr(at, symbol.size), at, out);
      }
      at += symbol.size;
    }
    if (cached) work.cache.put(text, hash, out.data() + first, out.size() - first);
  }
  for (std::size_t i = first; i < out.size(); ++i) {
    out[i].begin += base;
    out[i].end += base;
  }
}

// A character without a token of its own: its bytes, or the unknown token, one for a run of such characters.
void SpmModel::add_bytes(std::string_view text, std::uint32_t at, std::vector<Token>& out) const {
  const auto end = at + static_cast<std::uint32_t>(text.size());
  const auto id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (std::all_of(text.begin(), text.end(), [&](char c) { return id(c) >= 0; })) {
    for (const char c : text) out.push_back({id(c), at, end});
  } else if (at > 0 && !out.empty() && out.back().id == unk_id_ && out.back().end == at) {
    out.back().end = end;
  } else {
    out.push_back({unk_id_, at, end});
  }
}

TokenId SpmModel::find(std::string_view text) const {
  const TokenId id = table_.find(text);
  return id >= 0 && !hidden_.empty() && hidden_[static_cast<std::size_t>(id)] ? -1 : id;
}

// Joins until no two neighbours make a token. A candidate whose symbols have changed since is skipped: the place of the
// next symbol and the joint size tell.
void SpmModel::join(std::string_view text, Workspace& work) const {
  auto& symbols = work.symbols;
  auto& heap = work.heap;
  symbols.clear();
  heap.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t symbol = symbols_.match(text.substr(at));
    const auto size =
        static_cast<std::uint32_t>(symbol > 0 ? symbol : utf8_length(static_cast<unsigned char>(text[at])));
    const auto index = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({symbol > 0 ? kFrozen : -1, size, index - 1, index + 1, static_cast<std::uint32_t>(at),
                       -1});  // rank: here the place in text
    at += size;
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto offer = [&](std::int32_t left) {
    if (left < 0) return;
    const Workspace::Symbol& symbol = symbols[static_cast<std::size_t>(left)];
    if (symbol.next < 0) return;
    const Workspace::Symbol& right = symbols[static_cast<std::size_t>(symbol.next)];
    if (symbol.id == kFrozen || right.id == kFrozen) return;
    const std::uint32_t size = symbol.size + right.size;
    const TokenId id = find(text.substr(symbol.rank, size));
    if (id < 0) return;
    heap.push_back(
        {ranks_[static_cast<std::size_t>(id)], static_cast<std::uint32_t>(left), static_cast<TokenId>(size)});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
  while (!heap.empty()) {
    const Workspace::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Workspace::Symbol& symbol = symbols[top.at];
    if (symbol.size == 0 || symbol.next < 0) continue;
    Workspace::Symbol& right = symbols[static_cast<std::size_t>(symbol.next)];
    if (symbol.size + right.size != static_cast<std::uint32_t>(top.merged)) continue;
    symbol.size += right.size;
    symbol.next = right.next;
    right.size = 0;
    if (symbol.next >= 0) symbols[static_cast<std::size_t>(symbol.next)].previous = static_cast<std::int32_t>(top.at);
    offer(symbol.previous);
    offer(static_cast<std::int32_t>(top.at));
  }
}

}  // namespace tern::tokenizer
