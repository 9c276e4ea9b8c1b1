// The tokens of a template under the parser's eye, and expressions made of them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "jinja/ast.h"

namespace tern::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, const std::string& where) : tokens_(std::move(tokens)), where_(where) {}

 protected:
  // Bounds of the tree's depth, so that neither evaluating nor freeing it can exhaust the stack.
  static constexpr int max_expression_depth = 250;
  static constexpr int max_links = 500;

  [[nodiscard]] const Token& now() const { return tokens_[at_]; }
  [[nodiscard]] const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  [[nodiscard]] bool is_op(std::string_view op) const { return now().kind == TokenKind::op && now().text == op; }
  [[nodiscard]] bool is_name(std::string_view name) const {
    return now().kind == TokenKind::name && now().text == name;
  }
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }

  [[noreturn]] void fail(Position at, std::string expected, std::string found) const {
    throw Failure(
        data_error(cat(where_, ":", at.line, ":", at.column), std::move(expected), std::move(found), correct_template));
  }
  [[nodiscard]] static std::string described(const Token& token) {
    switch (token.kind) {
      case TokenKind::data:
        return "text";
      case TokenKind::variable_begin:
        return "`{{`";
      case TokenKind::variable_end:
        return "`}}`";
      case TokenKind::block_begin:
        return "`{%`";
      case TokenKind::block_end:
        return "`%}`";
      case TokenKind::string:
        return "a string";
      case TokenKind::integer:
        return cat("`", token.integer, "`");
      case TokenKind::real:
        return cat("`", token.real, "`");
      case TokenKind::end:
        return "the end of the template";
      default:
        return cat("`", token.text, "`");
    }
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail(now().at, cat("`", op, "`"), described(now()));
  }
  std::string expect_name(std::string_view what) {
    if (now().kind != TokenKind::name) fail(now().at, std::string(what), described(now()));
    return next().text;
  }
  void expect_keyword(std::string_view word) {
    if (!skip_name(word)) fail(now().at, cat("`", word, "`"), described(now()));
  }
  void expect_kind(TokenKind kind, const char* what) {
    if (now().kind != kind) fail(now().at, what, described(now()));
    next();
  }

  struct Deeper {
    Deeper(const ExpressionParser& parser, int& count, int limit, const char* what) : count_(count) {
      if (++count_ > limit) {
        --count_;
        parser.fail(parser.now().at, cat(what, " nested at most ", limit, " deep"), "deeper nesting");
      }
    }
    ~Deeper() { --count_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& count_;
  };
  Deeper deeper() { return Deeper(*this, expression_depth_, max_expression_depth, "an expression"); }

  template <typename Node>
  ExprPtr make(Position at, Node node) const {
    return std::make_unique<const Expr>(Expr{at, std::move(node)});
  }
  // A chain like a + b + c + ... leans left: its length is depth as well. Counted over the whole tag, as chains nest.
  void chained() {
    if (++links_ > max_links) fail(now().at, cat("at most ", max_links, " operators in one tag"), "more");
  }

  [[nodiscard]] bool tuple_ends(std::string_view end) const;
  ExprPtr tuple(bool with_conditional, std::string_view end = {}, bool parentheses = false);
  ExprPtr expression();
  ExprPtr binary(Position at, BinaryOp op, ExprPtr left, ExprPtr right) const;
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  bool comparison_operator(BinaryOp& op);
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr list(Position at);
  ExprPtr dict(Position at);
  ExprPtr postfix(ExprPtr node);
  ExprPtr subscript(Position at, ExprPtr object);
  ExprPtr index(Position at, ExprPtr object);
  CallArguments call_arguments();
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr filters(ExprPtr node);
  ExprPtr one_filter(ExprPtr operand);
  ExprPtr test(Position at, ExprPtr operand);

  std::vector<Token> tokens_;
  const std::string& where_;
  std::size_t at_ = 0;
  int expression_depth_ = 0;
  int conditional_depth_ = 0;
  int links_ = 0;
};

}  // namespace tern::jinja
