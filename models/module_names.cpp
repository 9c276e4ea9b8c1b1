#include "models/module_names.h"

#include <algorithm>
#include <regex>

namespace tern::models {

bool ModuleNames::contains(const std::string& module) const {
  if (is_regex) return std::regex_match(module, std::regex(names.at(0)));
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

std::optional<double> value_of(const ModulePattern& pattern, const std::string& module) {
  for (const auto& [key, value] : pattern) {
    if (std::regex_match(module, std::regex("(.*\\.)?(" + key + ")"))) return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> layer_of(const std::string& module, const std::vector<std::string>& patterns) {
  const std::vector<std::string> any = {"[^.]*"};
  for (const std::string& pattern : patterns.empty() ? any : patterns) {
    const std::regex expression((patterns.empty() ? ".*?\\." : "(?:^|.*?\\.)") + pattern + "\\.(\\d{1,9})\\.");
    std::smatch match;
    if (!std::regex_search(module, match, expression, std::regex_constants::match_continuous)) continue;
    return std::stoll(match[match.size() - 1].str());  // its group is opened last
  }
  return std::nullopt;
}

bool is_within(const std::string& module, const std::string& expression) {
  return std::regex_match(module, std::regex("(^|.*\\.)" + expression + "($|\\..*)"));
}

std::string wrong_with_regex(const std::string& expression) {
  try {
    (void)std::regex(expression);
  } catch (const std::regex_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace tern::models
