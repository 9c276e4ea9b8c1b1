// Numbers of a program's outputs, which lie in bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace tern::engine {

template <typename T>
[[nodiscard]] T number_at(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace tern::engine
