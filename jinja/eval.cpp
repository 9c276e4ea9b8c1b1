#include "jinja/eval.h"

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/loop.h"
#include "jinja/unicode.h"

namespace tern::jinja {
namespace {

// A macro, or the body of a call block as its `caller`.
class Macro final : public Object {
 public:
  Macro(std::string name, std::shared_ptr<const Function> function, ScopePtr scope)
      : name_(std::move(name)), function_(std::move(function)), scope_(std::move(scope)) {}
  [[nodiscard]] std::string type_name() const override { return "Macro"; }
  [[nodiscard]] std::string repr() const override { return cat("<Macro ", string_repr(name_), ">"); }
  [[nodiscard]] bool callable() const override { return true; }
  [[nodiscard]] bool attribute(Evaluator&, std::string_view name, Value& out) override {
    if (name != "name") return false;
    out = Value(name_);
    return true;
  }
  Value call(Evaluator& evaluator, const Arguments& arguments) override;

 private:
  std::string name_;
  std::shared_ptr<const Function> function_;
  ScopePtr scope_;
};

Value Macro::call(Evaluator& evaluator, const Arguments& arguments) {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  auto named = arguments.keyword;
  const auto take = [&named](std::string_view name, Value& out) {
    const auto at = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
    if (at == named.end()) return false;
    out = std::move(at->second);
    named.erase(at);
    return true;
  };
  const auto& parameters = function_->parameters;
  bool explicit_caller = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Value value;
    const bool given =
        i < arguments.positional.size() ? (value = arguments.positional[i], true) : take(parameters[i].name, value);
    explicit_caller = explicit_caller || parameters[i].name == "caller";
    evaluator.bind_parameter(parameters[i], scope, given ? &value : nullptr);
  }
  if (function_->takes_caller && !explicit_caller) {
    Value caller;
    if (!take("caller", caller) || caller.is_none()) caller = Value::undefined("caller", {}, "No caller defined");
    scope->set("caller", std::move(caller));
  }
  if (function_->takes_kwargs) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, value] : named) entries.emplace_back(Value(name), std::move(value));
    scope->set("kwargs", make_dict(std::move(entries)));
  } else if (!named.empty()) {
    throw Problem{cat("an argument that macro ", string_repr(name_), " takes"), string_repr(named.front().first)};
  }
  const std::size_t taken = std::min(parameters.size(), arguments.positional.size());
  if (function_->takes_varargs) {
    scope->set("varargs", Value::tuple(Values(arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                                              arguments.positional.end())));
  } else if (taken < arguments.positional.size()) {
    throw Problem{cat("at most ", parameters.size(), " arguments for macro ", string_repr(name_)),
                  cat(arguments.positional.size())};
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

struct Evaluator::Deeper {
  explicit Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
    if (++evaluator_.depth_ > evaluator_.limits_.depth) {
      --evaluator_.depth_;
      throw Problem{cat("evaluations nested at most ", evaluator_.limits_.depth, " deep"), "endless recursion"};
    }
  }
  ~Deeper() { --evaluator_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  Evaluator& evaluator_;
};

void Evaluator::place(Position at, const Problem& problem) const {
  throw Failure(data_error(cat(where_, ":", at.line, ":", at.column), problem.expected, problem.found, correct_template,
                           problem.site));
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
  for (const ExprPtr& expr : node.values) {
    const Value value = eval(*expr, scope);
    if (value.is_text()) {
      write(value.text());
    } else {
      step_over(value);
      write(value.str());
    }
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const For& node, const ScopePtr& scope) {
  loop(node, scope, iterate(eval(*node.iterable, scope)), 0);
  return Flow::normal;
}

void Evaluator::loop(const For& node, const ScopePtr& scope, Values items, int depth) {
  // The test runs when an item is asked for, not before: it may read what the body has set.
  auto source = std::make_shared<const Values>(std::move(items));
  auto state = std::make_shared<Loop>(node, scope, source, depth);
  if (node.test) {
    state->set_test([this, &node, scope](const Value& item) {
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
    if (run(*node.body, body) == Flow::broken) break;
  }
  state->finish();
  if (!any && !node.otherwise->empty()) (void)run(*node.otherwise, inner(scope));
}

std::string Evaluator::run_loop(const For& node, const ScopePtr& scope, Values items, int depth) {
  return captured([&] { loop(node, scope, std::move(items), depth); });
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
  Value value = text(captured([&] { (void)run(node.body, inner(scope)); }));
  if (node.filter) value = apply_filter(*node.filter, value, scope);
  assign(node.target, value, scope);
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const MacroDef& node, const ScopePtr& scope) {
  scopes_.push_back(scope);
  charge(sizeof(Macro));
  scope->set(node.name, Value(ObjectPtr(std::make_shared<Macro>(node.name, node.function, scope))));
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const CallBlock& node, const ScopePtr& scope) {
  const auto& called = std::get<Call>(node.call->node);
  const Value callee = eval(*called.callee, scope);
  Arguments given = arguments(called.arguments, scope);
  scopes_.push_back(scope);
  given.keyword.emplace_back("caller", Value(ObjectPtr(std::make_shared<Macro>("caller", node.function, scope))));
  write(call(callee, given).str());
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const FilterBlock& node, const ScopePtr& scope) {
  const Value value = text(captured([&] { (void)run(node.body, inner(scope)); }));
  write(apply_filter(*node.filter, value, scope).str());
  return Flow::normal;
}

Evaluator::Flow Evaluator::exec(const With& node, const ScopePtr& scope) {
  const ScopePtr body = inner(scope);
  for (const auto& [target, value] : node.bindings) assign(target, eval(*value, scope), body);
  return run(node.body, body);
}

Evaluator::Flow Evaluator::exec(const Scoped& node, const ScopePtr& scope) { return run(node.body, inner(scope)); }

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
    std::int64_t index = key.integer();
    const bool sized = object.is_list() || object.is_text() || object.is_object();
    const std::int64_t length = object.is_list()   ? static_cast<std::int64_t>(object.items().size())
                                : object.is_text() ? static_cast<std::int64_t>(code_point_count(object.text()))
                                : sized            ? object.object().length()
                                                   : -1;
    if (object.is_text()) step(object.text().size() / 64);
    if (index < 0) index += length;
    if (length >= 0 && index >= 0 && index < length) {
      if (object.is_list()) return object.items()[static_cast<std::size_t>(index)];
      if (object.is_text()) {
        const std::string_view bytes = object.text();
        const std::size_t begin = byte_offset(bytes, static_cast<std::size_t>(index));
        return text(std::string(bytes.substr(begin, byte_offset(bytes.substr(begin), 1))));
      }
      Value out;
      if (object.object().item(index, out)) return out;
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
