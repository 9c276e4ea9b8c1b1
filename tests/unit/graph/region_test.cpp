// If these fail, a part of a gradient is forgotten, or counted twice.
#include "graph/region.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tern::graph {
namespace {

std::set<std::int64_t> elements_of(const Region& region) {
  std::set<std::int64_t> out;
  if (region.is_empty) return out;
  out.insert(region.offset);
  for (const Region::Dim& dim : region.dims) {
    std::set<std::int64_t> wider;
    for (std::int64_t i = 0; i < dim.size; ++i) {
      for (std::int64_t x : out) wider.insert(x + i * dim.stride);
    }
    out = std::move(wider);
  }
  return out;
}

TensorDesc strided(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& strides) {
  TensorDesc desc = make_desc(TERN_F32, shape);
  std::copy(strides.begin(), strides.end(), desc.strides);
  return desc;
}

// A slice of [5, 24]: rows or columns of it, heads that alternate, or the same seen across.
Region random_slice(std::mt19937& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t rows = 1 + below(5), first_row = below(6 - rows);
  switch (below(4)) {
    case 0: {
      const std::int64_t width = 1 + below(24), first = below(25 - width);
      return region_of(strided({rows, width}, {24, 1}), first_row * 24 + first);
    }
    case 1:  // heads of 4 features, each with parts of 2
      return region_of(strided({rows, 6, 2}, {24, 4, 1}), first_row * 24 + 2 * below(2));
    case 2:
      return region_of(strided({6, 4, rows}, {4, 1, 24}), first_row * 24);
    default: {
      const std::int64_t count = 1 + below(24);
      return region_of(strided({count}, {1}), below(120 - count));
    }
  }
}

TEST(Region, WhatIsLeftIsWhatWasNotTaken) {
  std::mt19937 random(7);
  int told = 0;
  for (int round = 0; round < 3000; ++round) {
    const Region from = random_slice(random);
    std::vector<Region> taken;
    std::set<std::int64_t> expected = elements_of(from);
    for (unsigned i = random() % 4; i > 0; --i) {
      taken.push_back(random_slice(random));
      for (std::int64_t x : elements_of(taken.back())) expected.erase(x);
    }
    const auto rest = subtract(from, taken);
    if (!rest) continue;
    ++told;
    std::multiset<std::int64_t> found;
    for (const Region& region : *rest) {
      for (std::int64_t x : elements_of(region)) found.insert(x);
    }
    ASSERT_EQ(found, std::multiset<std::int64_t>(expected.begin(), expected.end())) << "round " << round;
  }
  EXPECT_GT(told, 1000);
}

TEST(Region, EqualSetsAreEqual) {
  const Region whole = region_of(make_desc(TERN_F32, {5, 24}), 0);
  EXPECT_EQ(whole, region_of(make_desc(TERN_F32, {120}), 0));
  EXPECT_EQ(whole, region_of(strided({24, 5}, {1, 24}), 0));
  EXPECT_EQ(whole, region_of(strided({5, 3, 24}, {24, 0, 1}), 0));
  EXPECT_NE(whole, region_of(strided({5, 23}, {24, 1}), 0));
  EXPECT_THROW((void)region_of(strided({4, 3}, {2, 1}), 0), std::logic_error);
}

TEST(Region, KeepsTheCountOfRows) {
  const TensorDesc storage = with_dynamic(make_desc(TERN_F32, {5, 24}), 0, 3);
  for (const TensorDesc& desc :
       {make_desc(TERN_F32, {5, 24}), strided({5, 7}, {24, 1}), strided({5, 6, 2}, {24, 4, 1})}) {
    const TensorDesc made = desc_of(region_of(desc, 2), storage, TERN_F32);
    const TensorDesc at_zero = desc_of(region_of(desc, 0), storage, TERN_F32);
    EXPECT_EQ(at_zero.dynamic_dim, 0);
    EXPECT_EQ(at_zero.count_slot, 3);
    EXPECT_EQ(at_zero.shape[0], 5);
    EXPECT_EQ(num_elements(made), num_elements(desc));
  }
  EXPECT_EQ(desc_of(region_of(strided({2, 24}, {24, 1}), 24), storage, TERN_F32).dynamic_dim, -1);
}

}  // namespace
}  // namespace tern::graph
