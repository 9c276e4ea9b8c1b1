// The functions that every template may call: Jinja's range and namespace, and transformers' own two.
#include <array>
#include <ctime>

#include "base/strings.h"
#include "jinja/builtins.h"

namespace tern::jinja {
namespace {

constexpr std::int64_t max_range = 100000;  // Jinja's MAX_RANGE

Value make_namespace(Evaluator& evaluator, const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    throw Problem{"named arguments for namespace", cat("a ", arguments.positional.front().type_name())};
  }
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.keyword) {
    if (name.starts_with("_")) throw Problem{"an attribute without a leading underscore", string_repr(name)};
    dict->set(Value(name), value);
  }
  evaluator.charge(sizeof(Namespace) + dict->entries.size() * 2 * sizeof(Value));
  ObjectPtr space = std::make_shared<Namespace>(dict);
  evaluator.keep(space);
  return Value(space);
}

Value make_range(Evaluator& evaluator, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (!arguments.keyword.empty() || given.empty() || given.size() > 3) {
    throw Problem{"range(stop) or range(start, stop, step)",
                  cat(given.size() + arguments.keyword.size(), " arguments")};
  }
  const auto at = [&](std::size_t i) { return integer_of(given[i], "an integer for range"); };
  const std::int64_t start = given.size() > 1 ? at(0) : 0, stop = at(given.size() > 1 ? 1 : 0);
  const std::int64_t step = given.size() == 3 ? at(2) : 1;
  if (step == 0) throw Problem{"a range's step other than 0", "0"};
  Values items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(items.size()) >= max_range) {
      throw Problem{cat("a range of at most ", max_range, " items"), "a longer one"};
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  evaluator.charge(sizeof(Iterable) + items.size() * sizeof(Value));
  return Value(ObjectPtr(std::make_shared<Iterable>("range", std::move(items))));
}

Value raise_exception(Evaluator&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Problem{"what the template asks for", bound[0]->str()};
}

Value strftime_now(Evaluator& evaluator, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string& wanted = bound.text(0);
  for (std::size_t at = 0; at + 1 < wanted.size(); ++at) {
    if (wanted[at] != '%') continue;
    // Python's own field, and a time zone, which datetime.now() has not.
    const char letter = wanted[++at];
    if (letter == 'f' || letter == 'z' || letter == 'Z') {
      throw Problem{"a field of a date that chat templates use", cat("`%", letter, "`")};
    }
  }
  // With a space in front, an empty result is one that did not fit.
  const std::string format = " " + wanted;
  std::array<char, 512> out{};
  const std::size_t size = std::strftime(out.data(), out.size(), format.c_str(), &evaluator.clock());
  if (size == 0) throw Problem{cat("a date of at most ", out.size() - 2, " bytes"), "a longer one"};
  return evaluator.text(std::string(out.data() + 1, size - 1));
}

}  // namespace

const std::vector<std::pair<std::string, Value>>& globals() {
  static const std::vector<std::pair<std::string, Value>> table = [] {
    std::vector<std::pair<std::string, Value>> out;
    const auto add = [&out](const char* name, Value (*function)(Evaluator&, const Arguments&)) {
      out.emplace_back(name, Value(ObjectPtr(std::make_shared<Builtin>(name, function))));
    };
    add("range", make_range);
    add("namespace", make_namespace);
    add("raise_exception", raise_exception);
    add("strftime_now", strftime_now);
    return out;
  }();
  return table;
}

}  // namespace tern::jinja
