// The windows in which a text is scored that is longer than what is computed at once.
#pragma once

#include <cstddef>
#include <vector>

namespace tern::engine {

// Tokens [begin, end) of a text are computed, and those from `first` on are scored, each given the window's tokens
// before it: begin < first <= end.
struct ScoreWindow {
  std::size_t begin = 0;
  std::size_t first = 1;
  std::size_t end = 0;
};

// Windows of at most `length` tokens that begin every `stride` tokens (1 to length - 1), the last one at the text's
// end, as transformers' guide to perplexity has them: each token but the first is scored once, those of the first
// window given all before them, later ones given at least length - stride tokens. A text of at most `length` tokens is
// one window.
[[nodiscard]] std::vector<ScoreWindow> score_windows(std::size_t tokens, std::size_t length, std::size_t stride);

}  // namespace tern::engine
