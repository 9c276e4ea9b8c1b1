#include "jinja/eval.h"

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/loop.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

class Macro final : public Object {
 public:
  Macro(std::shared_ptr<const Function> function, ScopePtr scope)
      : function_(std::move(function)), scope_(std::move(scope)) {}
  [[nodiscard]] std::string type_name() const override { return "Macro"; }
  [[nodiscard]] std::string repr() const override { return cat("<Macro ", string_repr(function_->name), ">"); }
  [[nodiscard]] bool callable() const override { return true; }
  [[nodiscard]] bool attribute(Evaluator&, std::string_view name, Value&) override {
    throw Problem{"a macro that is called", cat("`", name, "` of it")};
  }
  Value call(Evaluator& evaluator, const Arguments& arguments) override;

 private:
  std::shared_ptr<const Function> function_;
  ScopePtr scope_;
};

Value Macro::call(Evaluator& evaluator, const Arguments& arguments) {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  const auto& parameters = function_->parameters;
  if (arguments.positional.size() > parameters.size()) {
    throw Problem{cat("at most ", parameters.size(), " arguments for macro ", string_repr(function_->name)),
                  cat(arguments.positional.size())};
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
    for (const auto& [name, value] : arguments.keyword) {
      if (name == parameters[i].name && !given) given = &value;
    }
    evaluator.bind_parameter(parameters[i], scope, given);
  }
  for (const auto& [name, value] : arguments.keyword) {
    const auto same = [&name = name](const Parameter& parameter) { return parameter.name == name; };
    const auto at = std::find_if(parameters.begin(), parameters.end(), same);
    if (at - parameters.begin() < static_cast<std::ptrdiff_t>(arguments.positional.size()) || at == parameters.end()) {
      throw Problem{cat("an argument that macro ", string_repr(function_->name), " takes"), string_repr(name)};
    }
  }
  return evaluator.text(evaluator.run_function(*function_, scope));
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(std::string(name), std::move(value));
}

std::string Namespace::repr() const {
  if (printing_) throw Problem{"a value that can be printed", "a namespace that holds itself"};
  printing_ = true;
  std::string out = cat("<Namespace ", Value(DictPtr(values_)).repr(), ">");
  printing_ = false;
  return out;
}

bool Namespace::attribute(Evaluator&, std::string_view name, Value& out) {
  const Value* value = values_->get(name);
  if (value) out = *value;
  return value != nullptr;
}

Evaluator::~Evaluator() {
  // Namespaces and macros may hold each other in a ring; cutting them open frees it, and frees long chains one by one.
  for (const ScopePtr& scope : scopes_) {
    const auto variables = std::move(scope->variables);
    scope->variables.clear();
  }
  for (const ObjectPtr& object : kept_) {
    if (auto* space = dynamic_cast<Namespace*>(object.get())) space->clear();
  }
}

Evaluator::Deeper::Deeper(Evaluator& evaluator) : depth(evaluator.depth_) {
  if (depth >= evaluator.limits_.depth) {
    throw Problem{cat("evaluations nested at most ", evaluator.limits_.depth, " deep"), "deeper recursion"};
  }
  ++depth;
}

void Evaluator::place(Position at, const Problem& problem) const {
  throw Failure(
      data_error(cat(where_, ":", at.line, ":", at.column), problem.expected, problem.found, correct_template));
}

void Evaluator::step(std::uint64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) throw Problem{cat("a template done within ", limits_.steps, " steps"), "no end of it"};
}

void Evaluator::charge(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.memory)
    throw Problem{cat("a template that makes at most ", human_bytes(limits_.memory)), "more"};
  step(bytes / 64);
}

Value Evaluator::text(std::string bytes, bool markup) {
  charge(bytes.size() + sizeof(Text));
  return Value(std::move(bytes), markup);
}

Value Evaluator::list(Values items) {
  charge(items.size() * sizeof(Value) + sizeof(List));
  return Value::list(std::move(items));
}

void Evaluator::write(std::string_view text) {
  if (out_->size() + text.size() > limits_.output) {
    throw Problem{cat("at most ", human_bytes(limits_.output), " of rendered text"), "more"};
  }
  step(text.size() / 64);
  out_->append(text);
}

ScopePtr Evaluator::inner(const ScopePtr& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

template <typename Body_>
std::string Evaluator::captured(Body_&& body) {
  std::string text;
  struct Restore {
    std::string*& out;
    std::string* before;
    ~Restore() { out = before; }
  } restore{out_, out_};
  out_ = &text;
  body();
  return text;
}

std::string Evaluator::render(const Body& body, std::vector<std::pair<std::string, Value>> variables,
                              std::vector<std::pair<std::size_t, std::size_t>>* spans) {
  auto world = std::make_shared<Scope>();
  world->variables = globals();
  auto root = inner(world);
  for (auto& [name, value] : variables) root->set(name, std::move(value));
  scopes_.push_back(root);
  spans_ = spans;
  (void)run(body, root);
  return std::move(root_);
}

// ---- statements

Evaluator::Flow Evaluator::run(const Body& body, const ScopePtr& scope) {
  for (const Stmt& stmt : body) {
    const Flow flow = run_one(stmt, scope);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::run_one(const Stmt& stmt, const ScopePtr& scope) {
  try {
    step();
    const Deeper guard(*this);
    return std::visit([&](const auto& node) { return exec(node, scope); }, stmt.node);
  } catch (const Problem& problem) {
    place(stmt.at, problem);
  }
}

Evaluator::Flow Evaluator::exec(const Data& node, const ScopePtr&) {
  write(node.text);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const Output& node, const ScopePtr& scope) {
  const Value value = eval(*node.value, scope);
  if (value.is_text()) {
    write(value.text());
  } else {
    step_over(value);
    write(value.str());
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const For& node, const ScopePtr& scope) {
  // The test runs when an item is asked for, not before: it may read what the body has set.
  auto state = std::make_shared<Loop>(iterate(eval(*node.iterable, scope)));
  if (node.test) {
    state->set_test([this, &node, &scope](const Value& item) {
      const ScopePtr test = inner(scope);
      assign(node.target, item, test);
      return eval(*node.test, test).truthy();
    });
  }
  Value item;
  ScopePtr body;
  bool any = false;
  while (state->advance(item)) {
    any = true;
    step();
    if (!body || body.use_count() > 1) {
      body = inner(scope);
    } else {
      body->variables.clear();
    }
    assign(node.target, item, body);
    body->set("loop", Value(ObjectPtr(state)));
    if (run(node.body, body) == Flow::broken) break;
  }
  state->finish();
  if (!any) (void)run(node.otherwise, inner(scope));
  return Flow::normal;
}

std::string Evaluator::run_function(const Function& function, const ScopePtr& scope) {
  return captured([&] { (void)run(function.body, scope); });
}

void Evaluator::bind_parameter(const Parameter& parameter, const ScopePtr& scope, const Value* given) {
  if (given) {
    scope->set(parameter.name, *given);
  } else if (parameter.default_value) {
    scope->set(parameter.name, eval(*parameter.default_value, scope));
  } else {
    scope->set(parameter.name, Value::undefined(parameter.name, {},
                                                cat("parameter ", string_repr(parameter.name), " was not provided")));
  }
}

Evaluator::Flow Evaluator::exec(const If& node, const ScopePtr& scope) {
  for (const auto& [test, body] : node.branches) {
    if (eval(*test, scope).truthy()) return run(body, scope);
  }
  return run(node.otherwise, scope);
}

Evaluator::Flow Evaluator::exec(const Set& node, const ScopePtr& scope) {
  assign(node.target, eval(*node.value, scope), scope);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const SetBlock& node, const ScopePtr& scope) {
  assign(node.target, text(captured([&] { (void)run(node.body, inner(scope)); })), scope);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const MacroDef& node, const ScopePtr& scope) {
  scopes_.push_back(scope);
  charge(sizeof(Macro));
  scope->set(node.function->name, Value(ObjectPtr(std::make_shared<Macro>(node.function, scope))));
  return Flow::normal;
}

// The innermost filter of a block's chain has no operand of its own: it is the block's text.
Evaluator::Flow Evaluator::exec(const FilterBlock& node, const ScopePtr& scope) {
  const Value value = text(captured([&] { (void)run(node.body, inner(scope)); }));
  struct Restore {
    const Value*& slot;
    const Value* before;
    ~Restore() { slot = before; }
  } restore{filter_operand_, filter_operand_};
  filter_operand_ = &value;
  write(eval(*node.filter, scope).str());
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const Generation& node, const ScopePtr& scope) {
  const std::size_t begin = root_.size(), before = out_->size();
  (void)run(node.body, inner(scope));
  if (spans_) spans_->emplace_back(begin, begin + (out_->size() - before));
  return Flow::normal;
}

void Evaluator::assign(const Target& target, const Value& value, const ScopePtr& scope) {
  if (target.tuple) {
    const Values items = iterate(value);
    if (items.size() != target.parts.size()) {
      place(target.at, Problem{cat(target.parts.size(), " values to unpack"), cat(items.size())});
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
  } else if (target.attribute.empty()) {
    scope->set(target.name, value);
  } else {
    const Value* found = scope->find(target.name);
    auto* space = found ? found->as<Namespace>() : nullptr;
    if (!space)
      place(target.at,
            Problem{cat("a namespace in ", string_repr(target.name)), found ? found->type_name() : "nothing"});
    if (target.attribute[0] == '_')
      place(target.at, Problem{"an attribute without a leading underscore", target.attribute});
    if (value.depth() >= max_value_depth) place(target.at, Problem{"less deeply nested values", "deeper ones"});
    space->set(target.attribute, value);
  }
}

// ---- values

Values Evaluator::iterate(const Value& value) {
  Values out;
  if (value.is_list()) {
    out = value.items();
  } else if (value.is_text()) {
    for (const std::string_view c : code_points(value.text())) out.emplace_back(c);
  } else if (value.is_dict()) {
    for (const auto& entry : value.dict().entries) out.push_back(entry.first);
  } else if (!value.is_undefined() && !(value.is_object() && value.object().iterate(out))) {
    throw Problem{"something to iterate over", cat("a ", value.type_name())};
  }
  charge(out.size() * (value.is_text() ? sizeof(Value) + sizeof(Text) : sizeof(Value)));
  return out;
}

Value Evaluator::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) throw Problem{"a defined value", object.undefined().message()};
  Value out;
  if (name.starts_with("_")) {
    if (const Value* found = object.is_dict() ? object.dict().get(name) : nullptr) return *found;
    return Value::undefined(
        name, object.type_name(),
        cat("access to attribute ", string_repr(name), " of ", string_repr(object.type_name()), " object is unsafe."));
  }
  if (object.is_object() ? object.object().attribute(*this, name, out) : find_method(object, name, out)) return out;
  if (object.is_dict()) {
    if (const Value* found = object.dict().get(name)) return *found;
  }
  return Value::undefined(name, object.type_name());
}

Value Evaluator::item(const Value& object, const Value& key) {
  if (object.is_undefined()) throw Problem{"a defined value", object.undefined().message()};
  if (object.is_dict()) {
    const bool unhashable = (key.is_list() && !key.list().tuple) || key.is_dict();
    if (const Value* found = unhashable ? nullptr : object.dict().find(key)) return *found;
  } else if (key.is_integral()) {
    if (const auto* walked = object.as<Iterable>(); walked && walked->is_range()) {
      throw Problem{"a range that is walked over", "an index into it; `|list` makes a list of it"};
    }
    std::int64_t index = key.integer();
    const std::int64_t length = object.is_list()   ? static_cast<std::int64_t>(object.items().size())
                                : object.is_text() ? static_cast<std::int64_t>(code_point_count(object.text()))
                                                   : -1;
    if (object.is_text()) step(object.text().size() / 64);
    if (index < 0) index += length;
    if (index >= 0 && index < length) {
      if (object.is_list()) return object.items()[static_cast<std::size_t>(index)];
      const std::string_view bytes = object.text();
      const std::size_t begin = byte_offset(bytes, static_cast<std::size_t>(index));
      return text(std::string(bytes.substr(begin, byte_offset(bytes.substr(begin), 1))));
    }
  }
  if (const auto* space = object.as<Namespace>()) {
    const Value* found = space->find(key);
    if (found) return *found;
  }
  if (key.is_text()) {
    const std::string& name = key.text();
    Value out;
    const bool found = !name.starts_with("_") && (object.is_object() ? object.object().attribute(*this, name, out)
                                                                     : find_method(object, name, out));
    if (found) return out;
    return Value::undefined(name, object.type_name());
  }
  return Value::undefined({}, {}, cat(object.type_name(), " object has no element ", key.repr()));
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) throw Problem{"something that can be called", callee.undefined().message()};
  if (!callee.is_object() || !callee.object().callable()) {
    throw Problem{"something that can be called", cat("a ", callee.type_name())};
  }
  for (const Value& value : arguments.positional) step_over(value);
  for (const auto& entry : arguments.keyword) step_over(entry.second);
  step();
  const ObjectPtr held = std::get<ObjectPtr>(callee.rep());  // the call may overwrite the variable it came from
  return held->call(*this, arguments);
}

}  // namespace tern::jinja
