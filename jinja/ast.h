// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/value.h"

namespace tern::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<const Expr>;
using Body = std::vector<Stmt>;

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListExpr {
  std::vector<ExprPtr> items;
  bool tuple = false;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOp { negate, logical_not };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  concat,
  logical_and,
  logical_or,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in
};
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};
struct Conditional {
  ExprPtr test, then, otherwise;  // `otherwise` may be null: undefined
};
struct GetAttr {
  ExprPtr object;
  std::string name;
};
struct GetItem {
  ExprPtr object, index;
};
struct Slice {
  ExprPtr object, start, stop, step;  // the last three may be null
};
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
};
struct Call {
  ExprPtr callee;
  CallArguments arguments;
};
struct FilterExpr {
  ExprPtr operand;  // null in the filter of a block: the block's text
  std::string name;
  CallArguments arguments;
};
struct TestExpr {
  ExprPtr operand;
  std::string name;
  CallArguments arguments;
};

struct Expr {
  Position at;
  std::variant<Literal, Name, ListExpr, DictExpr, Unary, Binary, Conditional, GetAttr, GetItem, Slice, Call, FilterExpr,
               TestExpr>
      node;
};

// What may stand left of `=`: a name, namespace.name, or a tuple of these.
struct Target {
  Position at;
  std::string name;
  std::string attribute;  // of the namespace `name`; empty for a plain name
  std::vector<Target> parts;
  bool tuple = false;
};

struct Parameter {
  std::string name;
  ExprPtr default_value;  // null: none
};

struct Data {
  std::string text;
};
struct Output {
  ExprPtr value;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr test;  // may be null
  Body body, otherwise;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  Body body;
};
struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};
struct MacroDef {
  std::shared_ptr<const Function> function;
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct Generation {  // what the assistant wrote, as transformers' own tag marks it
  Body body;
};
struct Break {};
struct Continue {};

struct Stmt {
  Position at;
  std::variant<Data, Output, For, If, Set, SetBlock, MacroDef, FilterBlock, Generation, Break, Continue> node;
};

}  // namespace tern::jinja
