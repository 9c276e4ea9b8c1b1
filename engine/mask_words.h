// What TokenMask::fill writes.
#pragma once

#include <cstdint>
#include <span>

namespace tern::engine {

// Every token of the vocabulary, and no bit beyond it.
inline void allow_all(std::span<std::uint32_t> words, std::int64_t vocab_size) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::int64_t left = vocab_size - 32 * static_cast<std::int64_t>(i);
    words[i] = left >= 32 ? ~0U : left > 0 ? (1U << left) - 1 : 0U;
  }
}

inline void allow(std::span<std::uint32_t> words, std::int32_t token) {
  words[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
}

inline void forbid(std::span<std::uint32_t> words, std::int32_t token) {
  words[static_cast<std::size_t>(token) / 32] &= ~(1U << (token % 32));
}

}  // namespace tern::engine
