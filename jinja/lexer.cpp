#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/status.h"
#include "base/strings.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string normalized_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& where) : source_(normalized_newlines(source)), where_(where) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    push(TokenKind::end, {}, at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string expected, std::string found) {
    const Position place = position(at);
    throw Failure(data_error(cat(where_, ":", place.line, ":", place.column), std::move(expected), std::move(found),
                             correct_template));
  }

  // Offsets mostly grow, so counting goes on from the last one.
  Position position(std::size_t at) {
    if (at < counted_) {
      counted_ = 0;
      place_ = Position{};
    }
    for (std::size_t size = 0; counted_ < at && counted_ < source_.size(); counted_ += size) {
      (void)code_point_at(source_, counted_, size);
      if (source_[counted_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
    return place_;
  }

  Token& push(TokenKind kind, std::string text, std::size_t at) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.at = position(at);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  [[nodiscard]] bool starts(std::string_view prefix, std::size_t at) const {
    return std::string_view(source_).substr(std::min(at, source_.size())).starts_with(prefix);
  }
  [[nodiscard]] std::size_t skip_space(std::size_t at) const {
    while (at < source_.size()) {
      std::size_t size = 0;
      if (!is_space(code_point_at(source_, at, size))) break;
      at += size;
    }
    return at;
  }

  // The text before a tag, less what the tag's sign and lstrip_blocks take off its end.
  void push_text(std::size_t begin, std::size_t end, char sign, bool variable) {
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') {
      text = strip(text, false, true);
    } else if (sign != '+' && !variable) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && strip(text.substr(line), true, true).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) push(TokenKind::data, std::string(text), begin);
  }

  [[nodiscard]] char sign_at(std::size_t at) const {
    const char c = at < source_.size() ? source_[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void after_match(std::size_t end) {
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    at_ = end;
  }

  void read_text() {
    std::size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 >= source_.size()) {
        push(TokenKind::data, source_.substr(at_), at_);
        at_ = source_.size();
        return;
      }
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    const char kind = source_[open + 1];
    const char sign = sign_at(open + 2);
    push_text(at_, open, sign, kind == '{');
    const std::size_t inside = open + 2 + (sign ? 1 : 0);
    if (kind == '#') return read_comment(open, inside);
    push(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, {}, open);
    after_match(inside);
    read_tag(kind == '{', open);
  }

  // Behind the end of a block or comment whose mark is at `at` (its sign included); 0 where it is no end.
  [[nodiscard]] std::size_t block_close(std::string_view mark, std::size_t at) const {
    if (at < source_.size() && source_[at] == '+' && starts(mark, at + 1)) return at + 3;
    if (at < source_.size() && source_[at] == '-' && starts(mark, at + 1)) return skip_space(at + 3);
    if (!starts(mark, at)) return 0;
    return at + 2 + (starts("\n", at + 2) ? 1 : 0);  // trim_blocks
  }

  void read_comment(std::size_t open, std::size_t inside) {
    for (std::size_t i = inside; i < source_.size(); ++i) {
      if (const std::size_t end = block_close("#}", i)) return after_match(end);
    }
    fail(open, "`#}` to end the comment", "the end of the template");
  }

  void read_tag(bool variable, std::size_t open) {
    std::string closers;  // what the open brackets wait for
    while (at_ < source_.size()) {
      if (closers.empty()) {
        std::size_t end = 0;
        if (variable) {
          end = starts("-}}", at_) ? skip_space(at_ + 3) : starts("}}", at_) ? at_ + 2 : 0;
        } else {
          end = block_close("%}", at_);
        }
        if (end) {
          push(variable ? TokenKind::variable_end : TokenKind::block_end, {}, at_);
          return after_match(end);
        }
      }
      std::size_t size = 0;
      const std::uint32_t c = code_point_at(source_, at_, size);
      if (is_space(c)) {
        at_ += size;
      } else if (digit(source_[at_])) {
        read_number();
      } else if (letter(source_[at_])) {
        read_name();
      } else if (c == '\'' || c == '"') {
        read_string();
      } else {
        read_operator(closers);
      }
    }
    fail(open, variable ? "`}}` to end the tag" : "`%}` to end the tag", "the end of the template");
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && (letter(source_[at_]) || digit(source_[at_]))) ++at_;
    push(TokenKind::name, source_.substr(begin, at_ - begin), begin);
  }

  // Digits, or digits with a fraction.
  void read_number() {
    const std::size_t begin = at_;
    const auto digits = [&] {
      while (at_ < source_.size() && digit(source_[at_])) ++at_;
    };
    digits();
    const bool real = at_ + 1 < source_.size() && source_[at_] == '.' && digit(source_[at_ + 1]);
    if (real) {
      ++at_;
      digits();
    }
    const std::string text = source_.substr(begin, at_ - begin);
    Token& token = push(real ? TokenKind::real : TokenKind::integer, {}, begin);
    const char* last = text.data() + text.size();
    if (real) {
      std::from_chars(text.data(), last, token.real);
    } else if (std::from_chars(text.data(), last, token.integer).ec != std::errc{}) {
      fail(begin, "an integer within 64 bits", text);
    }
  }

  void read_string() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\') {
        read_escape(text);
      } else {
        text += source_[at_++];
      }
    }
    if (at_ >= source_.size()) fail(begin, cat("a closing ", quote), "the end of the template");
    ++at_;
    push(TokenKind::string, std::move(text), begin);
  }

  void read_escape(std::string& out) {
    const std::size_t begin = at_++;
    if (at_ >= source_.size()) return;
    static constexpr std::string_view names = "nrt\\'\"", codes = "\n\r\t\\'\"";
    std::size_t size = 0;
    (void)code_point_at(source_, at_, size);
    const std::size_t i = names.find(source_[at_]);
    if (i == std::string_view::npos) {
      fail(begin, R"(one of the escapes \n \r \t \\ \' \")", cat("`", source_.substr(begin, size + 1), "`"));
    }
    out += codes[i];
    ++at_;
  }

  void read_operator(std::string& closers) {
    static constexpr std::array<std::string_view, 26> operators{"//", "==", "!=", ">=", "<=", "+", "-", "/", "*",
                                                                "%",  "~",  "[",  "]",  "(",  ")", "{", "}", ">",
                                                                "<",  "=",  ".",  ":",  "|",  ",", ";", ""};
    const std::size_t begin = at_;
    const auto* found =
        std::find_if(operators.begin(), operators.end(), [&](std::string_view op) { return starts(op, begin); });
    if (found->empty()) {
      std::size_t size = 0;
      (void)code_point_at(source_, begin, size);
      fail(begin, "a name, a value or an operator", cat("`", source_.substr(begin, size), "`"));
    }
    const char c = (*found)[0];
    if (found->size() == 1 && (c == '(' || c == '[' || c == '{')) {
      closers += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (closers.empty()) fail(begin, "an opening bracket before it", cat("`", c, "`"));
      if (closers.back() != c) fail(begin, cat("`", closers.back(), "`"), cat("`", c, "`"));
      closers.pop_back();
    }
    at_ += found->size();
    push(TokenKind::op, std::string(*found), begin);
  }

  std::string source_;
  const std::string& where_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  std::size_t counted_ = 0;
  Position place_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& where) { return Lexer(source, where).run(); }

}  // namespace tern::jinja
