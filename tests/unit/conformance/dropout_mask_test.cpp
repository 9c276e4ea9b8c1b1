// Dropout's mask of one key, in numbers that another implementation of Philox gave: devices are compared with the
// oracle, and so is the decomposition, so a counter laid out wrongly in the oracle would show nowhere else.
#include <gtest/gtest.h>

#include <array>

#include "ops/ref/tensor.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

TEST(DropoutMask, IsThatOfTheContract) {
  constexpr std::array<int, 22> kKept = {1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1};
  constexpr std::int64_t kKey = 0x0123456789abcdef;
  const tern_dropout_attrs attrs{0.3F, 5};
  std::vector<ops::ref::Tensor> args(TERN_DROPOUT_NUM_ARGS);
  args[TERN_DROPOUT_X].desc = make_desc(TERN_F32, {1, 22});
  args[TERN_DROPOUT_X].real.assign(22, 1.0);
  args[TERN_DROPOUT_KEYS].desc = make_desc(TERN_I64, {1});
  args[TERN_DROPOUT_KEYS].integer = {kKey};
  args[TERN_DROPOUT_Y].desc = make_desc(TERN_F32, {1, 22});
  ops::ref::Call call{TERN_OP_DROPOUT, std::as_bytes(std::span(&attrs, 1)), 0, args};
  ops::op_rules(TERN_OP_DROPOUT).reference(call);
  for (std::size_t i = 0; i < kKept.size(); ++i) {
    EXPECT_EQ(args[TERN_DROPOUT_Y].real[i] != 0.0, kKept[i] == 1) << "feature " << i;
  }
}

}  // namespace
}  // namespace tern::conformance
