// Template source to tokens, with Jinja's rules for white space around tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::jinja {

// The mend of every error in a template.
inline constexpr const char* correct_template = "correct the template there, or choose another with --template";

struct Position {
  int line = 1;
  int column = 1;  // in code points, from 1
};

enum class TokenKind {
  data,            // text outside tags
  variable_begin,  // {{
  variable_end,
  block_begin,  // {%
  block_end,
  name,
  string,
  integer,
  real,
  op,  // any operator, spelled in `text`
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // data, name, string (unescaped) or operator
  std::int64_t integer = 0;
  double real = 0;
  Position at;
};

// Tokens of `source`, ending with an `end` token. trim_blocks and lstrip_blocks are on and one newline at the very end
// is dropped, as transformers compiles its templates. Throws Failure naming `where`, line and column.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source, const std::string& where);

}  // namespace tern::jinja
