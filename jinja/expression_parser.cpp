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

bool ExpressionParser::comparison_operator(BinaryOp& op) {
  static constexpr std::pair<std::string_view, BinaryOp> table[] = {{"==", BinaryOp::eq}, {"!=", BinaryOp::ne},
                                                                    {"<", BinaryOp::lt},  {"<=", BinaryOp::le},
                                                                    {">", BinaryOp::gt},  {">=", BinaryOp::ge}};
  for (const auto& [text, code] : table) {
    if (skip_op(text)) {
      op = code;
      return true;
    }
  }
  if (skip_name("in")) {
    op = BinaryOp::in;
    return true;
  }
  if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
    next();
    next();
    op = BinaryOp::not_in;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::comparison() {
  const Position at = now().at;
  ExprPtr left = sum();
  BinaryOp op{};
  if (!comparison_operator(op)) return left;
  ExprPtr node = binary(at, op, std::move(left), sum());
  const Position second = now().at;
  if (comparison_operator(op)) fail(second, "one comparison; `and` joins two", "a second one behind it");
  return node;
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
  ExprPtr left = product();
  for (Position at = now().at; skip_op("~"); at = now().at) {
    chained();
    left = binary(at, BinaryOp::concat, std::move(left), product());
  }
  return left;
}

ExprPtr ExpressionParser::product() {
  static constexpr std::pair<std::string_view, BinaryOp> table[] = {
      {"*", BinaryOp::mul}, {"/", BinaryOp::div}, {"//", BinaryOp::floor_div}, {"%", BinaryOp::mod}};
  ExprPtr left = unary(true);
  while (true) {
    const Position at = now().at;
    const auto* found =
        std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return is_op(row.first); });
    if (found == std::end(table)) return left;
    chained();
    next();
    left = binary(at, found->second, std::move(left), unary(true));
  }
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  auto guard = deeper();
  const Position at = now().at;
  ExprPtr node;
  if (skip_op("-")) {
    node = make(at, Unary{UnaryOp::negate, unary(false)});
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
  if (skip_op(".")) return make(at, GetAttr{std::move(object), expect_name("a name after `.`")});
  expect_op("[");
  ExprPtr node = index(at, std::move(object));
  expect_op("]");
  return node;
}

// What stands between brackets: an index, or a slice.
ExprPtr ExpressionParser::index(Position at, ExprPtr object) {
  ExprPtr start = is_op(":") ? nullptr : expression();
  if (!skip_op(":")) return make(at, GetItem{std::move(object), std::move(start)});
  Slice slice{std::move(object), std::move(start), nullptr, nullptr};
  const auto ended = [&] { return is_op(":") || is_op("]"); };
  if (!ended()) slice.stop = expression();
  if (skip_op(":") && !ended()) slice.step = expression();
  return make(at, std::move(slice));
}

CallArguments ExpressionParser::call_arguments() {
  CallArguments out;
  const Position at = now().at;
  expect_op("(");
  while (!is_op(")")) {
    if (now().kind == TokenKind::name && ahead().kind == TokenKind::op && ahead().text == "=") {
      std::string name = next().text;
      next();
      out.keyword.emplace_back(std::move(name), expression());
    } else {
      if (!out.keyword.empty()) fail(at, "arguments in the order positional, named", "another order");
      out.positional.push_back(expression());
    }
    if (!skip_op(",")) break;
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

// As in Jinja, one that is unknown is an error at once, but inside a condition only where it is reached.
ExprPtr ExpressionParser::one_filter(ExprPtr operand) {
  const Position at = now().at;
  FilterExpr out{std::move(operand), expect_name("a filter's name"), {}};
  if (!conditional_depth_ && !has_filter(out.name))
    fail(at, "a filter that chat templates use", cat("`", out.name, "`"));
  if (is_op("(")) out.arguments = call_arguments();
  return make(at, std::move(out));
}

ExprPtr ExpressionParser::test(Position at, ExprPtr operand) {
  const bool negated = skip_name("not");
  const Position named = now().at;
  TestExpr out{std::move(operand), expect_name("a test's name"), {}};
  if (!conditional_depth_ && !has_test(out.name))
    fail(named, "a test that chat templates use", cat("`", out.name, "`"));
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
