#include "tokenizer/sentencepiece/precompiled.h"

#include <utf8proc.h>

#include <stdexcept>

#include "base/strings.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

std::uint32_t word(std::string_view bytes, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i)
    out |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return out;
}

}  // namespace

CharsMap::CharsMap(std::string_view charsmap, const std::string& where) {
  if (charsmap.empty()) return;
  const auto damaged = [&](std::string_view found) {
    return Failure(data_error(cat(where, ": precompiled_charsmap"), "a trie and its replacements", std::string(found),
                              "fetch the file again, or correct it"));
  };
  if (charsmap.size() < 4) throw damaged(cat(charsmap.size(), " bytes"));
  const std::uint32_t bytes = word(charsmap, 0);
  if (bytes % 4 != 0 || bytes == 0 || bytes > charsmap.size() - 4) throw damaged(cat("a trie of ", bytes, " bytes"));
  units_.resize(bytes / 4);
  for (std::size_t i = 0; i < units_.size(); ++i) units_[i] = word(charsmap, 4 + i * 4);
  replacements_ = charsmap.substr(4 + bytes);
  if (valid_prefix(replacements_) != replacements_.size()) throw damaged("replacements that are not UTF-8");
}

std::size_t CharsMap::find(std::string_view part, bool longest, std::string_view& replacement) const {
  if (units_.empty()) return 0;
  std::size_t found = 0;
  std::size_t length = 0;
  const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); };
  std::size_t at = offset(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    at ^= byte;
    ++length;
    if (at >= units_.size() || (units_[at] & ((1U << 31) | 0xFF)) != byte) break;
    const std::uint32_t unit = units_[at];
    at ^= offset(unit);
    if (((unit >> 8) & 1) == 0) continue;
    if (at >= units_.size()) break;
    const std::size_t begin = units_[at] & 0x7FFFFFFF;
    if (begin > replacements_.size() || (begin < replacements_.size() && is_continuation(replacements_[begin]))) break;
    const std::size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
    replacement = std::string_view(replacements_).substr(begin, end - begin);
    found = length;
    if (!longest) break;
  }
  return found;
}

namespace {

class Precompiled final : public Normalizer {
 public:
  Precompiled(std::string_view charsmap, const std::string& where) : map_(charsmap, where) {}

  void apply(AlignedText& text) const override {
    std::vector<CharChange> changes;
    text.begin_rewrite();
    for (const Split& split : text.splits()) {
      changes.clear();
      if (split.token < 0 && change(text.text(split), changes)) {
        text.transform(split, changes, 0);
      } else {
        text.copy(split);
      }
    }
    text.commit();
  }

 private:
  // Characters one for one as far as they go; the surplus is inserted, or the shortfall dropped after the last one.
  static void replace(std::string_view part, std::string_view replacement, std::vector<CharChange>& changes) {
    int surplus = 0;
    for (std::size_t at = 0; at < part.size(); --surplus) (void)next_char(part, at);
    for (std::size_t at = 0; at < replacement.size(); ++surplus) changes.push_back({next_char(replacement, at), 0});
    for (int i = 0; i < surplus; ++i) changes[changes.size() - 1 - static_cast<std::size_t>(i)].change = 1;
    if (surplus < 0 && !changes.empty()) changes.back().change += surplus;
  }

  [[nodiscard]] bool change(std::string_view piece, std::vector<CharChange>& changes) const {
    bool modified = false;
    constexpr std::size_t kLongest = 6;  // bytes: longer clusters are looked up character by character
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t end = cluster_end(piece, at);
      const std::string_view cluster = piece.substr(at, end - at);
      at = end;
      std::string_view replacement;
      if (cluster.size() < kLongest && map_.find(cluster, false, replacement) > 0) {
        modified = true;
        replace(cluster, replacement, changes);
        continue;
      }
      for (std::size_t i = 0; i < cluster.size();) {
        const std::size_t begin = i;
        const char32_t c = next_char(cluster, i);
        if (map_.find(cluster.substr(begin, i - begin), false, replacement) > 0) {
          modified = true;
          replace(cluster.substr(begin, i - begin), replacement, changes);
        } else {
          changes.push_back({c, 0});
        }
      }
    }
    return modified;
  }

  // End of the grapheme cluster at `at`.
  static std::size_t cluster_end(std::string_view piece, std::size_t at) {
    utf8proc_int32_t state = 0;
    auto last = static_cast<utf8proc_int32_t>(next_char(piece, at));
    while (at < piece.size()) {
      std::size_t next = at;
      const auto c = static_cast<utf8proc_int32_t>(next_char(piece, next));
      if (last < 0x300 && c < 0x300 && last != '\r' && last != 0xAD) return at;  // most text
      if (utf8proc_grapheme_break_stateful(last, c, &state) != 0) return at;
      last = c;
      at = next;
    }
    return at;
  }

  CharsMap map_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(std::string_view charsmap, const std::string& where) {
  if (charsmap.empty()) throw std::logic_error(where + ": an empty precompiled_charsmap");
  return std::make_unique<Precompiled>(charsmap, where);
}

}  // namespace tern::tokenizer
