// What a run is told, by the names of flags: what is compared where one thing must have been made as another.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tern::data {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Difference {
  std::string name;
  std::string was;  // "none": empty, or absent
  std::string is;
};
[[nodiscard]] std::vector<Difference> differences(const Settings& was, const Settings& is);

}  // namespace tern::data
