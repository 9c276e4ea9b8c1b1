// The strings that tokenizers are compared on: script/golden.d/tokenizer_corpus.py makes the same ones in Python.
// Every string is a function of its number, by integer arithmetic alone.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer::corpus {

struct CharSpan {
  char32_t first, last;
};

inline constexpr CharSpan kScripts[] = {
    {0x61, 0x7a},       {0x41, 0x5a},       {0x61, 0x7a},       {0xc0, 0x17f},      {0x180, 0x24f},
    {0x370, 0x3ff},     {0x400, 0x45f},     {0x531, 0x587},     {0x5d0, 0x5ea},     {0x620, 0x65f},
    {0x900, 0x97f},     {0x980, 0x9fe},     {0xa01, 0xa76},     {0xb82, 0xbfa},     {0xe01, 0xe5b},
    {0xe81, 0xedf},     {0xf00, 0xfda},     {0x1000, 0x109f},   {0x10a0, 0x10ff},   {0x1100, 0x11ff},
    {0x1200, 0x137c},   {0x13a0, 0x13fd},   {0x1780, 0x17f9},   {0x1800, 0x18aa},   {0x1e00, 0x1eff},
    {0x1f00, 0x1ffe},   {0x2c00, 0x2c5f},   {0x3041, 0x30ff},   {0x3100, 0x312f},   {0x3400, 0x4dbf},
    {0x4e00, 0x9fff},   {0x4e00, 0x6fff},   {0xa000, 0xa48c},   {0xa720, 0xa7ff},   {0xac00, 0xd7a3},
    {0xac00, 0xd7a3},   {0xf900, 0xfad9},   {0xfb00, 0xfb4f},   {0xfe70, 0xfefc},   {0xff00, 0xffef},
    {0x10330, 0x1034a}, {0x10400, 0x1044f}, {0x10d40, 0x10d8f}, {0x11900, 0x11959}, {0x11f00, 0x11f59},
    {0x12000, 0x12399}, {0x1d400, 0x1d7ff}, {0x1e900, 0x1e95f}, {0x20000, 0x2a6df}, {0x2ebf0, 0x2ee5d},
    {0x30000, 0x3134a}};
inline constexpr CharSpan kMarks[] = {{0x300, 0x36f},    {0x483, 0x487},   {0x591, 0x5bd},   {0x64b, 0x65f},
                                      {0x93c, 0x94d},    {0xe34, 0xe3a},   {0x1ab0, 0x1ace}, {0x1dc0, 0x1dff},
                                      {0x20d0, 0x20f0},  {0x302a, 0x302f}, {0x3099, 0x309a}, {0xfe20, 0xfe2f},
                                      {0x1d165, 0x1d169}};
inline constexpr CharSpan kNumbers[] = {{0x30, 0x39},      {0x30, 0x39},     {0x30, 0x39},     {0x660, 0x669},
                                        {0x966, 0x96f},    {0xb2, 0xb3},     {0xbc, 0xbe},     {0x2150, 0x218b},
                                        {0x2460, 0x249b},  {0x3021, 0x3029}, {0xff10, 0xff19}, {0x1d7ce, 0x1d7ff},
                                        {0x11de0, 0x11de9}};
inline constexpr char32_t kSpaces[] = {0x20,   0x20,   0x20,   0x20,   0xa,    0xa,    0x9,    0xd,    0xb,
                                       0xc,    0x85,   0xa0,   0x1680, 0x180e, 0x2003, 0x2009, 0x200b, 0x2028,
                                       0x2029, 0x202f, 0x205f, 0x2060, 0x3000, 0xfeff, 0x2581};
inline constexpr CharSpan kSymbols[] = {{0x21, 0x2f},     {0x21, 0x2f},     {0x3a, 0x40},     {0x5b, 0x60},
                                        {0x7b, 0x7e},     {0xa1, 0xbf},     {0x2010, 0x2027}, {0x2030, 0x205e},
                                        {0x20a0, 0x20c0}, {0x2100, 0x214f}, {0x2190, 0x23ff}, {0x2500, 0x27bf},
                                        {0x3001, 0x3020}, {0xff01, 0xff0f}};
inline constexpr CharSpan kEmoji[] = {{0x1f300, 0x1f5ff}, {0x1f600, 0x1f64f}, {0x1f680, 0x1f6ff},
                                      {0x1f900, 0x1f9ff}, {0x2600, 0x26ff},   {0x1fa70, 0x1faff}};
inline constexpr std::string_view kSpecial[] = {"<|endoftext|>", "<|im_start|>",
                                                "<|im_end|>",    "<s>",
                                                "</s>",          "<unk>",
                                                "<pad>",         "<mask>",
                                                "[CLS]",         "[SEP]",
                                                "[MASK]",        "[UNK]",
                                                "<tool_call>",   "</think>",
                                                "<|endoftext",   "<|im_",
                                                "<0x0A>",        "<|extra|>",
                                                "newword",       "Yesterday",
                                                "##ing",         "<|begin_of_text|>",
                                                "\xE2\x96\x81",  "</w>",
                                                "ADDED",         "\xC3\xA9t\xC3\xA9"};
inline constexpr std::string_view kCode[] = {
    "def f(x):\n    return x * 2\n",
    "int main() { return 0; }\r\n",
    "for (i=0; i<10; ++i)\t{\n",
    "SELECT * FROM t WHERE a='b';",
    "<div class=\"x\">&amp;</div>",
    "https://example.org/a?b=c&d=%20e#f",
    "user@example.com",
    "C:\\Users\\x\\y.txt",
    "{\"k\": [1, 2.5e-3, null]}",
    "I'm we'll you've they'd it's don't we're",
    "I'M WE'LL YOU'VE THEY'D IT'S DON'T WE'RE",
    "it'\xC5\xBF and '\xC5\xBFx",
    "e\xCC\x81 \xC3\xA9 A\xCC\x8A \xE1\xBA\x9B\xCC\xA3",
    "1234567890 3.14159 1,000,000",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82",
    "$x^2 + y_1 \\le \\frac{1}{2}$",
    "   indented\n\n\n  more",
    "  trailing   ",
    "\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 \xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
    "fi\xEF\xAC\x81 \xE2\x91\xA0 \xE3\x8E\xA0 \xEF\xBC\xA1\xEF\xBC\xA2",
    "don't do not 's n't ,",
    " . ? ! ,",
    "\xC4\xB0stanbul \xE1\xBA\x9E \xCE\xA3\xCF\x82"};
inline constexpr std::string_view kJoiners[] = {"\xE2\x80\x8D", "\xEF\xB8\x8F", "\xF0\x9F\x8F\xBD", "\xE2\x83\xA3",
                                                "\xF3\xA0\x81\xA7"};

class Lcg {
 public:
  explicit Lcg(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 0xD1B54A32D192ED03U) { (void)pick(2); }
  std::uint64_t pick(std::uint64_t n) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33) % n;
  }
  void add_char(std::string& out, CharSpan span) {
    append_char(out, static_cast<char32_t>(span.first + pick(span.last - span.first + 1)));
  }

 private:
  std::uint64_t state_;
};

inline std::string plain_or_spaced(Lcg& r, bool spaced) {
  std::string out;
  if (spaced) out.append(r.pick(3), ' ');
  out += kSpecial[r.pick(std::size(kSpecial))];
  if (spaced) out.append(r.pick(3), ' ');
  return out;
}

inline std::string emoji(Lcg& r) {
  std::string out;
  for (std::uint64_t i = 1 + r.pick(4); i > 0; --i) {
    r.add_char(out, kEmoji[r.pick(std::size(kEmoji))]);
    if (r.pick(2) != 0) out += kJoiners[r.pick(std::size(kJoiners))];
  }
  return out;
}

// `least` to `least + spread - 1` characters, each from a span of its own, or all from one.
template <std::size_t N>
std::string characters(Lcg& r, const CharSpan (&spans)[N], std::uint64_t spread, bool one_span) {
  std::string out;
  const CharSpan span = one_span ? spans[r.pick(N)] : CharSpan{};
  for (std::uint64_t i = 1 + r.pick(spread); i > 0; --i) r.add_char(out, one_span ? span : spans[r.pick(N)]);
  return out;
}

inline std::string piece(Lcg& r) {
  const std::uint64_t kind = r.pick(24);
  std::string out;
  if (kind < 7) return characters(r, kScripts, 9, true);
  if (kind < 10) {
    for (std::uint64_t i = 1 + r.pick(8); i > 0; --i) out += static_cast<char>(0x61 + r.pick(26));
    return out + ' ';
  }
  if (kind == 10) return characters(r, kNumbers, 6, false);
  if (kind < 13) {
    for (std::uint64_t i = 1 + r.pick(4); i > 0; --i) append_char(out, kSpaces[r.pick(std::size(kSpaces))]);
    return out;
  }
  if (kind < 15) return characters(r, kSymbols, 4, false);
  if (kind == 15) return emoji(r);
  if (kind == 16) {
    r.add_char(out, kScripts[r.pick(std::size(kScripts))]);
    return out + characters(r, kMarks, 4, false);
  }
  if (kind < 19) return plain_or_spaced(r, kind == 18);
  if (kind < 21) return std::string(kCode[r.pick(std::size(kCode))]);
  if (kind == 21) {
    out += static_cast<char>(r.pick(32));
    if (r.pick(2) != 0) out += '\x7F';
    return out;
  }
  if (kind == 22) {
    for (std::uint64_t i = 1 + r.pick(5); i > 0; --i) out += static_cast<char>(0x80 + r.pick(128));
    return out;
  }
  const auto c = static_cast<char32_t>(0x80 + r.pick(0x10FFFF - 0x80));
  if (c < 0xD800 || c > 0xDFFF) append_char(out, c);
  return out;
}

// The bytes of string `number`; every 97th has a long run, number 0 is empty.
inline std::string string(std::uint64_t number) {
  std::string out;
  if (number == 0) return out;
  Lcg r(number);
  for (std::uint64_t i = 1 + r.pick(1 + number % 23); i > 0; --i) out += piece(r);
  if (number % 97 == 0) {
    const std::string part = piece(r);
    for (std::uint64_t i = 50 + r.pick(400); i > 0; --i) out += part;
  }
  return out;
}

}  // namespace tern::tokenizer::corpus
