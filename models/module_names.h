// Modules by name, as PEFT's configurations choose them: its rules and Python's expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tern::models {

// Whole names or last parts of them ("q_proj", "mlp.up_proj"); or one regular expression of whole names.
struct ModuleNames {
  std::vector<std::string> names;
  bool is_regex = false;  // names[0] is the expression

  [[nodiscard]] bool contains(const std::string& module) const;
  friend bool operator==(const ModuleNames&, const ModuleNames&) = default;
};

// A number for modules whose name is, or ends behind a dot with, what an expression matches: {"q_proj": 16}.
using ModulePattern = std::vector<std::pair<std::string, double>>;
// Of the first that matches; none where none does.
[[nodiscard]] std::optional<double> value_of(const ModulePattern& pattern, const std::string& module);

// The layer that a module is of: the first number between dots behind a part, or behind one that an expression of
// `patterns` matches ("layers", "h"); none where there is none.
[[nodiscard]] std::optional<std::int64_t> layer_of(const std::string& module, const std::vector<std::string>& patterns);

// Whether a part of the module's name, dots within it or not, is what an expression matches.
[[nodiscard]] bool is_within(const std::string& module, const std::string& expression);

// What is wrong with a regular expression; empty: nothing.
[[nodiscard]] std::string wrong_with_regex(const std::string& expression);

}  // namespace tern::models
