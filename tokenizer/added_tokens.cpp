#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

void LongestMatcher::add(std::string_view text, int value) {
  if (text.empty()) return;
  const auto lead = static_cast<unsigned char>(text[0]);
  first_[lead] = true;
  only_first_ = only_first_ == -1 || only_first_ == lead ? lead : -2;
  std::uint32_t at = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    auto& children = nodes_[at].children;
    auto found = std::lower_bound(children.begin(), children.end(), byte,
                                  [](const auto& a, unsigned char b) { return a.first < b; });
    if (found == children.end() || found->first != byte) {
      const auto fresh = static_cast<std::uint32_t>(nodes_.size());
      children.insert(found, {byte, fresh});
      nodes_.emplace_back();
      at = fresh;
    } else {
      at = found->second;
    }
  }
  nodes_[at].value = value;
}

std::int64_t LongestMatcher::child_of(std::uint32_t node, unsigned char byte) const {
  const auto& children = nodes_[node].children;
  const auto found = std::lower_bound(children.begin(), children.end(), byte,
                                      [](const auto& a, unsigned char b) { return a.first < b; });
  return found == children.end() || found->first != byte ? -1 : std::int64_t{found->second};
}

LongestMatcher::Match LongestMatcher::find(std::string_view text, std::size_t from,
                                           const std::vector<bool>* wanted) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (only_first_ >= 0) {
      const void* hit = std::memchr(text.data() + begin, only_first_, text.size() - begin);
      if (hit == nullptr) break;
      begin = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
    } else if (!first_[static_cast<unsigned char>(text[begin])]) {
      continue;
    }
    Match match{begin, 0, -1};
    std::uint32_t at = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      const std::int64_t child = child_of(at, static_cast<unsigned char>(text[i]));
      if (child < 0) break;
      at = static_cast<std::uint32_t>(child);
      const int value = nodes_[at].value;
      if (value >= 0 && (wanted == nullptr || (*wanted)[static_cast<std::size_t>(value)]))
        match = {begin, i + 1, value};
    }
    if (match.value >= 0) return match;
  }
  return {std::string_view::npos, 0, -1};
}

void AddedTokens::add(AddedToken token) {
  const int index = static_cast<int>(tokens_.size());
  if (token.normalized) {
    normalized_.add(token.normalized_content, index);
  } else {
    plain_.add(token.content, index);
  }
  not_special_.push_back(!token.special);
  tokens_.push_back(std::move(token));
}

void AddedTokens::set_longest_first() {
  std::vector<std::size_t> sorted(tokens_.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::size_t a, std::size_t b) { return tokens_[a].content.size() > tokens_[b].content.size(); });
  order_.resize(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) order_[sorted[i]] = i;
}

void AddedTokens::split(AlignedText& text, bool normalized, bool parse_special) const {
  const LongestMatcher& matcher = normalized ? normalized_ : plain_;
  std::vector<Split> out;
  out.reserve(text.splits().size());
  for (const Split& split : text.splits()) {
    if (split.token >= 0) {
      out.push_back(split);
    } else if (split.begin < split.end) {
      if (order_.empty()) {
        split_one(text, split, matcher, parse_special ? nullptr : &not_special_, out);
      } else if (normalized) {
        out.push_back(split);
      } else {
        split_longest_first(text, split, parse_special, out);
      }
    }
  }
  text.splits() = std::move(out);
}

void AddedTokens::split_one(const AlignedText& text, const Split& split, const LongestMatcher& matcher,
                            const std::vector<bool>* wanted, std::vector<Split>& out) const {
  const std::string_view piece = text.text(split);
  const auto word_at = [&](std::size_t at) { return (char_flags(next_char(piece, at)) & kWord) != 0; };
  const auto push = [&](std::size_t begin, std::size_t end, TokenId token) {
    if (begin < end) out.push_back(text.slice(split, split.begin + begin, split.begin + end, token));
  };
  std::size_t done = 0;
  std::size_t stripped = 0;  // how far rstrip has looked: runs of white space are read once
  for (auto match = matcher.empty() ? LongestMatcher::Match{std::string_view::npos, 0, -1}
                                    : matcher.find(piece, 0, wanted);
       match.begin != std::string_view::npos; match = matcher.find(piece, match.end, wanted)) {
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.value)];
    std::size_t begin = match.begin;
    std::size_t end = match.end;
    if (token.single_word) {
      const bool left = begin > 0 && word_at(previous_char(piece, begin));
      const bool right = end < piece.size() && word_at(end);
      if (left || right) continue;
    }
    if (token.lstrip) {
      while (begin > done) {
        const std::size_t before = previous_char(piece, begin);
        std::size_t next = before;
        if (!is_white(next_char(piece, next))) break;
        begin = before;
      }
      begin = std::max(begin, done);
      end = std::max(begin, end);
    }
    if (token.rstrip) {
      end = std::max(end, stripped);
      while (end < piece.size()) {
        std::size_t next = end;
        if (!is_white(next_char(piece, next))) break;
        end = next;
      }
      stripped = end;
    }
    push(done, begin, -1);
    push(begin, end, token.id);
    done = end;
  }
  if (done < piece.size()) push(done, piece.size(), -1);
}

// Tokens take their places in order of length, each from left to right, where none before them has.
void AddedTokens::split_longest_first(const AlignedText& text, const Split& split, bool parse_special,
                                      std::vector<Split>& out) const {
  const std::string_view piece = text.text(split);
  struct Candidate {
    std::size_t order, begin, index;
  };
  std::vector<Candidate> candidates;
  plain_.each(piece, [&](std::size_t begin, int value) {
    const auto index = static_cast<std::size_t>(value);
    if (parse_special || not_special_[index]) candidates.push_back({order_[index], begin, index});
  });
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.order != b.order ? a.order < b.order : a.begin < b.begin;
  });
  struct Taken {
    std::size_t end;
    TokenId id;
  };
  std::map<std::size_t, Taken> taken;  // by begin
  const auto blank = [&](std::size_t at) { return piece[at] == ' ' || (piece[at] >= '\t' && piece[at] <= '\r'); };
  for (const Candidate& candidate : candidates) {
    const AddedToken& token = tokens_[candidate.index];
    std::size_t begin = candidate.begin;
    std::size_t end = begin + token.content.size();
    const auto after = taken.lower_bound(begin);
    const std::size_t high = after == taken.end() ? piece.size() : after->first;
    const std::size_t low = after == taken.begin() ? 0 : std::prev(after)->second.end;
    if (begin < low || end > high) continue;
    while (token.lstrip && begin > low && blank(begin - 1)) --begin;
    while (token.rstrip && end < high && blank(end)) ++end;
    taken.emplace(begin, Taken{end, token.id});
  }
  std::size_t done = 0;
  const auto push = [&](std::size_t begin, std::size_t end, TokenId token) {
    if (begin < end) out.push_back(text.slice(split, split.begin + begin, split.begin + end, token));
  };
  for (const auto& [begin, place] : taken) {
    push(done, begin, -1);
    push(begin, place.end, place.id);
    done = place.end;
  }
  push(done, piece.size(), -1);
}

}  // namespace tern::tokenizer
