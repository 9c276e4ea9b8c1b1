// Where an answer's text ends: the texts that a request stops at, which come cut by tokens as it may be.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tern::engine {

// How many of the last characters of `text` could begin one of the stop texts.
[[nodiscard]] std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops);

struct FoundStop {
  const std::string* stop = nullptr;  // null: none
  std::size_t begin = std::string::npos, end = std::string::npos;
};

// The stop text that is complete first, and begins first of those that end there: what a text that comes character by
// character stops at, however the tokens cut it.
[[nodiscard]] FoundStop first_stop(const std::string& text, const std::vector<std::string>& stops);

}  // namespace tern::engine
