#include "data/settings.h"

#include <algorithm>

namespace tern::data {
namespace {

const std::string* find(const Settings& settings, const std::string& name) {
  const auto at = std::find_if(settings.begin(), settings.end(), [&](const auto& it) { return it.first == name; });
  return at == settings.end() ? nullptr : &at->second;
}

std::string shown(const std::string* value) { return value == nullptr || value->empty() ? "none" : *value; }

}  // namespace

std::vector<Difference> differences(const Settings& was, const Settings& is) {
  std::vector<Difference> out;
  const auto compare = [&](const std::string& name) {
    const std::string before = shown(find(was, name));
    const std::string now = shown(find(is, name));
    if (before != now) out.push_back({name, before, now});
  };
  for (const auto& [name, value] : is) compare(name);
  for (const auto& [name, value] : was) {
    if (find(is, name) == nullptr) compare(name);
  }
  return out;
}

}  // namespace tern::data
