#include "text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/status.h"
#include "base/strings.h"
#include "text/jinja_builtins.h"

namespace tern::text::jinja {
namespace {

// Bounds of the tree's depth, so that neither evaluating nor freeing it can exhaust the stack.
constexpr int max_expression_depth = 250;
constexpr int max_statement_depth = 100;
constexpr int max_links = 500;

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& where) : tokens_(std::move(tokens)), where_(where) {}

  Body run() {
    Body body = statements_until({});
    return body;
  }

 private:
  // ---- tokens

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

  [[noreturn]] void fail(Position at, std::string expected, std::string found, std::string mend = {}) const {
    throw Failure(
        data_error(cat(where_, ":", at.line, ":", at.column), std::move(expected), std::move(found), std::move(mend)));
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
    Deeper(Parser& parser, int& count, int limit, const char* what) : count_(count) {
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

  // ---- statements

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
        Output output;
        output.values.push_back(tuple(true));
        expect_kind(TokenKind::variable_end, "`}}`");
        body.push_back({at, std::move(output)});
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
    if (name == "call") return {tag.at, call_block(tag.at)};
    if (name == "filter") return {tag.at, filter_block()};
    if (name == "with") return {tag.at, with()};
    if (name == "print") return {tag.at, print()};
    if (name == "generation") return {tag.at, Generation{own_block("endgeneration")}};
    if (name == "autoescape") return {tag.at, autoescape()};
    if (name == "break" || name == "continue") {
      if (loop_depth_ == 0) fail(tag.at, cat("`", name, "` inside a loop"), "none around it");
      if (name == "break") return {tag.at, Break{}};
      return {tag.at, Continue{}};
    }
    for (const std::string_view other : {"include", "import", "from", "extends", "block"}) {
      if (name == other) fail(tag.at, "a tag that stays within one template", cat("`", name, "`"));
    }
    std::string expected = "a tag that Jinja knows";
    if (ends.size()) expected += cat(", or `", *(ends.end() - 1), "`");
    fail(tag.at, std::move(expected), cat("`", name, "`"));
  }

  For for_loop() {
    For loop;
    loop.target = target(false, "in");
    expect_keyword("in");
    loop.iterable = tuple(false, "recursive");
    if (skip_name("if")) loop.test = expression();
    loop.recursive = skip_name("recursive");
    ++loop_depth_;
    loop.body = std::make_shared<const Body>(block({"else", "endfor"}));
    --loop_depth_;
    Body otherwise;
    if (next().text == "else") otherwise = block_through("endfor");
    loop.otherwise = std::make_shared<const Body>(std::move(otherwise));
    return loop;
  }

  If if_chain() {
    If chain;
    ++conditional_depth_;
    while (true) {
      ExprPtr test = tuple(false);
      Body body = block({"elif", "else", "endif"});
      chain.branches.emplace_back(std::move(test), std::move(body));
      const std::string end = next().text;
      if (end == "elif") continue;
      if (end == "else") chain.otherwise = block_through("endif");
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
    ExprPtr filter = is_op("|") ? filters(nullptr) : nullptr;
    return {at, SetBlock{std::move(into), std::move(filter), block_through("endset")}};
  }

  MacroDef macro() {
    MacroDef macro;
    macro.name = assignable_name();
    macro.function = function(signature(), "endmacro");
    return macro;
  }

  // What a macro takes beyond its parameters follows from the names that its body reads.
  void note_special(std::string_view name) {
    if (name == "caller") special_.caller = true;
    if (name == "kwargs") special_.kwargs = true;
    if (name == "varargs") special_.varargs = true;
  }

  Body own_block(std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    Body body = block_through(end);
    loop_depth_ = loops;
    return body;
  }

  // The loops around a function's body are not its own.
  std::shared_ptr<const Function> function(std::vector<Parameter> parameters, std::string_view end) {
    const Special outer = std::exchange(special_, Special{});
    auto function = std::make_shared<Function>();
    function->parameters = std::move(parameters);
    function->body = own_block(end);
    function->takes_caller = special_.caller;
    function->takes_kwargs = special_.kwargs;
    function->takes_varargs = special_.varargs;
    special_ = {special_.caller || outer.caller, special_.kwargs || outer.kwargs, special_.varargs || outer.varargs};
    return function;
  }

  CallBlock call_block(Position at) {
    CallBlock call;
    std::vector<Parameter> parameters;
    if (is_op("(")) parameters = signature();
    call.call = expression();
    if (!std::holds_alternative<Call>(call.call->node)) fail(at, "a call of a macro", "another expression");
    call.function = function(std::move(parameters), "endcall");
    return call;
  }

  FilterBlock filter_block() {
    FilterBlock out;
    out.filter = filters(one_filter(nullptr));
    out.body = block_through("endfilter");
    return out;
  }

  With with() {
    With out;
    while (now().kind != TokenKind::block_end) {
      if (!out.bindings.empty()) expect_op(",");
      Target into = target(false);
      expect_op("=");
      ExprPtr value = expression();
      out.bindings.emplace_back(std::move(into), std::move(value));
    }
    out.body = block_through("endwith");
    return out;
  }

  Output print() {
    Output out;
    while (now().kind != TokenKind::block_end) {
      if (!out.values.empty()) expect_op(",");
      out.values.push_back(expression());
    }
    return out;
  }

  Scoped autoescape() {
    const Position at = now().at;
    const ExprPtr value = expression();
    const auto* literal = std::get_if<Literal>(&value->node);
    if (!literal || literal->value.truthy()) fail(at, "`autoescape false`: a prompt is not HTML", "another value");
    return Scoped{block_through("endautoescape")};
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

  // ---- expressions

  [[nodiscard]] bool tuple_ends(std::string_view end) const {
    return now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end || is_op(")") ||
           (!end.empty() && is_name(end));
  }

  ExprPtr tuple(bool with_conditional, std::string_view end = {}, bool parentheses = false) {
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

  ExprPtr expression() {
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

  ExprPtr binary(Position at, BinaryOp op, ExprPtr left, ExprPtr right) const {
    return make(at, Binary{op, std::move(left), std::move(right)});
  }

  ExprPtr logical_or() {
    ExprPtr left = logical_and();
    for (Position at = now().at; skip_name("or"); at = now().at) {
      chained();
      left = binary(at, BinaryOp::logical_or, std::move(left), logical_and());
    }
    return left;
  }

  ExprPtr logical_and() {
    ExprPtr left = logical_not();
    for (Position at = now().at; skip_name("and"); at = now().at) {
      chained();
      left = binary(at, BinaryOp::logical_and, std::move(left), logical_not());
    }
    return left;
  }

  ExprPtr logical_not() {
    const Position at = now().at;
    if (!skip_name("not")) return comparison();
    auto guard = deeper();
    return make(at, Unary{UnaryOp::logical_not, logical_not()});
  }

  bool comparison_operator(CompareOp& op) {
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

  ExprPtr comparison() {
    const Position at = now().at;
    Compare out;
    out.first = sum();
    CompareOp op{};
    while (comparison_operator(op)) out.rest.emplace_back(op, sum());
    return out.rest.empty() ? std::move(out.first) : make(at, std::move(out));
  }

  ExprPtr sum() {
    ExprPtr left = concat();
    for (Position at = now().at; is_op("+") || is_op("-"); at = now().at) {
      chained();
      const BinaryOp op = next().text == "+" ? BinaryOp::add : BinaryOp::sub;
      left = binary(at, op, std::move(left), concat());
    }
    return left;
  }

  ExprPtr concat() {
    const Position at = now().at;
    Concat out;
    out.parts.push_back(product());
    while (skip_op("~")) out.parts.push_back(product());
    return out.parts.size() == 1 ? std::move(out.parts.front()) : make(at, std::move(out));
  }

  ExprPtr product() {
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

  ExprPtr power() {
    ExprPtr left = unary(true);
    for (Position at = now().at; skip_op("**"); at = now().at) {
      chained();
      left = binary(at, BinaryOp::pow, std::move(left), unary(true));
    }
    return left;
  }

  ExprPtr unary(bool with_filter) {
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

  ExprPtr primary() {
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

  ExprPtr list(Position at) {
    ListExpr out;
    while (!is_op("]")) {
      if (!out.items.empty()) expect_op(",");
      if (is_op("]")) break;
      out.items.push_back(expression());
    }
    expect_op("]");
    return make(at, std::move(out));
  }

  ExprPtr dict(Position at) {
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

  ExprPtr postfix(ExprPtr node) {
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

  ExprPtr subscript(Position at, ExprPtr object) {
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
      if (!several.items.empty()) expect_op(",");
      if (several.items.empty() && is_slice(out)) break;
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
  bool is_slice(GetItem& out) {
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

  CallArguments call_arguments() {
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

  ExprPtr filters_and_tests(ExprPtr node) {
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

  ExprPtr filters(ExprPtr node) {
    while (skip_op("|")) {
      chained();
      node = one_filter(std::move(node));
    }
    return node;
  }

  std::string dotted_name(const char* what) {
    std::string name = expect_name(what);
    while (skip_op(".")) name += "." + expect_name(what);
    return name;
  }

  // As in Jinja, one that is unknown is an error at once, but inside a condition only where it is reached.
  ExprPtr one_filter(ExprPtr operand) {
    const Position at = now().at;
    FilterExpr out{std::move(operand), dotted_name("a filter's name"), {}};
    if (!conditional_depth_ && !has_filter(out.name)) fail(at, "a filter that Jinja knows", cat("`", out.name, "`"));
    if (is_op("(")) out.arguments = call_arguments();
    return make(at, std::move(out));
  }

  ExprPtr test(Position at, ExprPtr operand) {
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

  std::vector<Token> tokens_;
  const std::string& where_;
  std::size_t at_ = 0;
  int expression_depth_ = 0;
  int statement_depth_ = 0;
  int loop_depth_ = 0;
  int conditional_depth_ = 0;
  int links_ = 0;
  struct Special {
    bool caller = false, kwargs = false, varargs = false;
  };
  Special special_;
};

}  // namespace

Body parse(std::string_view source, const std::string& where) { return Parser(tokenize(source, where), where).run(); }

}  // namespace tern::text::jinja
