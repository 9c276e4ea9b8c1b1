#include "jinja/expression_parser.h"

#include <algorithm>

#include "jinja/builtins.h"

namespace tern::jinja {

bool ExpressionParser::tuple_ends(std::string_view end) const {
  return now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end || is_op(")") ||
         (!end.empty() && is_name(end));
}

ExprPtr ExpressionParser::tuple(bool with_conditional, std::string_view end, bool parentheses) {
  auto guard = deeper();
  const Position at = now().at;
  ListExpr list;
  list.tuple = true;
  bool comma = false;
  while (!tuple_ends(end)) {
    list.items.push_back(with_conditional ? expression() : logical_or());
    if (!skip_op(",")) break;
    comma = true;
  }
  if (!comma) {
    if (!list.items.empty()) return std::move(list.items.front());
    if (!parentheses) fail(now().at, "an expression", described(now()));
  }
  return make(at, std::move(list));
}

ExprPtr ExpressionParser::expression() {
  auto guard = deeper();
  const Position at = now().at;
  ExprPtr left = logical_or();
  while (skip_name("if")) {
    chained();
    Conditional out;
    ++conditional_depth_;
    out.test = logical_or();
    out.then = std::move(left);
    if (skip_name("else")) out.otherwise = expression();
    --conditional_depth_;
    left = make(at, std::move(out));
  }
  return left;
}

ExprPtr ExpressionParser::binary(Position at, BinaryOp op, ExprPtr left, ExprPtr right) const {
  return make(at, Binary{op, std::move(left), std::move(right)});
}

ExprPtr ExpressionParser::logical_or() {
  ExprPtr left = logical_and();
  for (Position at = now().at; skip_name("or"); at = now().at) {
    chained();
    left = binary(at, BinaryOp::logical_or, std::move(left), logical_and());
  }
  return left;
}

ExprPtr ExpressionParser::logical_and() {
  ExprPtr left = logical_not();
  for (Position at = now().at; skip_name("and"); at = now().at) {
    chained();
    left = binary(at, BinaryOp::logical_and, std::move(left), logical_not());
  }
  return left;
}

ExprPtr ExpressionParser::logical_not() {
  const Position at = now().at;
  if (!skip_name("not")) return comparison();
  auto guard = deeper();
  return make(at, Unary{UnaryOp::logical_not, logical_not()});
}

bool ExpressionParser::comparison_operator(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> table[] = {{"==", CompareOp::eq}, {"!=", CompareOp::ne},
                                                                     {"<", CompareOp::lt},  {"<=", CompareOp::le},
                                                                     {">", CompareOp::gt},  {">=", CompareOp::ge}};
  for (const auto& [text, code] : table) {
    if (skip_op(text)) {
      op = code;
      return true;
    }
  }
  if (skip_name("in")) {
    op = CompareOp::in;
    return true;
  }
  if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
    next();
    next();
    op = CompareOp::not_in;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::comparison() {
  const Position at = now().at;
  Compare out;
  out.first = sum();
  CompareOp op{};
  while (comparison_operator(op)) out.rest.emplace_back(op, sum());
  return out.rest.empty() ? std::move(out.first) : make(at, std::move(out));
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  for (Position at = now().at; is_op("+") || is_op("-"); at = now().at) {
    chained();
    const BinaryOp op = next().text == "+" ? BinaryOp::add : BinaryOp::sub;
    left = binary(at, op, std::move(left), concat());
  }
  return left;
}

ExprPtr ExpressionParser::concat() {
  const Position at = now().at;
  Concat out;
  out.parts.push_back(product());
  while (skip_op("~")) out.parts.push_back(product());
  return out.parts.size() == 1 ? std::move(out.parts.front()) : make(at, std::move(out));
}

ExprPtr ExpressionParser::product() {
  static constexpr std::pair<std::string_view, BinaryOp> table[] = {
      {"*", BinaryOp::mul}, {"/", BinaryOp::div}, {"//", BinaryOp::floor_div}, {"%", BinaryOp::mod}};
  ExprPtr left = power();
  while (true) {
    const Position at = now().at;
    const auto* found =
        std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return is_op(row.first); });
    if (found == std::end(table)) return left;
    chained();
    next();
    left = binary(at, found->second, std::move(left), power());
  }
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(true);
  for (Position at = now().at; skip_op("**"); at = now().at) {
    chained();
    left = binary(at, BinaryOp::pow, std::move(left), unary(true));
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  auto guard = deeper();
  const Position at = now().at;
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const UnaryOp op = next().text == "-" ? UnaryOp::negate : UnaryOp::plus;
    node = make(at, Unary{op, unary(false)});
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::primary() {
  const Token token = next();
  switch (token.kind) {
    case TokenKind::name:
      if (token.text == "true" || token.text == "True") return make(token.at, Literal{Value(true)});
      if (token.text == "false" || token.text == "False") return make(token.at, Literal{Value(false)});
      if (token.text == "none" || token.text == "None") return make(token.at, Literal{Value()});
      note_special(token.text);
      return make(token.at, Name{token.text});
    case TokenKind::string: {
      std::string text = token.text;
      while (now().kind == TokenKind::string) text += next().text;
      return make(token.at, Literal{Value(std::move(text))});
    }
    case TokenKind::integer:
      return make(token.at, Literal{Value(token.integer)});
    case TokenKind::real:
      return make(token.at, Literal{Value(token.real)});
    default:
      break;
  }
  if (token.kind == TokenKind::op && token.text == "(") {
    ExprPtr inside = tuple(true, {}, true);
    expect_op(")");
    return inside;
  }
  if (token.kind == TokenKind::op && token.text == "[") return list(token.at);
  if (token.kind == TokenKind::op && token.text == "{") return dict(token.at);
  fail(token.at, "an expression", described(token));
}

ExprPtr ExpressionParser::list(Position at) {
  ListExpr out;
  while (!is_op("]")) {
    if (!out.items.empty()) expect_op(",");
    if (is_op("]")) break;
    out.items.push_back(expression());
  }
  expect_op("]");
  return make(at, std::move(out));
}

ExprPtr ExpressionParser::dict(Position at) {
  DictExpr out;
  while (!is_op("}")) {
    if (!out.entries.empty()) expect_op(",");
    if (is_op("}")) break;
    ExprPtr key = expression();
    expect_op(":");
    ExprPtr value = expression();
    out.entries.emplace_back(std::move(key), std::move(value));
  }
  expect_op("}");
  return make(at, std::move(out));
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    const Position at = now().at;
    if (is_op(".") || is_op("[")) {
      chained();
      node = subscript(at, std::move(node));
    } else if (is_op("(")) {
      chained();
      CallArguments arguments = call_arguments();
      node = make(at, Call{std::move(node), std::move(arguments)});
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::subscript(Position at, ExprPtr object) {
  if (skip_op(".")) {
    const Token name = next();
    if (name.kind == TokenKind::name) return make(at, GetAttr{std::move(object), name.text});
    if (name.kind != TokenKind::integer) fail(name.at, "a name or a number after `.`", described(name));
    return make(at, GetItem{std::move(object), make(name.at, Literal{Value(name.integer)}), std::nullopt});
  }
  expect_op("[");
  GetItem out;
  out.object = std::move(object);
  ListExpr several;
  several.tuple = true;
  while (!is_op("]")) {
    if (several.items.empty()) {
      if (is_slice(out)) break;
    } else {
      expect_op(",");
      out.index = expression();
    }
    several.items.push_back(std::move(out.index));
  }
  expect_op("]");
  if (!out.slice) {
    if (several.items.empty()) fail(at, "an index", "`[]`");
    out.index = several.items.size() == 1 ? std::move(several.items.front()) : make(at, std::move(several));
  }
  return make(at, std::move(out));
}

// Reads an index into out.index, or a slice into out.slice.
bool ExpressionParser::is_slice(GetItem& out) {
  ExprPtr start;
  if (!is_op(":")) {
    start = expression();
    if (!is_op(":")) {
      out.index = std::move(start);
      return false;
    }
  }
  expect_op(":");
  Slice slice;
  slice.start = std::move(start);
  const auto ended = [&] { return is_op(":") || is_op("]") || is_op(","); };
  if (!ended()) slice.stop = expression();
  if (skip_op(":") && !ended()) slice.step = expression();
  out.slice = std::move(slice);
  return true;
}

CallArguments ExpressionParser::call_arguments() {
  CallArguments out;
  const Position at = now().at;
  expect_op("(");
  const auto ordered = [&](bool right) {
    if (!right) fail(at, "arguments in the order positional, named, *, **", "another order");
  };
  bool comma = false;
  while (!is_op(")")) {
    if (comma) {
      expect_op(",");
      if (is_op(")")) break;
    }
    if (skip_op("*")) {
      ordered(!out.star && !out.double_star);
      out.star = expression();
    } else if (skip_op("**")) {
      ordered(!out.double_star);
      out.double_star = expression();
    } else if (now().kind == TokenKind::name && ahead().kind == TokenKind::op && ahead().text == "=") {
      ordered(!out.double_star);
      std::string name = next().text;
      next();
      out.keyword.emplace_back(std::move(name), expression());
    } else {
      ordered(!out.star && !out.double_star && out.keyword.empty());
      out.positional.push_back(expression());
    }
    comma = true;
  }
  expect_op(")");
  return out;
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr node) {
  while (true) {
    const Position at = now().at;
    if (skip_op("|")) {
      chained();
      node = one_filter(std::move(node));
    } else if (skip_name("is")) {
      chained();
      node = test(at, std::move(node));
    } else if (is_op("(")) {
      chained();
      CallArguments arguments = call_arguments();
      node = make(at, Call{std::move(node), std::move(arguments)});
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::filters(ExprPtr node) {
  while (skip_op("|")) {
    chained();
    node = one_filter(std::move(node));
  }
  return node;
}

std::string ExpressionParser::dotted_name(const char* what) {
  std::string name = expect_name(what);
  while (skip_op(".")) name += "." + expect_name(what);
  return name;
}

// As in Jinja, one that is unknown is an error at once, but inside a condition only where it is reached.
ExprPtr ExpressionParser::one_filter(ExprPtr operand) {
  const Position at = now().at;
  FilterExpr out{std::move(operand), dotted_name("a filter's name"), {}};
  if (!conditional_depth_ && !has_filter(out.name)) fail(at, "a filter that Jinja knows", cat("`", out.name, "`"));
  if (is_op("(")) out.arguments = call_arguments();
  return make(at, std::move(out));
}

ExprPtr ExpressionParser::test(Position at, ExprPtr operand) {
  const bool negated = skip_name("not");
  const Position named = now().at;
  TestExpr out{std::move(operand), dotted_name("a test's name"), {}};
  if (!conditional_depth_ && !has_test(out.name)) fail(named, "a test that Jinja knows", cat("`", out.name, "`"));
  const Token& token = now();
  const bool literal = token.kind == TokenKind::name || token.kind == TokenKind::string ||
                       token.kind == TokenKind::integer || token.kind == TokenKind::real || is_op("[") || is_op("{");
  if (is_op("(")) {
    out.arguments = call_arguments();
  } else if (literal && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail(token.at, "one test", "a second `is` behind it");
    auto guard = deeper();
    out.arguments.positional.push_back(postfix(primary()));
  }
  ExprPtr node = make(at, std::move(out));
  return negated ? make(at, Unary{UnaryOp::logical_not, std::move(node)}) : std::move(node);
}

}  // namespace tern::jinja
