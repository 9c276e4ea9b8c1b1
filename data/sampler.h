// The order in which samples are seen, as a pure function of (seed, epoch, index): nothing to save, resume anywhere.
//
// Permutation is a Feistel network over the smallest power of four that holds n, its round function Philox 4x32-10
// keyed by (seed, epoch), and its values outside [0, n) walked on along their cycle (Black and Rogaway, "Ciphers with
// Arbitrary Finite Domains", 2002). O(1) memory, 1 to 4 walks expected an index.
#pragma once

#include <cstdint>

namespace tern::data {

class Permutation {
 public:
  // n = 0 is a permutation of nothing. n may be up to 2^62.
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

  [[nodiscard]] std::uint64_t size() const { return n_; }
  // The element at place `index` < size().
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  [[nodiscard]] std::uint64_t once(std::uint64_t value) const;

  std::uint64_t n_;
  std::uint64_t key_;
  unsigned half_bits_ = 1;
};

}  // namespace tern::data
