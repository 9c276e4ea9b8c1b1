#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/strings.h"
#include "tests/unit/backend_cpu/op_harness.h"

namespace tern::test {
namespace {

// Products of activations in whole numbers, x15 and int8.
class WholeNumbers : public testing::TestWithParam<std::int32_t> {
 protected:
  OpCase product(tern_packing packing, std::int64_t m, tern_dtype x = TERN_F32, tern_dtype y = TERN_F32) const;
  void SetUp() override {
    if (able().empty()) GTEST_SKIP() << "this processor has no such products";
  }
  // The targets that have such products.
  std::vector<std::string> able() const {
    std::vector<std::string> found = targets();
    if (GetParam() == TERN_COMPUTE_INT8)
      std::erase_if(found, [](const std::string& target) { return !target.starts_with("a"); });  // avx2 and on
    return found;
  }
  void check(const OpCase& c, const std::string& label) const {
    for (const std::string& target : able()) check_on(target, c, label);
  }
};

OpCase WholeNumbers::product(tern_packing packing, std::int64_t m, tern_dtype x, tern_dtype y) const {
  const std::int64_t out = 77, in = 768;
  OpCase c(TERN_OP_MATMUL_Q);
  c.set_attrs(tern_matmul_q_attrs{1, GetParam()});
  c.random(TERN_MATMUL_Q_X, make_desc(x, {m, in}), 1);
  c.random(TERN_MATMUL_Q_W, make_quantised_desc(TERN_F32, gguf_scheme(packing), out, in), 2);
  c.random(TERN_MATMUL_Q_BIAS, make_desc(TERN_F32, {out}), 3);
  c.output(TERN_MATMUL_Q_Y, make_desc(y, {m, out}));
  return c;
}

float* floats_of(OpCase& c, int arg) {
  return reinterpret_cast<float*>(c.args[static_cast<std::size_t>(arg)].bytes.data());
}

TEST_P(WholeNumbers, EveryPackingByEveryNumberOfRows) {
  for (const tern_packing packing : kBlockPackings) {
    for (const std::int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33}) {
      OpCase c = product(packing, m);
      check(c, cat(packing_name(packing), ", ", m, " rows"));
      c.needs = TERN_NEED_DETERMINISTIC;  // rows may lie side by side
      check(c, cat(packing_name(packing), ", ", m, " rows together"));
    }
    check(product(packing, 3, TERN_BF16, TERN_F16), cat(packing_name(packing), " from bf16 to f16"));
  }
}

// More rows than a thread holds sums of, and than lie in its cache, to and from rows that lie apart.
TEST_P(WholeNumbers, ManyRowsAnywhere) {
  for (const tern_packing packing : {TERN_PACK_GGUF_Q4_1, TERN_PACK_GGUF_Q6_K, TERN_PACK_GGUF_Q8_0}) {
    for (const tern_dtype y : {TERN_F32, TERN_BF16}) {
      OpCase c = product(packing, 600, TERN_F32, y);
      c.accumulate = 1U << TERN_MATMUL_Q_Y;
      check(c, cat(packing_name(packing), ", 600 rows added"));
    }
  }
}

TEST_P(WholeNumbers, ARowHasTheBitsThatItHasAlone) {
  for (const tern_packing packing : kBlockPackings) {
    OpCase all = product(packing, 19);
    for (const std::string& target : able()) {
      all.num_threads = 2;
      const Outcome together = run_on(target, all);
      const auto& got = together.bytes[TERN_MATMUL_Q_Y];
      for (const std::int64_t row : {0, 3, 8, 18}) {
        OpCase one = product(packing, 1);
        one.num_threads = 1;
        std::memcpy(floats_of(one, TERN_MATMUL_Q_X), floats_of(all, TERN_MATMUL_Q_X) + row * 768, 768 * 4);
        const Outcome alone = run_on(target, one);
        EXPECT_EQ(std::memcmp(alone.bytes[TERN_MATMUL_Q_Y].data(), got.data() + row * 77 * 4, 77 * 4), 0)
            << packing_name(packing) << " on " << target << ", row " << row;
      }
    }
  }
}

TEST_P(WholeNumbers, BlocksOfNothingAndOfWhatIsNotFinite) {
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    OpCase c = product(TERN_PACK_GGUF_Q4_K, 3);
    float* x = floats_of(c, TERN_MATMUL_Q_X);
    std::fill_n(x, 64, 0.0F);
    std::fill_n(x + 64, 32, 0x1p-101F);  // counts as 0
    std::fill_n(x + 96, 32, -0x1p-99F);
    x[768 + 5] = odd;
    check(c, "zeros, and something not finite");
    for (const std::string& target : able()) {
      const Outcome got = run_on(target, c);
      const auto* y = reinterpret_cast<const float*>(got.bytes[TERN_MATMUL_Q_Y].data());
      for (int i = 0; i < 3 * 77; ++i) EXPECT_EQ(std::isnan(y[i]), i / 77 == 1) << target << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WholeNumbers, testing::Values(TERN_COMPUTE_X15, TERN_COMPUTE_INT8),
                         [](const auto& kind) { return kind.param == TERN_COMPUTE_X15 ? "x15" : "int8"; });

}  // namespace
}  // namespace tern::test
