// Regular expressions of tokenizer files, which are written for Oniguruma, run by PCRE2's JIT compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern::tokenizer {

using Range = std::pair<std::size_t, std::size_t>;  // [first, second) in bytes

// How a pattern is read: as Oniguruma does; as C++'s ECMAScript grammar does, with \s, \d and \w for ASCII alone and $
// at the end alone; or that over bytes that are characters of their own.
enum class RegexDialect { oniguruma, ascii_classes, bytes };

class Regex {
 public:
  // Compiles; throws Failure (kind data) naming `where`. A literal pattern is matched as it stands.
  Regex(std::string_view pattern, bool literal, const std::string& where);
  Regex(std::string_view pattern, RegexDialect dialect, const std::string& where);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // All matches from left to right, as Oniguruma's search loop finds them: never an empty one right after another
  // match. Appends to `out`; positions count from the start of `text`. Throws Failure where PCRE2's limits are
  // exceeded.
  void find_all(std::string_view text, std::vector<Range>& out) const;
  [[nodiscard]] bool may_match_empty() const { return may_match_empty_; }

 private:
  struct Code;
  void compile(std::string_view pattern, std::uint32_t options);
  std::unique_ptr<Code> code_;
  std::string literal_;
  std::string where_;
  bool bytes_ = false;  // no UTF-8
  bool may_match_empty_ = false;
  bool asks_properties_ = false;
};

}  // namespace tern::tokenizer
