#include "data/numpy_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace tern::data {
namespace {

using Pool = std::array<std::uint32_t, 4>;

constexpr std::uint32_t kInitA = 0x43b0d7e5, kMultA = 0x931e8875, kInitB = 0x8b51f9dd, kMultB = 0x58f38ded;
constexpr std::uint32_t kMixLeft = 0xca01f9dd, kMixRight = 0x4973f715;
constexpr unsigned kShift = 16;

std::uint32_t hash(std::uint32_t value, std::uint32_t& constant, std::uint32_t factor) {
  value ^= constant;
  constant *= factor;
  value *= constant;
  return value ^ (value >> kShift);
}

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t result = kMixLeft * x - kMixRight * y;
  return result ^ (result >> kShift);
}

// SeedSequence.mix_entropy of a seed of one or two words.
Pool pool_of(std::uint64_t seed) {
  Pool pool{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  std::uint32_t constant = kInitA;
  for (std::uint32_t& word : pool) word = hash(word, constant, kMultA);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = mix(pool[to], hash(pool[from], constant, kMultA));
    }
  }
  return pool;
}

// SeedSequence.generate_state of four words of 64 bits.
std::array<std::uint64_t, 4> state_of(const Pool& pool) {
  std::array<std::uint64_t, 4> out{};
  std::uint32_t constant = kInitB;
  for (std::size_t i = 0; i < 2 * out.size(); ++i) {
    const std::uint64_t word = hash(pool[i % pool.size()], constant, kMultB);
    out[i / 2] |= word << (i % 2 * 32);
  }
  return out;
}

}  // namespace

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  const auto words = state_of(pool_of(seed));
  const auto both = [&](std::size_t i) { return (Word{words[i]} << 64) | words[i + 1]; };
  increment_ = (both(2) << 1) | 1;
  step();
  state_ += both(0);
  step();
}

void NumpyRandom::step() {
  constexpr Word kFactor = (Word{0x2360ed051fc65da4ULL} << 64) | 0x4385df649fccf645ULL;
  state_ = state_ * kFactor + increment_;
}

std::uint64_t NumpyRandom::next() {
  step();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

double NumpyRandom::random() { return static_cast<double>(next() >> 11) * 0x1p-53; }

NumpyChoice::NumpyChoice(const std::vector<double>& p, std::uint64_t seed) : random_(seed) {
  double sum = 0;
  for (const double one : p) sums_.push_back(sum += one);
  for (double& each : sums_) each /= sum;
}

std::size_t NumpyChoice::next() {
  const auto at = std::upper_bound(sums_.begin(), sums_.end(), random_.random());
  return static_cast<std::size_t>(at - sums_.begin());
}

}  // namespace tern::data
