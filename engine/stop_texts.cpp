#include "engine/stop_texts.h"

#include <algorithm>
#include <utility>

namespace tern::engine {

std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = std::min(stop.empty() ? 0 : stop.size() - 1, text.size()); n > longest; --n) {
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) longest = n;
    }
  }
  return longest;
}

FoundStop first_stop(const std::string& text, const std::vector<std::string>& stops) {
  FoundStop first;
  for (const std::string& stop : stops) {
    const std::size_t at = stop.empty() ? std::string::npos : text.find(stop);
    if (at == std::string::npos) continue;
    if (std::pair(at + stop.size(), at) < std::pair(first.end, first.begin)) first = {&stop, at, at + stop.size()};
  }
  return first;
}

}  // namespace tern::engine
