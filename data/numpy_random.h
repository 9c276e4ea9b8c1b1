// numpy.random.default_rng(seed): the same numbers, so that what `datasets` draws by a seed can be drawn here. PCG64
// (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation",
// 2014), seeded as numpy's SeedSequence does it.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::data {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint64_t seed);
  std::uint64_t next();  // 64 random bits
  double random();       // in [0, 1)

 private:
  using Word = unsigned __int128;
  void step();
  Word state_ = 0;
  Word increment_ = 0;
};

// Generator.choice(len(p), p=p), one at a time.
class NumpyChoice {
 public:
  // `p`: at least 0, with a sum of 1.
  NumpyChoice(const std::vector<double>& p, std::uint64_t seed);
  std::size_t next();

 private:
  NumpyRandom random_;
  std::vector<double> sums_;
};

}  // namespace tern::data
