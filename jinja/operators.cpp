// Python's operators over Values.
#include <cmath>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/eval.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

const char* symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::sub:
      return "-";
    case BinaryOp::mul:
      return "*";
    case BinaryOp::div:
      return "/";
    case BinaryOp::floor_div:
      return "//";
    default:
      return "%";
  }
}

[[noreturn]] void unsupported(BinaryOp op, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) throw Problem{"a defined value", side->undefined().message()};
  }
  throw Problem{cat("operands that `", symbol(op), "` takes"), cat(left.type_name(), " and ", right.type_name())};
}

[[noreturn]] void overflow() { throw Problem{"integers within 64 bits", "a larger result"}; }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (a == INT64_MIN && b == -1) overflow();
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

Value integers(BinaryOp op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case BinaryOp::add:
      return __builtin_add_overflow(a, b, &out) ? (overflow(), Value()) : Value(out);
    case BinaryOp::sub:
      return __builtin_sub_overflow(a, b, &out) ? (overflow(), Value()) : Value(out);
    case BinaryOp::mul:
      return __builtin_mul_overflow(a, b, &out) ? (overflow(), Value()) : Value(out);
    default:
      break;
  }
  if (b == 0) throw Problem{"a divisor other than 0", "0"};
  if (op == BinaryOp::div) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (op == BinaryOp::floor_div) return Value(floor_divide(a, b));
  return Value(b == -1 ? std::int64_t{0} : a - floor_divide(a, b) * b);
}

Value reals(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return Value(a + b);
    case BinaryOp::sub:
      return Value(a - b);
    case BinaryOp::mul:
      return Value(a * b);
    default:
      break;
  }
  if (b == 0) throw Problem{"a divisor other than 0", "0.0"};
  if (op == BinaryOp::div) return Value(a / b);
  double mod = std::fmod(a, b);
  if (mod != 0 && (b < 0) != (mod < 0)) mod += b;
  if (op == BinaryOp::mod) return Value(mod == 0 ? std::copysign(0.0, b) : mod);
  return Value(std::floor((a - mod) / b + 0.5 * ((a - mod) / b != std::floor((a - mod) / b))));
}

Value repeated(Evaluator& evaluator, const Value& value, std::int64_t count) {
  const std::size_t times = count > 0 ? static_cast<std::size_t>(count) : 0;
  const std::size_t size = value.is_text() ? value.text().size() : value.items().size() * sizeof(Value);
  if (times > 0 && size > (std::size_t{1} << 40) / times) throw Problem{"a value that fits in memory", "a larger one"};
  evaluator.charge(size * times);
  if (value.is_text()) {
    std::string out;
    out.reserve(size * times);
    for (std::size_t i = 0; i < times && size; ++i) out += value.text();
    return Value(std::move(out), value.markup());
  }
  Values out;
  for (std::size_t i = 0; i < times && size; ++i) out.insert(out.end(), value.items().begin(), value.items().end());
  return value.list().tuple ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

Value added(Evaluator& evaluator, const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) {
    if (left.markup() || right.markup()) {
      const auto escaped = [](const Value& value) { return value.markup() ? value.text() : html_escape(value.text()); };
      return evaluator.text(escaped(left) + escaped(right), true);
    }
    evaluator.charge(left.text().size() + right.text().size() + sizeof(Text));
    return Value(left.text() + right.text());
  }
  if (left.is_list() && right.is_list() && left.list().tuple == right.list().tuple) {
    Values out = left.items();
    out.insert(out.end(), right.items().begin(), right.items().end());
    evaluator.charge(out.size() * sizeof(Value));
    return left.list().tuple ? Value::tuple(std::move(out)) : Value::list(std::move(out));
  }
  unsupported(BinaryOp::add, left, right);
}

bool contains(Evaluator& evaluator, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) throw Problem{"a string to look for in a string", cat("a ", item.type_name())};
    evaluator.step(container.text().size() / 64);
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    (void)hash_key(item);  // an unhashable key is an error, as in Python
    return container.dict().find(item) != nullptr;
  }
  for (const Value& value : evaluator.iterate(container)) {
    evaluator.step_over(value);
    if (equal(value, item)) return true;
  }
  return false;
}

bool compared(Evaluator& evaluator, BinaryOp op, const Value& left, const Value& right) {
  evaluator.step_over(left);
  switch (op) {
    case BinaryOp::eq:
      return equal(left, right);
    case BinaryOp::ne:
      return !equal(left, right);
    case BinaryOp::in:
      return contains(evaluator, right, left);
    case BinaryOp::not_in:
      return !contains(evaluator, right, left);
    case BinaryOp::lt:
      return compare(left, right, "<") == -1;
    case BinaryOp::gt:
      return compare(left, right, ">") == 1;
    case BinaryOp::le: {
      const int order = compare(left, right, "<=");
      return order == -1 || order == 0;
    }
    default: {
      const int order = compare(left, right, ">=");
      return order == 1 || order == 0;
    }
  }
}

}  // namespace

Value binary(Evaluator& evaluator, BinaryOp op, const Value& left, const Value& right) {
  if (op >= BinaryOp::eq) return Value(compared(evaluator, op, left, right));
  if (op == BinaryOp::concat) {
    evaluator.step_over(left);
    evaluator.step_over(right);
    return evaluator.text(left.str() + right.str());
  }
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return integers(op, left.integer(), right.integer());
    return reals(op, left.real(), right.real());
  }
  evaluator.step_over(left);
  evaluator.step_over(right);
  if (op == BinaryOp::add) return added(evaluator, left, right);
  if (op == BinaryOp::mod && left.is_text()) {
    const bool several = right.is_list() && right.list().tuple;
    return percent_format(evaluator, left.text(), several ? right.items() : Values{right});
  }
  if (op == BinaryOp::mul) {
    if ((left.is_text() || left.is_list()) && right.is_integral()) return repeated(evaluator, left, right.integer());
    if ((right.is_text() || right.is_list()) && left.is_integral()) return repeated(evaluator, right, left.integer());
  }
  unsupported(op, left, right);
}

Value negated(const Value& operand) {
  if (operand.is_undefined()) throw Problem{"a defined value", operand.undefined().message()};
  if (!operand.is_number()) throw Problem{"a number", cat("a ", operand.type_name())};
  if (operand.is_float()) return Value(-operand.real());
  if (operand.integer() == INT64_MIN) overflow();
  return Value(-operand.integer());
}

Value sliced(Evaluator& evaluator, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) throw Problem{"a defined value", object.undefined().message()};
  const bool integral = (start.is_none() || start.is_integral()) && (stop.is_none() || stop.is_integral()) &&
                        (step.is_none() || step.is_integral());
  if (!integral) throw Problem{"integers as a slice's bounds", "other values"};
  if (!object.is_text() && !object.is_list()) {
    throw Problem{"a string, list or tuple to slice", cat("a ", object.type_name())};
  }
  const std::int64_t length = object.is_text() ? static_cast<std::int64_t>(code_point_count(object.text()))
                                               : static_cast<std::int64_t>(object.items().size());
  const std::int64_t stride = step.is_none() ? 1 : step.integer();
  if (stride == 0) throw Problem{"a slice's step other than 0", "0"};
  // Python's PySlice_AdjustIndices.
  const auto clamp = [&](const Value& bound, std::int64_t otherwise) {
    if (bound.is_none()) return otherwise;
    std::int64_t at = bound.integer();
    if (at < 0) at = at < -length ? -1 : at + length;
    if (stride > 0) return std::min(std::max(at, std::int64_t{0}), length);
    return std::min(std::max(at, std::int64_t{-1}), length - 1);
  };
  const std::int64_t first = clamp(start, stride > 0 ? 0 : length - 1), last = clamp(stop, stride > 0 ? length : -1);
  const std::int64_t begin = !start.is_none() && stride < 0 && start.integer() < -length ? -1 : first;
  std::vector<std::size_t> picked;
  for (std::int64_t at = begin; stride > 0 ? at < last : at > last;) {
    picked.push_back(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, stride, &at)) break;
  }
  evaluator.charge(picked.size() * sizeof(Value));
  if (object.is_text()) {
    std::string out;
    const auto points = code_points(object.text());
    evaluator.charge(points.size());
    for (const std::size_t at : picked) out += points[at];
    return evaluator.text(std::move(out), object.markup());
  }
  Values out;
  for (const std::size_t at : picked) out.push_back(object.items()[at]);
  return object.list().tuple ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

}  // namespace tern::jinja
