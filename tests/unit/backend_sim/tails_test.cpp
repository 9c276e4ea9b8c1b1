// If these fail, a host that pads wrongly passes on the simulated device and breaks on real ones, which compute the
// whole capacity.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tern/accel_ops.h"
#include "tests/unit/backend_sim/one_kernel.h"

namespace tern::test {
namespace {

using Counts = std::array<std::int64_t, TERN_MAX_COUNTS>;

TensorDesc rows_of(tern_dtype dtype, std::initializer_list<std::int64_t> shape) {
  return with_dynamic(make_desc(dtype, shape), 0, 0);
}

Counts two_rows() {
  Counts counts{};
  counts[0] = 2;
  return counts;
}

// y = 2 x over four rows of one number, of which two count.
std::vector<float> doubled(const accel::DevicePtr& device, const std::vector<float>& x) {
  const TensorDesc desc = rows_of(TERN_F32, {4, 1});
  const auto found = run_kernel(device, TERN_OP_AXPBY, {given(desc, x), {}, given(desc, std::vector<float>(4))},
                                ops::pack_attrs(tern_axpby_attrs{2.0F, 0.0F}), two_rows());
  return values_of<float>(found[2]);
}

TEST(SimTails, AreComputedWhereCapacitiesAre) {
  const auto found = doubled(open_sim({{"TERN_SIM", "ascend"}}), {1.0F, 2.0F, 3.0F, 0.0F});
  EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 3), (std::vector<float>{2.0F, 4.0F, 6.0F}));
  EXPECT_TRUE(std::isfinite(found[3]));
  EXPECT_NE(found[3], 0.0F) << "a sum over it would go unseen";
  const auto cut = doubled(open_sim({{"TERN_SIM", "discrete"}}), {1.0F, 2.0F, 3.0F, 4.0F});
  EXPECT_EQ(cut[1], 4.0F);
  EXPECT_TRUE(std::isnan(cut[2]));
}

TEST(SimTails, AreOwedFiniteNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string found = failure_of([&] { doubled(open_sim({{"TERN_SIM", "ascend"}}), {1.0F, nan, 3.0F, nan}); });
  EXPECT_TRUE(contains(found, "axpby: x[3], beyond the count of 2: expected a finite number, found nan")) << found;
  EXPECT_TRUE(contains(found, "the padding that the host gave is wrong")) << found;
  EXPECT_EQ(failure_of([&] { doubled(open_sim(), {1.0F, 2.0F, nan, nan}); }), "");
}

std::vector<float> embedded(const accel::DevicePtr& device, const std::vector<std::int32_t>& ids) {
  const auto found =
      run_kernel(device, TERN_OP_EMBEDDING,
                 {given(make_desc(TERN_F32, {3, 1}), std::vector<float>{1.0F, 2.0F, 3.0F}),
                  given(rows_of(TERN_I32, {4}), ids), given(rows_of(TERN_F32, {4, 1}), std::vector<float>(4))},
                 {}, two_rows());
  return values_of<float>(found[2]);
}

TEST(SimTails, AreOwedIndicesInBounds) {
  const auto ascend = open_sim({{"TERN_SIM", "ascend"}});
  EXPECT_EQ(embedded(ascend, {2, 1, 0, 1}), (std::vector<float>{3.0F, 2.0F, 1.0F, 2.0F}));
  const std::string found = failure_of([&] { embedded(ascend, {2, 1, 0, 3}); });
  EXPECT_TRUE(contains(found, "embedding: ids[3]: expected -1 to 2, found 3, beyond the count")) << found;
  EXPECT_TRUE(contains(found, "padding")) << found;
  EXPECT_EQ(failure_of([&] { embedded(open_sim(), {2, 1, 0, 3}); }), "");
}

// Two blocks of two slots, and four rows of which two count.
std::vector<float> stored(const accel::DevicePtr& device, const std::vector<std::int32_t>& slots) {
  const TensorDesc cache = make_desc(TERN_F32, {2, 2, 1, 1});
  const std::vector<float> before = {-1.0F, -2.0F, -3.0F, -4.0F};
  const auto found = run_kernel(device, TERN_OP_KV_WRITE,
                                {given(rows_of(TERN_F32, {4, 1, 1}), std::vector<float>{1.0F, 2.0F, 3.0F, 4.0F}),
                                 {},
                                 given(rows_of(TERN_I32, {4}), slots),
                                 given(cache, before),
                                 {}},
                                {}, two_rows());
  return values_of<float>(found[3]);
}

TEST(SimTails, AreStoredInBlockZero) {
  const auto ascend = open_sim({{"TERN_SIM", "ascend"}});
  for (const auto& device : {ascend, open_sim()}) {
    const auto found = stored(device, {2, 3, 0, 1});
    EXPECT_EQ(std::vector<float>(found.begin() + 2, found.end()), (std::vector<float>{1.0F, 2.0F}));
  }
  const std::string found = failure_of([&] { stored(ascend, {2, 3, 0, 2}); });
  EXPECT_TRUE(contains(found, "kv_write: slots[3], beyond the count of 2: expected a slot of block 0, 0 to 1, found 2"))
      << found;
  for (const auto& device : {ascend, open_sim()}) {
    EXPECT_TRUE(contains(failure_of([&] { stored(device, {2, -1, 0, 0}); }), "expected 0 to 3, found -1"));
  }
}

std::vector<float> attended(const accel::DevicePtr& device, const std::vector<std::int32_t>& bounds) {
  const TensorDesc rows = rows_of(TERN_F32, {4, 1, 1});
  const TensorDesc lengths = with_dynamic(make_desc(TERN_I32, {4}), 0, 1);
  const std::vector<float> zeros(4);
  Counts counts = two_rows();
  counts[1] = 2;  // one sequence
  const auto found = run_kernel(device, TERN_OP_ATTENTION,
                                {given(rows, zeros),
                                 given(rows, zeros),
                                 given(rows, std::vector<float>{1.0F, 3.0F, 5.0F, 7.0F}),
                                 given(lengths, bounds),
                                 given(lengths, bounds),
                                 {},
                                 {},
                                 given(rows, zeros),
                                 {}},
                                ops::pack_attrs(tern_attention_attrs{1.0F, 0.0F, 0, 0, 4, 4, 0, 0}), counts, {3, 4});
  return values_of<float>(found[7]);
}

TEST(SimTails, HoldNoSequences) {
  const auto ascend = open_sim({{"TERN_SIM", "ascend"}});
  EXPECT_EQ(attended(ascend, {0, 2, 2, 2})[1], 2.0F);
  const std::string longer = failure_of([&] { attended(ascend, {0, 2, 3, 3}); });
  EXPECT_TRUE(contains(longer, "attention: cu_seqlens_q[2], beyond the count of 2: expected 2, ")) << longer;
  const std::string stale = failure_of([&] { attended(ascend, {0, 2, 1, 2}); });
  EXPECT_TRUE(contains(stale, "cu_seqlens_q[2]: expected 2 to 4, found 1, beyond the count")) << stale;
}

}  // namespace
}  // namespace tern::test
