// Expressions of the Evaluator.
#include <algorithm>

#include "base/status.h"
#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/eval.h"

namespace tern::jinja {

Value Evaluator::eval(const Expr& expr, const ScopePtr& scope) {
  try {
    step();
    const Deeper guard(*this);
    return std::visit([&](const auto& node) { return eval(node, scope); }, expr.node);
  } catch (const Problem& problem) {
    place(expr.at, problem);
  }
}

Value Evaluator::eval(const Literal& node, const ScopePtr&) { return node.value; }

Value Evaluator::eval(const Name& node, const ScopePtr& scope) {
  if (const Value* found = scope->find(node.name)) return *found;
  static constexpr std::string_view unused[] = {"dict", "cycler", "joiner",  "lipsum",
                                                "self", "caller", "varargs", "kwargs"};
  if (std::find(std::begin(unused), std::end(unused), node.name) != std::end(unused)) {
    throw Problem{"a name that chat templates use", cat("Jinja's `", node.name, "`")};
  }
  return Value::undefined(node.name);
}

Value Evaluator::eval(const ListExpr& node, const ScopePtr& scope) {
  Values items;
  items.reserve(node.items.size());
  for (const ExprPtr& item : node.items) items.push_back(eval(*item, scope));
  charge(items.size() * sizeof(Value) + sizeof(List));
  return node.tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value Evaluator::eval(const DictExpr& node, const ScopePtr& scope) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(node.entries.size());
  for (const auto& [key, value] : node.entries) {
    Value name = eval(*key, scope);
    step_over(name);
    entries.emplace_back(std::move(name), eval(*value, scope));
  }
  charge(entries.size() * 2 * sizeof(Value) + sizeof(Dict));
  return make_dict(std::move(entries));
}

Value Evaluator::eval(const Unary& node, const ScopePtr& scope) {
  const Value operand = eval(*node.operand, scope);
  if (node.op == UnaryOp::logical_not) return Value(!operand.truthy());
  return negated(operand);
}

Value Evaluator::eval(const Binary& node, const ScopePtr& scope) {
  Value left = eval(*node.left, scope);
  if (node.op == BinaryOp::logical_and) return left.truthy() ? eval(*node.right, scope) : left;
  if (node.op == BinaryOp::logical_or) return left.truthy() ? left : eval(*node.right, scope);
  const Value right = eval(*node.right, scope);
  return binary(*this, node.op, left, right);
}

Value Evaluator::eval(const Conditional& node, const ScopePtr& scope) {
  if (eval(*node.test, scope).truthy()) return eval(*node.then, scope);
  if (node.otherwise) return eval(*node.otherwise, scope);
  return Value::undefined({}, {}, "the inline if-expression evaluated to false and no else section was defined.");
}

Value Evaluator::eval(const GetAttr& node, const ScopePtr& scope) {
  return attribute(eval(*node.object, scope), node.name);
}

Value Evaluator::eval(const GetItem& node, const ScopePtr& scope) {
  const Value object = eval(*node.object, scope);
  return item(object, eval(*node.index, scope));
}

Value Evaluator::eval(const Slice& node, const ScopePtr& scope) {
  const Value object = eval(*node.object, scope);
  const auto bound = [&](const ExprPtr& expr) { return expr ? eval(*expr, scope) : Value(); };
  const Value start = bound(node.start), stop = bound(node.stop), step = bound(node.step);
  return sliced(*this, object, start, stop, step);
}

Arguments Evaluator::arguments(const CallArguments& node, const ScopePtr& scope) {
  Arguments out;
  out.positional.reserve(node.positional.size());
  for (const ExprPtr& expr : node.positional) out.positional.push_back(eval(*expr, scope));
  for (const auto& [name, expr] : node.keyword) out.keyword.emplace_back(name, eval(*expr, scope));
  for (std::size_t i = 0; i < out.keyword.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      step();
      if (out.keyword[i].first == out.keyword[j].first) throw Problem{"each argument once", out.keyword[i].first};
    }
  }
  return out;
}

Value Evaluator::eval(const Call& node, const ScopePtr& scope) {
  const Value callee = eval(*node.callee, scope);
  return call(callee, arguments(node.arguments, scope));
}

Value Evaluator::eval(const FilterExpr& node, const ScopePtr& scope) {
  const Value operand = node.operand ? eval(*node.operand, scope) : *filter_operand_;
  return call_filter(*this, node.name, operand, arguments(node.arguments, scope));
}

Value Evaluator::eval(const TestExpr& node, const ScopePtr& scope) {
  const Value operand = eval(*node.operand, scope);
  return Value(call_test(*this, node.name, operand, arguments(node.arguments, scope)));
}

}  // namespace tern::jinja
