#include "engine/score_windows.h"

#include <algorithm>

namespace tern::engine {

std::vector<ScoreWindow> score_windows(std::size_t tokens, std::size_t length, std::size_t stride) {
  std::vector<ScoreWindow> windows;
  for (std::size_t begin = 0, scored = 1; scored < tokens; begin += stride) {
    const std::size_t end = std::min(begin + length, tokens);
    windows.push_back({begin, scored, end});
    scored = end;
  }
  return windows;
}

}  // namespace tern::engine
