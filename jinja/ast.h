// The syntax tree of a template.
#pragma once

#include <memory>
#include <optional>
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
enum class UnaryOp { negate, plus, logical_not };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp { add, sub, mul, div, floor_div, mod, pow, logical_and, logical_or };
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};
enum class CompareOp { eq, ne, lt, le, gt, ge, in, not_in };
struct Compare {  // a < b < c, each operand evaluated once
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExprPtr> parts;
};
struct Conditional {
  ExprPtr test, then, otherwise;  // `otherwise` may be null: undefined
};
struct GetAttr {
  ExprPtr object;
  std::string name;
};
struct Slice {
  ExprPtr start, stop, step;  // each may be null
};
struct GetItem {
  ExprPtr object;
  ExprPtr index;  // null where it is a slice
  std::optional<Slice> slice;
};
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr star, double_star;  // may be null
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
  std::variant<Literal, Name, ListExpr, DictExpr, Unary, Binary, Compare, Concat, Conditional, GetAttr, GetItem, Call,
               FilterExpr, TestExpr>
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
  std::vector<ExprPtr> values;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr test;  // may be null
  bool recursive = false;
  std::shared_ptr<const Body> body, otherwise;
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
  ExprPtr filter;  // may be null
  Body body;
};
struct Function {
  std::vector<Parameter> parameters;
  Body body;
  bool takes_caller = false, takes_kwargs = false, takes_varargs = false;
};
struct MacroDef {
  std::string name;
  std::shared_ptr<const Function> function;
};
struct CallBlock {
  ExprPtr call;                              // a Call
  std::shared_ptr<const Function> function;  // what the macro gets as `caller`
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};
struct Scoped {  // autoescape false, block
  Body body;
};
struct Generation {  // what the assistant wrote, as transformers' own tag marks it
  Body body;
};
struct Break {};
struct Continue {};

struct Stmt {
  Position at;
  std::variant<Data, Output, For, If, Set, SetBlock, MacroDef, CallBlock, FilterBlock, With, Scoped, Generation, Break,
               Continue>
      node;
};

}  // namespace tern::jinja
