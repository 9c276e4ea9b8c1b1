#include "jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/status.h"
#include "base/strings.h"
#include "jinja/expression_parser.h"

namespace tern::jinja {
namespace {

constexpr int max_statement_depth = 100;

using Names = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() { return statements_until({}); }

 private:
  Body statements_until(Names ends) {
    Deeper guard(*this, statement_depth_, max_statement_depth, "tags");
    Body body;
    while (now().kind != TokenKind::end) {
      const Position at = now().at;
      links_ = 0;
      if (now().kind == TokenKind::data) {
        body.push_back({at, Data{next().text}});
      } else if (now().kind == TokenKind::variable_begin) {
        next();
        ExprPtr value = tuple(true);
        expect_kind(TokenKind::variable_end, "`}}`");
        body.push_back({at, Output{std::move(value)}});
      } else {
        expect_kind(TokenKind::block_begin, "`{%`");
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); })) return body;
        body.push_back(statement(ends));
        expect_kind(TokenKind::block_end, "`%}`");
      }
    }
    if (ends.size()) fail(now().at, cat("`{% ", *(ends.end() - 1), " %}`"), "the end of the template");
    return body;
  }

  // The body of a tag: up to, but not over, the first of `ends`.
  Body block(Names ends) {
    skip_op(":");
    expect_kind(TokenKind::block_end, "`%}`");
    Body body = statements_until(ends);
    links_ = 0;
    return body;
  }
  Body block_through(std::string_view end) {
    Body body = block({end});
    next();
    return body;
  }

  Stmt statement(Names ends) {
    const Token tag = now();
    const std::string name = expect_name("a tag's name");
    if (name == "for") return {tag.at, for_loop()};
    if (name == "if") return {tag.at, if_chain()};
    if (name == "set") return set(tag.at);
    if (name == "macro") return {tag.at, macro()};
    if (name == "filter") return {tag.at, filter_block()};
    if (name == "generation") return {tag.at, Generation{own_block("endgeneration")}};
    if (name == "break" || name == "continue") {
      if (loop_depth_ == 0) fail(tag.at, cat("`", name, "` inside a loop"), "none around it");
      if (name == "break") return {tag.at, Break{}};
      return {tag.at, Continue{}};
    }
    std::string expected = "a tag that chat templates use";
    if (ends.size()) expected += cat(", or `", *(ends.end() - 1), "`");
    fail(tag.at, std::move(expected), cat("`", name, "`"));
  }

  For for_loop() {
    For loop;
    loop.target = target(false, "in");
    expect_keyword("in");
    loop.iterable = tuple(false);
    if (skip_name("if")) loop.test = expression();
    ++loop_depth_;
    loop.body = block({"else", "endfor"});
    --loop_depth_;
    if (next().text == "else") loop.otherwise = block_through("endfor");
    return loop;
  }

  If if_chain() {
    If chain;
    ++conditional_depth_;
    while (true) {
      ExprPtr test = tuple(false);
      Body body = block({"elif", "else", "endif"});
      chain.branches.emplace_back(std::move(test), std::move(body));
      const bool again = now().text == "elif";
      const bool otherwise = now().text == "else";
      (void)next();
      if (again) continue;
      if (otherwise) chain.otherwise = block_through("endif");
      --conditional_depth_;
      return chain;
    }
  }

  Stmt set(Position at) {
    Target into = target(true);
    if (skip_op("=")) {
      ExprPtr value = tuple(true);
      return {at, Set{std::move(into), std::move(value)}};
    }
    return {at, SetBlock{std::move(into), block_through("endset")}};
  }

  MacroDef macro() {
    auto function = std::make_shared<Function>();
    function->name = assignable_name();
    function->parameters = signature();
    function->body = own_block("endmacro");
    return MacroDef{std::move(function)};
  }

  // The loops around a tag's body are not its own.
  Body own_block(std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    Body body = block_through(end);
    loop_depth_ = loops;
    return body;
  }

  FilterBlock filter_block() {
    FilterBlock out;
    out.filter = filters(one_filter(nullptr));
    out.body = block_through("endfilter");
    return out;
  }

  std::string assignable_name() {
    const Position at = now().at;
    std::string name = expect_name("a name");
    for (const std::string_view constant : {"true", "True", "false", "False", "none", "None"}) {
      if (name == constant) fail(at, "a name that can be assigned to", cat("`", name, "`"));
    }
    return name;
  }

  std::vector<Parameter> signature() {
    std::vector<Parameter> parameters;
    expect_op("(");
    while (!is_op(")")) {
      if (!parameters.empty()) expect_op(",");
      Parameter parameter;
      const Position at = now().at;
      parameter.name = assignable_name();
      if (skip_op("=")) {
        parameter.default_value = expression();
      } else if (!parameters.empty() && parameters.back().default_value) {
        fail(at, "a default value, as the parameter before it has one", "none");
      }
      parameters.push_back(std::move(parameter));
    }
    expect_op(")");
    return parameters;
  }

  Target target(bool with_namespace, std::string_view end = {}) {
    Target first;
    first.at = now().at;
    first.tuple = true;
    bool comma = false;
    while (true) {
      const bool ended =
          is_op("=") || is_op(")") || now().kind == TokenKind::block_end || (!end.empty() && is_name(end));
      if (ended) break;
      first.parts.push_back(one_target(with_namespace));
      if (!skip_op(",")) break;
      comma = true;
    }
    if (first.parts.empty()) fail(first.at, "a name to assign to", described(now()));
    if (!comma) {
      Target only = std::move(first.parts.front());
      return only;
    }
    return first;
  }

  Target one_target(bool with_namespace) {
    auto guard = deeper();
    Target out;
    out.at = now().at;
    if (skip_op("(")) {
      out = target(with_namespace);
      expect_op(")");
      return out;
    }
    out.name = assignable_name();
    if (with_namespace && skip_op(".")) out.attribute = expect_name("an attribute of the namespace");
    return out;
  }

  int statement_depth_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

Body parse(std::string_view source, const std::string& where) { return Parser(tokenize(source, where), where).run(); }

}  // namespace tern::jinja
