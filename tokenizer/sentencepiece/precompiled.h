// sentencepiece's precompiled character map: a double-array trie of byte strings (Darts-clone's layout) and the
// replacements that its leaves point at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::tokenizer {

class CharsMap {
 public:
  // Throws Failure naming `where` if it is damaged; empty bytes are a map of nothing.
  CharsMap(std::string_view bytes, const std::string& where);
  // The length of a prefix of `part` that is in the map, and its replacement: the longest, or else the shortest one. 0
  // where there is none.
  [[nodiscard]] std::size_t find(std::string_view part, bool longest, std::string_view& replacement) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace tern::tokenizer
