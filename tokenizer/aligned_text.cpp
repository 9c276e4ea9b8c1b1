#include "tokenizer/aligned_text.h"

#include <algorithm>

#include "base/strings.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

AlignedText::AlignedText(std::string_view original, bool track) : original_(original), track_(track) {
  if (original.size() >= INT32_MAX) {
    throw Failure(usage_error(cat("a text of ", original.size(), " bytes is too long to tokenize: less than 2 GiB fit"),
                              "split it"));
  }
  splits_.push_back({0, static_cast<std::uint32_t>(original.size()), 0, -1});
}

Split AlignedText::slice(const Split& split, std::size_t begin, std::size_t end, TokenId token) const {
  Split part{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), split.original, token};
  if (identity_) {
    part.original = part.begin;
  } else if (track_ && begin < end) {
    part.original = align_[begin].begin;
  } else if (track_) {
    part.original = split.original + static_cast<std::uint32_t>(begin - split.begin);
  } else {
    part.original = begin == split.begin ? split.original : UINT32_MAX;
  }
  return part;
}

std::pair<std::size_t, std::size_t> AlignedText::original_range(const Split& split, std::size_t begin,
                                                                std::size_t end) const {
  if (begin == end) return {split.original + begin, split.original + begin};
  const std::size_t length = split.end - split.begin;
  if (begin > end || end > length) return {begin, end};
  if (!identity_) return {align_[split.begin + begin].begin, align_[split.begin + end - 1].end};
  std::size_t first = split.begin + begin;
  std::size_t last = split.begin + end;
  while (first > 0 && is_continuation(original_[first])) --first;
  while (last < original_.size() && is_continuation(original_[last])) ++last;
  return {first, last};
}

void AlignedText::materialise() {
  if (!identity_) return;
  buffer_.assign(original_);
  if (track_) {
    align_.resize(original_.size());
    for (std::size_t at = 0; at < original_.size();) {
      const std::size_t begin = at;
      (void)next_char(original_, at);
      const Align align{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at)};
      std::fill(align_.begin() + static_cast<std::ptrdiff_t>(begin), align_.begin() + static_cast<std::ptrdiff_t>(at),
                align);
    }
  }
  identity_ = false;
}

void AlignedText::begin_rewrite() {
  materialise();
  next_buffer_.clear();
  next_align_.clear();
  next_splits_.clear();
  next_buffer_.reserve(buffer_.size() + buffer_.size() / 4);
  if (track_) next_align_.reserve(next_buffer_.capacity());
}

void AlignedText::add(std::string_view bytes, const Align* from) {
  next_buffer_.append(bytes);
  if (track_) next_align_.insert(next_align_.end(), from, from + bytes.size());
}

void AlignedText::add_same(std::string_view bytes, Align align) {
  next_buffer_.append(bytes);
  if (track_) next_align_.insert(next_align_.end(), bytes.size(), align);
}

void AlignedText::close(const Split& split, std::size_t begin) {
  if (next_buffer_.size() >= INT32_MAX) {
    throw Failure(usage_error("a text that grows to 2 GiB once normalized is too long to tokenize", "split it"));
  }
  next_splits_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(next_buffer_.size()),
                          split.original, split.token});
}

void AlignedText::copy(const Split& split) {
  const std::size_t begin = next_buffer_.size();
  add(text(split), align_.data() + (track_ ? split.begin : 0));
  close(split, begin);
}

void AlignedText::keep(const Split& split, std::size_t begin, std::size_t end) {
  const std::size_t start = next_buffer_.size();
  add(text(split).substr(begin, end - begin), align_.data() + (track_ ? split.begin + begin : 0));
  close(split, start);
}

void AlignedText::transform(const Split& split, const std::vector<CharChange>& changes, std::size_t removed_first) {
  const std::size_t start = next_buffer_.size();
  const std::string_view source = text(split);
  const Align nothing{split.original, split.original};
  const Align* from = align_.data() + (track_ ? split.begin : 0);
  std::size_t at = 0;  // the next source byte to replace
  // Leading bytes that stand for nothing of the original are outside what the reference rewrites: it keeps them.
  std::size_t fixed = 0;
  if (track_) {
    while (fixed < source.size() && from[fixed].begin == from[fixed].end) ++fixed;
    add(source.substr(0, fixed), from);
    at = fixed;
  }
  const auto skip = [&] {
    if (at < source.size()) (void)next_char(source, at);
  };
  for (std::size_t i = 0; i < removed_first; ++i) skip();
  char bytes[4];
  for (const CharChange& change : changes) {
    Align align = nothing;
    if (track_) {
      if (change.change > 0) {
        if (at > 0) align = from[at - 1];
      } else if (!source.empty()) {
        align = from[std::min(at, source.size() - 1)];
      }
    }
    if (change.change <= 0) {
      skip();
      for (int i = change.change; i < 0; ++i) skip();
    }
    if (change.c < 0x80) {
      bytes[0] = static_cast<char>(change.c);
      add_same({bytes, 1}, align);
    } else {
      std::string character;
      append_char(character, change.c);
      add_same(character, align);
    }
  }
  close(split, start);
}

void AlignedText::prepend(const Split& split, std::string_view prefix) {
  const std::size_t start = next_buffer_.size();
  if (split.begin < split.end) {
    add_same(prefix, track_ ? align_[split.begin] : Align{0, 0});
    add(text(split), align_.data() + (track_ ? split.begin : 0));
  }
  close(split, start);
}

void AlignedText::replace(const Split& split, const std::vector<std::pair<std::size_t, std::size_t>>& matches,
                          std::string_view content) {
  const std::size_t start = next_buffer_.size();
  const std::string_view source = text(split);
  const Align* from = align_.data() + (track_ ? split.begin : 0);
  std::size_t last = 0;
  for (const auto& [begin, end] : matches) {
    add(source.substr(last, begin - last), from + (track_ ? last : 0));
    Align align{split.original, split.original};
    if (track_ && end > 0) align = from[end - 1];
    add_same(content, align);
    last = end;
  }
  add(source.substr(last), from + (track_ ? last : 0));
  close(split, start);
}

void AlignedText::commit() {
  std::swap(buffer_, next_buffer_);
  std::swap(align_, next_align_);
  std::swap(splits_, next_splits_);
}

}  // namespace tern::tokenizer
