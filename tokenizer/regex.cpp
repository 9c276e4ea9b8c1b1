#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "base/status.h"
#include "base/strings.h"
#include "tokenizer/unicode/unicode.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

namespace {

// The mend of an expression that is not read: models that are in use have none such.
constexpr const char* kPublished = "use the model's tokenizer.json as it was published";

constexpr std::string_view kOnigWord = "\\p{L}\\p{M}\\p{N}\\p{Pc}";  // PCRE2's own \w lacks marks and connectors

// Rewrites what Oniguruma's Ruby syntax means otherwise than PCRE2: \w, \W, \h (hexadecimal there), && is refused.
std::string from_oniguruma(std::string_view pattern, const std::string& where) {
  std::string out;
  int depth = 0;  // of character classes
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char e = pattern[++i];
      if (e == 'w') {
        out += depth > 0 ? std::string(kOnigWord) : cat("[", kOnigWord, "]");
      } else if (e == 'W' && depth == 0) {
        out += cat("[^", kOnigWord, "]");
      } else if (e == 'h') {
        out += depth > 0 ? "0-9a-fA-F" : "[0-9a-fA-F]";
      } else if (e == 'H' && depth == 0) {
        out += "[^0-9a-fA-F]";
      } else if ((e == 'b' || e == 'B') && depth == 0) {
        const std::string w = cat("[", kOnigWord, "]");
        out += e == 'b' ? cat("(?:(?<=", w, ")(?!", w, ")|(?<!", w, ")(?=", w, "))")
                        : cat("(?:(?<=", w, ")(?=", w, ")|(?<!", w, ")(?!", w, "))");
      } else if (e == 'Z' || e == 'z' || e == 'A' || e == 'G' || depth == 0 || (e != 'W' && e != 'H')) {
        out += c;
        out += e;
      } else {
        throw Failure(data_error(where, "a regular expression without \\W or \\H inside a class", std::string(pattern),
                                 kPublished));
      }
      continue;
    }
    if (c == '[') {
      if (depth > 0 && i + 1 < pattern.size() && pattern[i + 1] != ':') {
        throw Failure(data_error(where, "a regular expression without nested character classes", std::string(pattern),
                                 kPublished));
      }
      if (depth > 0) {  // a POSIX class, copied to its end
        const std::size_t end = pattern.find(":]", i + 2);
        if (end == std::string_view::npos) {
          throw Failure(data_error(where, "a regular expression whose classes end", std::string(pattern), kPublished));
        }
        out += pattern.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
      depth = 1;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') {
        out += "\\]";
        ++i;
      }
      continue;
    }
    if (c == ']' && depth > 0) depth = 0;
    if (c == '&' && depth > 0 && i + 1 < pattern.size() && pattern[i + 1] == '&') {
      throw Failure(
          data_error(where, "a regular expression without && inside a class", std::string(pattern), kPublished));
    }
    out += c;
  }
  return out;
}

// True where the pattern asks for properties of characters: explicit ranges must see the text as it is.
bool asks_properties(std::string_view pattern) {
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '\\') continue;
    if (std::string_view("pPwWsSdDbBX").find(pattern[i + 1]) != std::string_view::npos) return true;
    ++i;
  }
  return pattern.find("[:") != std::string_view::npos;
}

struct MatchData {
  pcre2_match_data* data;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {}
  ~MatchData() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;

  // A stack for matches that need more than the JIT's own 32 KiB; mapped only then, as few do.
  void enlarge() {
    if (stack != nullptr) return;
    context = pcre2_match_context_create(nullptr);
    stack = pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{64} << 20, nullptr);
    if (context != nullptr && stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
};

std::string pcre_message(int code) {
  PCRE2_UCHAR text[160];
  if (pcre2_get_error_message(code, text, sizeof text) < 0) return cat("error ", code);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

Regex::Regex(std::string_view pattern, bool literal, const std::string& where) : where_(where) {
  if (literal) {
    literal_ = pattern;
    may_match_empty_ = literal_.empty();
    if (!literal_.empty()) return;
  }
  asks_properties_ = asks_properties(pattern);
  compile(literal ? std::string() : from_oniguruma(pattern, where), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE);
}

Regex::Regex(std::string_view pattern, RegexDialect dialect, const std::string& where)
    : where_(where), bytes_(dialect == RegexDialect::bytes) {
  if (dialect == RegexDialect::oniguruma) {
    asks_properties_ = asks_properties(pattern);
    compile(from_oniguruma(pattern, where), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE);
  } else {
    compile(pattern, bytes_ ? PCRE2_DOLLAR_ENDONLY : PCRE2_UTF | PCRE2_DOLLAR_ENDONLY);
  }
}

void Regex::compile(std::string_view pattern, std::uint32_t options) {
  int error = 0;
  PCRE2_SIZE at = 0;
  code_ = std::make_unique<Code>();
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              options | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code_->code == nullptr) {
    throw Failure(data_error(where_, "a regular expression that PCRE2 compiles",
                             cat('"', pattern, "\": ", pcre_message(error), " at byte ", at), kPublished));
  }
  (void)pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // where there is no JIT, the interpreter answers
  std::uint32_t minimum = 0;
  (void)pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &minimum);
  may_match_empty_ = minimum != 0;
}

Regex::~Regex() = default;

void Regex::find_all(std::string_view text, std::vector<Range>& out) const {
  if (!literal_.empty()) {
    for (std::size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size())) {
      out.emplace_back(at, at + literal_.size());
    }
    return;
  }
  if (text.empty()) return;
  std::string shadow;
  if (asks_properties_ && pcre_shadow(text, shadow)) text = shadow;
  MatchData match(code_->code);
  if (match.data == nullptr) throw std::bad_alloc();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0;
  std::size_t last_end = SIZE_MAX;
  while (at <= text.size()) {
    int found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.data, match.context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      match.enlarge();
      found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.data, match.context);
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found =
          pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.data, nullptr);
    }
    if (found == PCRE2_ERROR_NOMATCH) return;
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.data);
    const std::size_t begin = bounds[0];
    const std::size_t end = bounds[1];
    if (found < 0 || end < begin) {  // PCRE2 before 10.38 lets \K into a lookahead
      throw Failure(data_error(where_, "a regular expression that can be matched",
                               found < 0 ? pcre_message(found) : "\\K in a lookahead", kPublished));
    }
    if (begin == end && end == last_end) {
      if (at >= text.size()) return;
      at = bytes_ ? end + 1 : end + utf8_length(static_cast<unsigned char>(text[end]));
      continue;
    }
    out.emplace_back(begin, end);
    at = end;
    last_end = end;
  }
}

}  // namespace tern::tokenizer
