#include "data/sampler.h"

#include <bit>

#include "base/philox.h"

namespace tern::data {
namespace {

constexpr unsigned kRounds = 7;                 // Luby and Rackoff need four; small halves want more
constexpr std::uint32_t kStream = 0x5a3b1e0dU;  // keeps these bits apart from other users of the same key

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) : n_(n), key_(mix_key(seed, epoch)) {
  const unsigned bits = n > 1 ? static_cast<unsigned>(std::bit_width(n - 1)) : 1;
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t Permutation::once(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (unsigned round = 0; round < kRounds; ++round) {
    // The domain's size is an input, so that sets of different lengths are not shuffled alike.
    const PhiloxBlock bits = philox(key_, {static_cast<std::uint32_t>(right), round ^ kStream,
                                           static_cast<std::uint32_t>(n_), static_cast<std::uint32_t>(n_ >> 32)});
    const std::uint64_t mixed = left ^ (bits[0] & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  std::uint64_t value = index;
  do {
    value = once(value);
  } while (value >= n_ && n_ > 0);
  return value;
}

}  // namespace tern::data
