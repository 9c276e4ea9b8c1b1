#include "jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace tern::jinja {
namespace {

struct Special {
  std::uint32_t code_point;
  std::u32string_view upper, title;
};

// Unicode's SpecialCasing.txt, the unconditional mappings to more than one character that are not composable marks of
// Greek iota subscript; those are computed below.
constexpr std::array<Special, 37> special_casing{{
    {0x00DF, U"SS", U"Ss"},
    {0x0149, U"\u02BCN", U"\u02BCN"},
    {0x01F0, U"J\u030C", U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1E96, U"H\u0331", U"H\u0331"},
    {0x1E97, U"T\u0308", U"T\u0308"},
    {0x1E98, U"W\u030A", U"W\u030A"},
    {0x1E99, U"Y\u030A", U"Y\u030A"},
    {0x1E9A, U"A\u02BE", U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313", U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300", U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301", U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342", U"\u03A5\u0313\u0342"},
    {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300", U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313", U"\u03A1\u0313"},
    {0x1FE6, U"\u03A5\u0342", U"\u03A5\u0342"},
    {0xFB00, U"FF", U"Ff"},
    {0xFB01, U"FI", U"Fi"},
    {0xFB02, U"FL", U"Fl"},
    {0xFB03, U"FFI", U"Ffi"},
    {0xFB04, U"FFL", U"Ffl"},
    {0xFB05, U"ST", U"St"},
    {0xFB06, U"ST", U"St"},
    {0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xFB15, U"\u0544\u053B", U"\u0544\u056B"},
    {0xFB16, U"\u054E\u0546", U"\u054E\u0576"},
    {0xFB17, U"\u0544\u053D", U"\u0544\u056D"},
}};

const Special* find_special(std::uint32_t c) {
  const auto at = std::lower_bound(special_casing.begin(), special_casing.end(), c,
                                   [](const Special& special, std::uint32_t key) { return special.code_point < key; });
  return at != special_casing.end() && at->code_point == c ? &*at : nullptr;
}

bool broken(std::uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

utf8proc_category_t category(std::uint32_t c) {
  return broken(c) ? UTF8PROC_CATEGORY_CS : utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

void append_upper(std::string& out, std::uint32_t c) {
  if (const Special* special = find_special(c)) {
    for (const char32_t part : special->upper) append_code_point(out, part);
    return;
  }
  append_code_point(out, static_cast<std::uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, std::uint32_t c) {
  if (const Special* special = find_special(c)) {
    for (const char32_t part : special->title) append_code_point(out, part);
    return;
  }
  append_code_point(out, static_cast<std::uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool cased(std::uint32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

bool case_ignorable(std::uint32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
         c == 0xB7 || c == 0x2019;
}

// Sigma at the end of a word is written differently (SpecialCasing.txt, Final_Sigma).
bool final_sigma(std::string_view text, std::size_t at) {
  std::size_t size = 0;
  bool before = false;
  for (std::size_t i = at; i > 0;) {
    --i;
    while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80) --i;
    const std::uint32_t c = code_point_at(text, i, size);
    if (case_ignorable(c)) continue;
    before = cased(c);
    break;
  }
  if (!before) return false;
  (void)code_point_at(text, at, size);
  for (std::size_t i = at + size; i < text.size(); i += size) {
    const std::uint32_t c = code_point_at(text, i, size);
    if (!case_ignorable(c)) return !cased(c);
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, std::uint32_t c) {
  if (c == 0x0130) {
    out += "i\u0307";
  } else if (c == 0x03A3) {
    append_code_point(out, final_sigma(text, at) ? 0x03C2 : 0x03C3);
  } else {
    append_code_point(out, static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

// Calls each(code point, its byte offset, its bytes); broken bytes are passed on by `out` itself.
template <typename Each>
std::string mapped(std::string_view text, Each&& each) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    if (broken(c)) {
      out += text.substr(at, size);
    } else {
      each(out, c, at);
    }
  }
  return out;
}

}  // namespace

std::uint32_t code_point_at(std::string_view text, std::size_t at, std::size_t& size) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  size = 1;
  if (lead < 0x80) return lead;
  const std::size_t length = lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead >= 0xF5 || at + length > text.size()) return 0xDC00 + lead;
  std::uint32_t value = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) return 0xDC00 + lead;
    value = value << 6U | (byte(at + i) & 0x3FU);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || broken(value)) return 0xDC00 + lead;
  size = length;
  return value;
}

void append_code_point(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0U | c >> 6U);
    out += static_cast<char>(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0U | c >> 12U);
    out += static_cast<char>(0x80U | (c >> 6U & 0x3FU));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | c >> 18U);
    out += static_cast<char>(0x80U | (c >> 12U & 0x3FU));
    out += static_cast<char>(0x80U | (c >> 6U & 0x3FU));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  }
}

std::size_t code_point_count(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size, ++count) (void)code_point_at(text, at, size);
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0, size = 0;
  for (; index > 0 && at < text.size(); --index, at += size) (void)code_point_at(text, at, size);
  return at;
}

std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    (void)code_point_at(text, at, size);
    out.push_back(text.substr(at, size));
  }
  return out;
}

bool is_space(std::uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(std::uint32_t c) {
  const auto kind = category(c);
  return c == ' ' ||
         !(kind == UTF8PROC_CATEGORY_CN || kind >= UTF8PROC_CATEGORY_ZS);  // CN 0, then Zs Zl Zp Cc Cf Cs Co
}

std::string to_lower(std::string_view text) {
  return mapped(text, [&](std::string& out, std::uint32_t c, std::size_t at) { append_lower(out, text, at, c); });
}

std::string to_upper(std::string_view text) {
  return mapped(text, [](std::string& out, std::uint32_t c, std::size_t) { append_upper(out, c); });
}

std::string to_title(std::string_view text) {
  bool inside = false;
  return mapped(text, [&](std::string& out, std::uint32_t c, std::size_t at) {
    inside ? append_lower(out, text, at, c) : append_title(out, c);
    inside = cased(c);
  });
}

std::string to_capitalized(std::string_view text) {
  return mapped(text, [&](std::string& out, std::uint32_t c, std::size_t at) {
    at == 0 ? append_title(out, c) : append_lower(out, text, at, c);
  });
}

namespace {
template <typename Drop>
std::string_view stripped(std::string_view text, bool left, bool right, Drop&& drop) {
  std::size_t begin = 0, end = 0;  // end: after the last kept code point
  bool kept = false;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    if (drop(c, text.substr(at, size))) {
      if (!kept) begin = at + size;
    } else {
      kept = true;
      end = at + size;
      if (!right) break;
    }
  }
  if (!left) begin = 0;
  if (!right) end = text.size();
  return text.substr(begin, end > begin ? end - begin : 0);
}
}  // namespace

std::string_view strip(std::string_view text, bool left, bool right) {
  return stripped(text, left, right, [](std::uint32_t c, std::string_view) { return is_space(c); });
}

std::string_view strip(std::string_view text, std::string_view chars, bool left, bool right) {
  const auto set = code_points(chars);
  return stripped(text, left, right, [&](std::uint32_t, std::string_view bytes) {
    return std::find(set.begin(), set.end(), bytes) != set.end();
  });
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    const std::uint32_t c = code_point_at(text, at, size);
    const bool ends = (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    const std::size_t content = at;
    if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') size = 2;
    out.push_back(text.substr(begin, content - begin));
    begin = at + size;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

std::string html_escape(std::string_view text) {
  static constexpr std::pair<char, std::string_view> table[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  std::string out;
  for (const char c : text) {
    const auto* found =
        std::find_if(std::begin(table), std::end(table), [c](const auto& row) { return row.first == c; });
    found == std::end(table) ? out += c : out += found->second;
  }
  return out;
}

}  // namespace tern::jinja
