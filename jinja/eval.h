// Runs a parsed template over its variables, within bounds.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/value.h"

namespace tern::jinja {

// A template is foreign code: what it may use before it is stopped.
struct Limits {
  std::uint64_t steps = 20'000'000;            // nodes evaluated and items walked
  std::size_t memory = std::size_t{1} << 30;   // bytes made, in total
  std::size_t output = std::size_t{64} << 20;  // bytes rendered
  unsigned depth = 600;                        // nested evaluations; a macro calling itself takes some six a call
};

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  [[nodiscard]] const Value* find(std::string_view name) const;  // here or in a parent
  void set(std::string_view name, Value value);                  // here
};
using ScopePtr = std::shared_ptr<Scope>;

// One rendering. Problems become Failures that name the template, line and column.
class Evaluator {
 public:
  Evaluator(const std::string& where, const Limits& limits, const std::tm& clock)
      : where_(where), limits_(limits), clock_(clock) {}
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  ~Evaluator();

  // The text; `spans` (if not null) receives the [begin, end) bytes of its generation blocks.
  std::string render(const Body& body, std::vector<std::pair<std::string, Value>> variables,
                     std::vector<std::pair<std::size_t, std::size_t>>* spans);

  // ---- for builtins; each throws Problem
  void step(std::uint64_t count = 1);
  void step_over(const Value& value) { step(1 + value.weight() / 8); }  // for walking over all of it
  void charge(std::size_t bytes);                                       // counts memory and the time to fill it
  [[nodiscard]] Value attribute(const Value& object, const std::string& name);
  [[nodiscard]] Value item(const Value& object, const Value& key);
  [[nodiscard]] Value call(const Value& callee, const Arguments& arguments);
  [[nodiscard]] Values iterate(const Value& value);
  [[nodiscard]] Value text(std::string bytes, bool markup = false);  // charged
  [[nodiscard]] Value list(Values items);                            // charged
  [[nodiscard]] const std::tm& clock() const { return clock_; }
  void keep(ObjectPtr object) { kept_.push_back(std::move(object)); }  // its references are cut at the end

  [[nodiscard]] std::string run_function(const Function& function, const ScopePtr& scope);  // a macro's text
  void bind_parameter(const Parameter& parameter, const ScopePtr& scope, const Value* given);

 private:
  enum class Flow { normal, broken, continued };
  struct Deeper {
    explicit Deeper(Evaluator& evaluator);
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    unsigned& depth;
  };

  Flow run(const Body& body, const ScopePtr& scope);
  Flow run_one(const Stmt& stmt, const ScopePtr& scope);
  Flow exec(const Data& node, const ScopePtr& scope);
  Flow exec(const Output& node, const ScopePtr& scope);
  Flow exec(const For& node, const ScopePtr& scope);
  Flow exec(const If& node, const ScopePtr& scope);
  Flow exec(const Set& node, const ScopePtr& scope);
  Flow exec(const SetBlock& node, const ScopePtr& scope);
  Flow exec(const MacroDef& node, const ScopePtr& scope);
  Flow exec(const FilterBlock& node, const ScopePtr& scope);
  Flow exec(const Generation& node, const ScopePtr& scope);
  Flow exec(const Break&, const ScopePtr&) { return Flow::broken; }
  Flow exec(const Continue&, const ScopePtr&) { return Flow::continued; }

  Value eval(const Expr& expr, const ScopePtr& scope);
  Value eval(const Literal& node, const ScopePtr& scope);
  Value eval(const Name& node, const ScopePtr& scope);
  Value eval(const ListExpr& node, const ScopePtr& scope);
  Value eval(const DictExpr& node, const ScopePtr& scope);
  Value eval(const Unary& node, const ScopePtr& scope);
  Value eval(const Binary& node, const ScopePtr& scope);
  Value eval(const Conditional& node, const ScopePtr& scope);
  Value eval(const GetAttr& node, const ScopePtr& scope);
  Value eval(const GetItem& node, const ScopePtr& scope);
  Value eval(const Slice& node, const ScopePtr& scope);
  Value eval(const Call& node, const ScopePtr& scope);
  Value eval(const FilterExpr& node, const ScopePtr& scope);
  Value eval(const TestExpr& node, const ScopePtr& scope);
  Arguments arguments(const CallArguments& node, const ScopePtr& scope);

  void assign(const Target& target, const Value& value, const ScopePtr& scope);
  void write(std::string_view text);
  template <typename Body_>
  std::string captured(Body_&& body);
  ScopePtr inner(const ScopePtr& parent);
  [[noreturn]] void place(Position at, const Problem& problem) const;  // throws it with its place

  const std::string& where_;
  const Limits& limits_;
  const std::tm& clock_;  // local time
  std::uint64_t steps_ = 0;
  std::size_t bytes_ = 0;
  unsigned depth_ = 0;
  std::string root_;
  std::string* out_ = &root_;
  const Value* filter_operand_ = nullptr;
  std::vector<std::pair<std::size_t, std::size_t>>* spans_ = nullptr;
  std::vector<ObjectPtr> kept_;
  std::vector<ScopePtr> scopes_;  // those that macros hold
};

// namespace(): the one value that a template can change.
class Namespace final : public Object {
 public:
  explicit Namespace(const DictPtr& first) : values_(std::make_shared<Dict>(*first)) {}
  [[nodiscard]] std::string type_name() const override { return "Namespace"; }
  [[nodiscard]] std::string repr() const override;
  [[nodiscard]] bool attribute(Evaluator&, std::string_view name, Value& out) override;
  void set(const std::string& name, Value value) { values_->set(Value(name), std::move(value)); }
  [[nodiscard]] const Value* find(const Value& key) const { return values_->find(key); }
  void clear() { values_ = std::make_shared<Dict>(); }

 private:
  std::shared_ptr<Dict> values_;
  mutable bool printing_ = false;
};

// operators.cpp. Each throws Problem.
[[nodiscard]] Value binary(Evaluator& evaluator, BinaryOp op, const Value& left, const Value& right);
[[nodiscard]] Value negated(const Value& operand);
// Python's obj[start:stop:step].
[[nodiscard]] Value sliced(Evaluator& evaluator, const Value& object, const Value& start, const Value& stop,
                           const Value& step);

}  // namespace tern::jinja
