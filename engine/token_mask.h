// Which tokens a sequence may draw next: what a grammar allows, say.
#pragma once

#include <cstdint>
#include <span>

namespace tern::engine {

// One of a request's answers has one of these, from its first token on.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  TokenMask() = default;
  TokenMask(const TokenMask&) = delete;
  TokenMask& operator=(const TokenMask&) = delete;

  // Writes the tokens that are allowed next: bit t % 32 of word t / 32; [ceil(vocab_size / 32)], bits beyond the
  // vocabulary are 0. At least one token is allowed until the answer is complete, then its end tokens are.
  virtual void fill(std::span<std::uint32_t> words) = 0;
  // A token that was drawn, one that was allowed.
  virtual void accept(std::int32_t token) = 0;
  // Whether the answer is complete: nothing but an end token may follow.
  [[nodiscard]] virtual bool complete() const = 0;
};

}  // namespace tern::engine
