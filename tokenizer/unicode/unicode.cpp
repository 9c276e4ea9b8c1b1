#include "tokenizer/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "tokenizer/unicode/unicode_tables.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

const CharTable& CharTable::get() {
  static const CharTable table;
  return table;
}

CharTable::CharTable() {
  std::map<std::vector<std::uint16_t>, std::uint16_t> known;
  std::vector<std::uint16_t> block(128);
  std::size_t run = 0;
  for (std::uint32_t begin = 0; begin < 0x110000; begin += 128) {
    for (std::uint32_t i = 0; i < 128; ++i) {
      while (run + 1 < unicode_runs_size && unicode_runs[run + 1] >> 8 <= begin + i) ++run;
      block[i] = unicode_classes[unicode_runs[run] & 0xFF];
    }
    const auto [found, fresh] = known.try_emplace(block, static_cast<std::uint16_t>(blocks_.size() >> 7));
    if (fresh) blocks_.insert(blocks_.end(), block.begin(), block.end());
    stage_[begin >> 7] = found->second;
  }
}

namespace {

const CharRange* find_range(const CharRange* ranges, std::size_t count, char32_t c) {
  const CharRange* end = ranges + count;
  const CharRange* found = std::upper_bound(ranges, end, c, [](char32_t x, const CharRange& r) { return x < r.first; });
  return found != ranges && c <= found[-1].last ? found - 1 : nullptr;
}

}  // namespace

char32_t to_lower(char32_t c, char32_t& second) {
  second = 0;
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c == 0x130) return second = 0x307, U'i';
  if (const CharRange* range = find_range(lower_exceptions, lower_exceptions_size, c)) return c + range->value;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::uint8_t script_of(char32_t c) {
  const std::uint32_t key = static_cast<std::uint32_t>(c) << 8 | 0xFF;
  const std::uint32_t* found = std::upper_bound(script_runs, script_runs + script_runs_size, key);
  return found == script_runs ? 0 : static_cast<std::uint8_t>(found[-1] & 0xFF);
}

bool pcre_shadow(std::string_view text, std::string& shadow) {
  // The first such character is U+0897: nothing below its lead byte can matter.
  bool changed = false;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xE0) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    const char32_t c = next_char(text, at);
    if (c >= 0x3400 && c < 0xA000) continue;  // the bulk of Chinese
    const CharRange* range = find_range(pcre_shadows, pcre_shadows_size, c);
    if (range == nullptr) continue;
    if (!changed) shadow.assign(text);
    changed = true;
    std::string other;
    append_char(other, static_cast<char32_t>(range->value));
    std::copy(other.begin(), other.end(), shadow.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return changed;
}

namespace {

struct Decomposed {
  char32_t c;
  int change;
  std::uint8_t ccc;
};

std::uint8_t combining_class(char32_t c) {
  if (c < 0x300 || (char_flags(c) & kUnnormalized) != 0) return 0;
  return static_cast<std::uint8_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class);
}

void decompose(char32_t c, bool compatible, std::vector<Decomposed>& out) {
  if (c < 0xA0 || (char_flags(c) & kUnnormalized) != 0) {
    out.push_back({c, 0, 0});
    return;
  }
  utf8proc_int32_t parts[32];
  int boundary = 0;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options, &boundary);
  if (count <= 0 || count > 32) {
    out.push_back({c, 0, combining_class(c)});
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const auto part = static_cast<char32_t>(parts[i]);
    out.push_back({part, i == 0 ? 0 : 1, combining_class(part)});
  }
}

// The primary composite of two characters, or 0.
char32_t compose_pair(char32_t a, char32_t b) {
  if (b < 0x300) return 0;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(a), static_cast<utf8proc_int32_t>(b)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (utf8proc_normalize_utf32(pair, 2, options) != 1) return 0;
  const auto composite = static_cast<char32_t>(pair[0]);
  return (char_flags(composite) & kUnnormalized) != 0 ? 0 : composite;
}

// Section 3.11 of the standard, over canonically ordered text; a composite's change is the sum of its parts' less one.
void compose(const std::vector<Decomposed>& text, std::vector<CharChange>& out) {
  std::size_t starter = SIZE_MAX;  // index in `out` of the last starter
  int last_class = -1;  // class of the character before, where it was not composed; -1 right after the starter
  for (const Decomposed& d : text) {
    if (starter != SIZE_MAX && last_class < static_cast<int>(d.ccc)) {
      if (const char32_t composite = compose_pair(out[starter].c, d.c)) {
        out[starter] = {composite, out[starter].change + d.change - 1};
        continue;
      }
    }
    if (d.ccc == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = d.ccc;
    }
    out.push_back({d.c, d.change});
  }
}

bool nfc_already(std::string_view text) {
  const CharTable& table = CharTable::get();
  std::uint8_t last_class = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xCC) {  // below U+0300
      at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : 2;
      last_class = 0;
      continue;
    }
    const char32_t c = next_char(text, at);
    if ((table[c] & kNfcAttention) != 0) {
      const std::uint8_t ccc = combining_class(c);
      const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
      const bool inert = ccc != 0 && property->decomp_seqindex == UINT16_MAX && property->comb_index == UINT16_MAX;
      if (!inert || ccc < last_class) return false;
      last_class = ccc;
    } else {
      last_class = 0;
    }
  }
  return true;
}

bool all_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

bool normalize_form(std::string_view text, NormalForm form, std::vector<CharChange>& out) {
  if (form == NormalForm::nfc ? nfc_already(text) : all_ascii(text)) return false;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  std::vector<Decomposed> parts;
  parts.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) decompose(next_char(text, at), compatible, parts);
  for (std::size_t i = 0; i < parts.size();) {
    if (parts[i].ccc == 0) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < parts.size() && parts[end].ccc != 0) ++end;
    std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(i), parts.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const Decomposed& a, const Decomposed& b) { return a.ccc < b.ccc; });
    i = end;
  }
  if (form == NormalForm::nfc || form == NormalForm::nfkc) {
    compose(parts, out);
  } else {
    for (const Decomposed& d : parts) out.push_back({d.c, d.change});
  }
  return true;
}

}  // namespace tern::tokenizer
