#include "tokenizer/bpe.h"

#include <algorithm>

#include "base/strings.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

constexpr std::size_t kShort = 40;  // symbols up to which scanning all pairs beats a heap

// The bytes that a byte-level piece stands for; nothing where a character is outside the alphabet.
std::optional<std::string> raw_bytes(std::string_view piece) {
  std::string raw;
  for (std::size_t at = 0; at < piece.size();) {
    const int byte = char_to_byte(next_char(piece, at));
    if (byte < 0) return std::nullopt;
    raw += static_cast<char>(byte);
  }
  return raw;
}

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, const Merges& merges, BpeOptions options, const std::string& where)
    : options_(std::move(options)) {
  set_vocabulary(std::move(vocabulary));
  read_merges(merges, where);
  if (options_.unk_token) unk_id_ = table_.find(*options_.unk_token);
  byte_ids_.fill(-1);
  if (options_.wants_bytes && options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty())
    prepare_bytes();
  if (!bytes_ && options_.byte_fallback) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (std::size_t b = 0; b < 256; ++b) byte_ids_[b] = table_.find(cat("<0x", digits[b >> 4], digits[b & 15], ">"));
  }
  cut_words_ = !bytes_ && words_are_independent();
  find_joins();
}

void BpeModel::read_merges(const Merges& merges, const std::string& where) {
  merges_.reserve(merges.size());
  std::string merged;
  std::uint32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const TokenId a = table_.find(left);
    const TokenId b = table_.find(right);
    const std::size_t prefix = options_.continuing_subword_prefix.size();
    merged.assign(left);
    if (right.size() >= prefix) merged.append(right, prefix);
    const TokenId ab = table_.find(merged);
    if (a < 0 || b < 0 || ab < 0 || right.size() < prefix) {
      throw Failure(data_error(cat(where, ": merge ", rank), "two tokens whose join is a token, all in the vocabulary",
                               cat("\"", left, "\" \"", right, "\""), "fetch the file again, or correct it"));
    }
    merges_.insert(a, b, {rank++, ab});
  }
}

void BpeModel::prepare_bytes() {
  std::string character;
  for (int b = 0; b < 256; ++b) {
    character.clear();
    append_char(character, byte_to_char(static_cast<unsigned char>(b)));
    const TokenId id = table_.find(character);
    if (id < 0 && !options_.keep_unknown) return;
    byte_ids_[static_cast<std::size_t>(b)] = id;
  }
  bytes_ = true;
  if (!options_.ignore_merges) return;
  raw_table_.reserve(table_.size(), table_.size() * 8);
  table_.each([&](std::string_view piece, TokenId id) {
    if (const auto raw = raw_bytes(piece)) raw_table_.insert(*raw, id);
  });
}

// A merge of two tokens reaches across the border between the last symbol that the left one began as and the first of
// the right one. Neighbours that are no such pair are never joined, whatever is merged round them: there a long text
// may be cut, and what is merged alone is as it would be in the whole.
void BpeModel::find_joins() {
  struct Ends {
    TokenId first, last;
  };
  std::vector<Ends> ends(pieces_.size());
  for (std::size_t id = 0; id < ends.size(); ++id) ends[id] = {static_cast<TokenId>(id), static_cast<TokenId>(id)};
  const auto at = [&](TokenId id) -> Ends& { return ends[static_cast<std::size_t>(id)]; };
  bool changed = true;  // a token has as many levels of parts as characters at most
  for (int pass = 0; changed && pass < 64; ++pass) {
    changed = false;
    merges_.each([&](TokenId left, TokenId right, PairTable::Merge merge) {
      const Ends made{at(left).first, at(right).last};
      changed = changed || made.first != at(merge.id).first || made.last != at(merge.id).last;
      at(merge.id) = made;
    });
  }
  const auto is_symbol = [&](TokenId id) { return id < 0 || (at(id).first == id && at(id).last == id); };
  // Not where symbols change with their place in the word, nor where a text begins with tokens that merges make too.
  cuts_ = !changed && options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty() &&
          is_symbol(unk_id_) && std::all_of(byte_ids_.begin(), byte_ids_.end(), is_symbol);
  for (std::size_t id = 0; cuts_ && id < pieces_.size(); ++id) {
    const std::string& piece = pieces_[id];
    const bool character = !piece.empty() && piece.size() == utf8_length(static_cast<unsigned char>(piece[0]));
    cuts_ = !character || is_symbol(static_cast<TokenId>(id));
  }
  if (!cuts_) return;
  joins_.reserve(merges_.size());
  merges_.each([&](TokenId left, TokenId right, PairTable::Merge) {
    joins_.insert(at(left).last, at(right).first, {0, 0});
  });
}

// Words that begin with "▁" after something else can be encoded one by one if "▁" is a token (so that it ends a run of
// unknown characters) and no merge joins what precedes such a border with what follows it.
bool BpeModel::words_are_independent() const {
  if (!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) return false;
  if (table_.find(kMetaspace) < 0) return false;
  bool independent = true;
  merges_.each([&](TokenId left, TokenId right, PairTable::Merge) {
    const std::string& a = pieces_[static_cast<std::size_t>(left)];
    const std::string& b = pieces_[static_cast<std::size_t>(right)];
    if (!a.ends_with(kMetaspace) && b.starts_with(kMetaspace)) independent = false;
  });
  return independent;
}

void BpeModel::tokenize(std::string_view piece, Workspace& work, std::vector<Token>& out) const {
  const bool newlines = options_.whole_newlines && piece.find_first_not_of('\n') == std::string_view::npos;
  if (options_.ignore_merges || newlines) {
    const TokenId whole = bytes_ ? raw_table_.find(piece) : table_.find(piece);
    if (whole >= 0) {
      out.push_back({whole, 0, static_cast<std::uint32_t>(piece.size())});
      return;
    }
  }
  if (!cut_words_) {
    (void)word(piece, 0, work, out);
    return;
  }
  std::uint32_t base = 0;
  for (std::size_t begin = 0; begin < piece.size();) {
    std::size_t end = begin;
    while (piece.substr(end).starts_with(kMetaspace)) end += kMetaspace.size();
    end = std::min(piece.find(kMetaspace, end), piece.size());
    base += word(piece.substr(begin, end - begin), base, work, out);
    begin = end;
  }
}

std::uint32_t BpeModel::word(std::string_view text, std::uint32_t base, Workspace& work,
                             std::vector<Token>& out) const {
  const bool cached = text.size() <= WordCache::kLongest;
  const std::uint64_t hash = cached ? hash_bytes(text) : 0;
  if (cached) {
    if (const WordCache::Entry* entry = work.cache.find(text, hash)) {
      const Token* tokens = work.cache.tokens(*entry);
      for (std::uint32_t i = 0; i < entry->count; ++i) {
        out.push_back({tokens[i].id, tokens[i].begin + base, tokens[i].end + base});
      }
      return entry->count == 0 ? 0 : tokens[entry->count - 1].end;  // what is dropped at the end moves nothing after it
    }
  }
  symbols_of(text, work);
  if (work.symbols.size() <= kShort) {
    merge_short(work.symbols);
  } else {
    merge_parts(work);
  }
  const std::size_t first = out.size();
  std::uint32_t at = 0;
  for (const Workspace::Symbol& symbol : work.symbols) {
    if (symbol.size == 0) continue;
    if (symbol.id >= 0) out.push_back({symbol.id, at, at + symbol.size});
    at += symbol.size;
  }
  if (cached) work.cache.put(text, hash, out.data() + first, out.size() - first);
  for (std::size_t i = first; base != 0 && i < out.size(); ++i) {
    out[i].begin += base;
    out[i].end += base;
  }
  return out.size() == first ? 0 : out.back().end - base;
}

void BpeModel::symbols_of(std::string_view text, Workspace& work) const {
  work.symbols.clear();
  if (bytes_) {
    for (const char c : text)
      work.symbols.push_back({byte_ids_[static_cast<unsigned char>(c)], 1, 0, 0, UINT32_MAX, -1});
  } else {
    character_symbols(text, work);
  }
  const auto count = static_cast<std::int32_t>(work.symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    Workspace::Symbol& symbol = work.symbols[static_cast<std::size_t>(i)];
    if (i + 1 == count) continue;
    const auto merge = merges_.find(symbol.id, work.symbols[static_cast<std::size_t>(i) + 1].id);
    symbol.rank = merge.rank;
    symbol.merged = merge.id;
  }
}

void BpeModel::character_symbols(std::string_view text, Workspace& work) const {
  const auto add = [&](TokenId id, std::uint32_t size) { work.symbols.push_back({id, size, 0, 0, UINT32_MAX, -1}); };
  std::uint32_t unknown = 0;  // bytes of unknown characters not yet added
  const bool plain = options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    at += utf8_length(static_cast<unsigned char>(text[at]));
    std::string_view character = text.substr(begin, at - begin);
    const auto size = static_cast<std::uint32_t>(character.size());
    if (!plain) {
      work.scratch.clear();
      if (begin > 0) work.scratch += options_.continuing_subword_prefix;
      work.scratch += character;
      if (at == text.size()) work.scratch += options_.end_of_word_suffix;
      character = work.scratch;
    }
    const TokenId id = table_.find(character);
    if (id >= 0) {
      if (unknown > 0) add(unk_id_, unknown);
      unknown = 0;
      add(id, size);
      continue;
    }
    if (options_.byte_fallback && fallback_symbols(character, work)) continue;
    if (!options_.unk_token) {
      if (options_.keep_unknown) add(-1, size);
      continue;
    }
    if (unk_id_ < 0) {
      throw Failure(data_error("vocabulary", cat("the unknown token \"", *options_.unk_token, '"'), "none",
                               "add it to the vocabulary"));
    }
    if (unknown > 0 && !options_.fuse_unk) {
      add(unk_id_, unknown);
      unknown = 0;
    }
    unknown += size;
  }
  if (unknown > 0) add(unk_id_, unknown);
}

bool BpeModel::fallback_symbols(std::string_view character, Workspace& work) const {
  for (const char c : character) {
    if (byte_ids_[static_cast<unsigned char>(c)] < 0) return false;
  }
  for (const char c : character)
    work.symbols.push_back({byte_ids_[static_cast<unsigned char>(c)], 1, 0, 0, UINT32_MAX, -1});
  return true;
}

void BpeModel::merge_short(std::vector<Workspace::Symbol>& symbols) const {
  while (true) {
    std::uint32_t best = UINT32_MAX;
    std::size_t at = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i].rank < best) {
        best = symbols[i].rank;
        at = i;
      }
    }
    if (best == UINT32_MAX) return;
    // Symbols stay packed: the vector is short, and the next search runs over fewer.
    symbols[at].id = symbols[at].merged;
    symbols[at].size += symbols[at + 1].size;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    const auto refresh = [&](std::size_t i) {
      const PairTable::Merge merge =
          i + 1 < symbols.size() ? merges_.find(symbols[i].id, symbols[i + 1].id) : PairTable::Merge{UINT32_MAX, -1};
      symbols[i].rank = merge.rank;
      symbols[i].merged = merge.id;
    };
    refresh(at);
    if (at > 0) refresh(at - 1);
  }
}

// Merges each stretch that no merge leaves by itself: long texts take time in proportion to their length.
void BpeModel::merge_parts(Workspace& work) const {
  auto& whole = work.whole;
  auto& part = work.symbols;
  whole.swap(part);
  std::size_t kept = 0;
  for (std::size_t begin = 0; begin < whole.size();) {
    std::size_t end = begin + 1;
    while (end < whole.size() && (!cuts_ || joins_.find(whole[end - 1].id, whole[end].id).rank == 0)) ++end;
    part.assign(whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.begin() + static_cast<std::ptrdiff_t>(end));
    if (part.size() <= kShort) {
      merge_short(part);
    } else {
      merge_long(work);
    }
    for (const Workspace::Symbol& symbol : part) {
      if (symbol.size > 0) whole[kept++] = symbol;
    }
    begin = end;
  }
  whole.resize(kept);
  whole.swap(part);
}

// A heap of candidate merges by (rank, position); a candidate whose symbols have changed since is skipped.
void BpeModel::merge_long(Workspace& work) const {
  auto& symbols = work.symbols;
  auto& heap = work.heap;
  const auto later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  heap.clear();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<std::int32_t>(i) + 1 : -1;
    if (symbols[i].rank != UINT32_MAX)
      heap.push_back({symbols[i].rank, static_cast<std::uint32_t>(i), symbols[i].merged});
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto refresh = [&](std::int32_t i) {
    Workspace::Symbol& symbol = symbols[static_cast<std::size_t>(i)];
    const PairTable::Merge merge = symbol.next >= 0
                                       ? merges_.find(symbol.id, symbols[static_cast<std::size_t>(symbol.next)].id)
                                       : PairTable::Merge{UINT32_MAX, -1};
    symbol.rank = merge.rank;
    symbol.merged = merge.id;
    if (merge.rank == UINT32_MAX) return;
    heap.push_back({merge.rank, static_cast<std::uint32_t>(i), merge.id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    const Workspace::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Workspace::Symbol& symbol = symbols[top.at];
    if (symbol.size == 0 || symbol.rank != top.rank) continue;
    Workspace::Symbol& right = symbols[static_cast<std::size_t>(symbol.next)];
    symbol.id = top.merged;
    symbol.size += right.size;
    symbol.next = right.next;
    right.size = 0;
    right.rank = UINT32_MAX;
    if (symbol.next >= 0) symbols[static_cast<std::size_t>(symbol.next)].previous = static_cast<std::int32_t>(top.at);
    refresh(static_cast<std::int32_t>(top.at));
    if (symbol.previous >= 0) refresh(symbol.previous);
  }
}

}  // namespace tern::tokenizer
