// Regular expressions of tokenizer files, which are written for Oniguruma, run by PCRE2's JIT compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern::text {

using Range = std::pair<std::size_t, std::size_t>;  // [first, second) in bytes

class Regex {
 public:
  // Compiles; throws Failure (kind data) naming `where`. A literal pattern is matched as it stands.
  Regex(std::string_view pattern, bool literal, const std::string& where);
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
  std::unique_ptr<Code> code_;
  std::string literal_;
  std::string where_;
  bool may_match_empty_ = false;
  bool asks_properties_ = false;
};

}  // namespace tern::text
