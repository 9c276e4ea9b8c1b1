#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "data/dataset_spec.h"

namespace tern::data {
namespace {

TEST(Sampler, IsAPermutationOfEverySize) {
  for (std::uint64_t n = 0; n <= 300; ++n) {
    const Permutation order(n, 42, n % 5);
    std::vector<bool> seen(n, false);
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(order(i), n);
      ASSERT_FALSE(seen[order(i)]) << "twice in " << n;
      seen[order(i)] = true;
    }
  }
}

TEST(Sampler, LargeDomainsStayInside) {
  const std::uint64_t n = (std::uint64_t{1} << 40) + 12345;
  const Permutation order(n, 1, 2);
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 20000; ++i) values.push_back(order(i));
  EXPECT_LT(*std::max_element(values.begin(), values.end()), n);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
}

TEST(Sampler, DependsOnSeedAndEpoch) {
  const auto list = [](std::uint64_t seed, std::uint64_t epoch) {
    const Permutation order(1000, seed, epoch);
    std::vector<std::uint64_t> out;
    for (std::uint64_t i = 0; i < 1000; ++i) out.push_back(order(i));
    return out;
  };
  EXPECT_EQ(list(1, 0), list(1, 0));
  EXPECT_NE(list(1, 0), list(1, 1));
  EXPECT_NE(list(1, 0), list(2, 0));
}

// Were the order biased, an element would favour a place: chi-squared over places of one element, 99.9999% quantile of
// nine degrees of freedom.
TEST(Sampler, EveryPlaceIsEquallyLikely) {
  constexpr int kCells = 10;
  constexpr int kTrials = 20000;
  for (const std::uint64_t element : {0U, 5U, 9U}) {
    std::vector<int> counts(kCells, 0);
    for (int seed = 0; seed < kTrials; ++seed) {
      ++counts[Permutation(kCells, static_cast<std::uint64_t>(seed), 7)(element)];
    }
    double chi = 0;
    const double expected = static_cast<double>(kTrials) / kCells;
    for (const int count : counts) chi += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi, 46.0) << "element " << element;
  }
}

TEST(SelectRows, BelowAtAndAboveTheLength) {
  EXPECT_EQ(select_rows(4, std::nullopt, 1), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(select_rows(4, 4, 1), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(select_rows(0, 4, 1).empty());
  const auto some = select_rows(1000, 100, 42);
  ASSERT_EQ(some.size(), 100U);
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
  EXPECT_EQ(std::adjacent_find(some.begin(), some.end()), some.end()) << "a row twice";
  EXPECT_NE(some, select_rows(1000, 100, 43));
  const auto many = select_rows(10, 23, 42);
  ASSERT_EQ(many.size(), 23U);
  for (std::uint32_t row = 0; row < 10; ++row) {
    const auto times = std::count(many.begin(), many.end(), row);
    EXPECT_TRUE(times == 2 || times == 3);
  }
}

TEST(DatasetSpec, SplitsAtTheLastHash) {
  EXPECT_EQ(parse_dataset_spec("a.jsonl")->path, "a.jsonl");
  EXPECT_FALSE(parse_dataset_spec("a.jsonl")->count);
  EXPECT_EQ(parse_dataset_spec("a.jsonl#500")->count, 500U);
  EXPECT_EQ(parse_dataset_spec("a#b.jsonl")->path, "a#b.jsonl");
  EXPECT_EQ(parse_dataset_spec("a#1#2")->path, "a#1");
  EXPECT_FALSE(parse_dataset_spec("a.jsonl#0").ok());
  EXPECT_FALSE(parse_dataset_spec("a.jsonl#99999999999999999999999").ok());
  EXPECT_FALSE(parse_dataset_spec("a.jsonl#4000000000").ok()) << "places would not fit in memory";
  EXPECT_FALSE(parse_dataset_spec("").ok());
  EXPECT_FALSE(parse_dataset_spec("#5").ok());
}

}  // namespace
}  // namespace tern::data
