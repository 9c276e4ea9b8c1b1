// The tolerances: too wide and mistakes pass, too narrow and sound kernels fail.
#include "ops/tolerance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/ref/tensor.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(ErrorShare, OneRoundingIsAllowedTheWrongOneIsNot) {
  const double exact = 1.0 + 0x1.8p-8;  // between 1 and 1 + 2^-7, nearer to the latter
  EXPECT_LE(error_share(TERN_BF16, exact, 0.0, 1.0 + 0x1p-7, true), 1.0);
  EXPECT_GT(error_share(TERN_BF16, exact, 0.0, 1.0, true), 1.0);
  // with room for the error before the rounding, either neighbour may be right
  EXPECT_LE(error_share(TERN_BF16, exact, 0x1p-9, 1.0, true), 1.0);
  EXPECT_GT(error_share(TERN_BF16, exact, 0x1p-9, 1.0 - 0x1p-8, true), 1.0);
}

TEST(ErrorShare, WhatIsNotFinite) {
  EXPECT_EQ(error_share(TERN_F32, kNan, 0.0, kNan, true), 0.0);
  EXPECT_GT(error_share(TERN_F32, kNan, 0.0, 1.0, false), 1.0);
  EXPECT_EQ(error_share(TERN_F32, kInf, kInf, kNan, false), 0.0);
  EXPECT_GT(error_share(TERN_F32, kInf, kInf, kNan, true), 1.0);
  EXPECT_GT(error_share(TERN_F32, kInf, kInf, 0.0, false), 1.0);
  EXPECT_GT(error_share(TERN_F32, -kInf, 0.0, kInf, true), 1.0);
  EXPECT_GT(error_share(TERN_F32, 1.0, 0.5, kNan, false), 1.0);
  EXPECT_EQ(error_share(TERN_F32, 1.0, kInf, 7.0, true), 0.0);  // left open by the contract
  // near the largest fp16 number, both sides of the border
  EXPECT_LE(error_share(TERN_F16, 65519.0, 2.0, kInf, true), 1.0);
  EXPECT_LE(error_share(TERN_F16, 65521.0, 2.0, 65504.0, true), 1.0);
  EXPECT_GT(error_share(TERN_F16, 65000.0, 2.0, kInf, true), 1.0);
}

TEST(Growth, CoversPlainSummationAndMissesNoTerm) {
  // Sums in fp32, in order: the worst of many stays inside, and leaving out one term does not.
  std::mt19937 random(3);
  std::uniform_real_distribution<float> size(0.5F, 1.5F);
  for (int length : {1, 7, 64, 1000, 10'000}) {
    for (int trial = 0; trial < 20; ++trial) {
      double exact = 0.0;
      double magnitude = 0.0;
      float sum = 0.0F;
      float term = 0.0F;
      for (int i = 0; i < length; ++i) {
        term = size(random) * (random() % 2 == 0 ? 1.0F : -1.0F);
        sum += term;
        exact += term;
        magnitude += std::fabs(term);
      }
      const double slack = slack_of(magnitude, length);
      EXPECT_LE(error_share(TERN_F32, exact, slack, sum, true), 1.0) << length;
      EXPECT_GT(error_share(TERN_F32, exact, slack, static_cast<float>(exact - term), true), 1.0) << length;
    }
  }
}

// What is rounded to 16 bits on the way is not multiplied by the length of the sum.
TEST(Growth, LeavesRoundingsTo16BitsAlone) {
  const double narrowed = 0x1p-8;
  EXPECT_NEAR(slack_of(1.0, 4096, narrowed), narrowed, 0x1p-15);
  EXPECT_GT(slack_of(1.0 + narrowed * 0x1p24, 4096), 64 * narrowed);
}

// The slack that an oracle leaves in output `arg` of a call on ones; empty: none.
std::vector<double> slack_in(std::uint32_t op, std::vector<TensorDesc> descs, std::size_t arg,
                             std::uint32_t accumulate = 0) {
  std::vector<ref::Tensor> args(descs.size());
  for (std::size_t i = 0; i < descs.size(); ++i) {
    args[i].desc = descs[i];
    if (is_present(descs[i])) args[i].real.assign(static_cast<std::size_t>(num_elements(descs[i])), 1.0);
  }
  const std::vector<std::byte> attrs(op_spec(op).attrs.size() * 4);
  ref::Call call{op, attrs, accumulate, args};
  op_rules(op).reference(call);
  return args[arg].slack;
}

TEST(Exactness, CopiesAreExactUnlessTheyAdd) {
  const TensorDesc row = make_desc(TERN_F32, {2, 3});
  EXPECT_TRUE(slack_in(TERN_OP_CAST_COPY, {row, row}, TERN_CAST_COPY_Y).empty());
  EXPECT_FALSE(slack_in(TERN_OP_CAST_COPY, {row, row}, TERN_CAST_COPY_Y, 1U << TERN_CAST_COPY_Y).empty());
  const std::vector<TensorDesc> norm = {row, row, make_desc(TERN_F32, {3}), row, row, absent_desc()};
  EXPECT_TRUE(slack_in(TERN_OP_RMS_NORM, norm, TERN_RMS_NORM_SUM).empty());
  EXPECT_FALSE(slack_in(TERN_OP_RMS_NORM, norm, TERN_RMS_NORM_Y).empty());
}

}  // namespace
}  // namespace tern::ops
