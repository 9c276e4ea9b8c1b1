// Shapes are read while tern is compiled: what a contract says is data, and a malformed one does not compile.
#include "ops/shape.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace tern::ops {
namespace {

constexpr Shape kPlain = "[rows, width]: what was normalised";
static_assert(kPlain.count() == 2 && !kPlain.is_open() && !kPlain.is_checked_by_op());
static_assert(kPlain[0].name == "rows" && kPlain[1].name == "width" && kPlain[1].number == 0);
static_assert(kPlain.find("width") == 1 && kPlain.find("heads") == -1);
static_assert(kPlain.text == "[rows, width]: what was normalised");

constexpr Shape kOpen = "[n, ...]";
static_assert(kOpen.count() == 1 && kOpen.is_open());
constexpr Shape kAny = "[...] (stride 0 broadcasts)";
static_assert(kAny.count() == 0 && kAny.is_open());
constexpr Shape kNumber = "[8]: lr, beta1, beta2";
static_assert(kNumber[0].name.empty() && kNumber[0].number == 8 && kNumber.find("") == -1);
constexpr Shape kMore = "[sequences + 1]";
static_assert(kMore[0].name == "sequences" && kMore[0].number == 1);
constexpr Shape kExpression = "[rows, ceil(vocab / 32)]: bit 1 allows";
static_assert(kExpression[1].name == "ceil(vocab / 32)");
constexpr Shape kOptions = Shape::checked_by_op("[m, k] or [k, m] if transpose_a");
static_assert(kOptions.is_checked_by_op() && kOptions.count() == 0 && kOptions.find("m") == -1);

TEST(Shape, EveryContractNamesItsDimensionsOrLeavesThemToTheOp) {
  for (const OpSpec& op : op_table()) {
    for (const ArgSpec& arg : op.args) {
      EXPECT_EQ(arg.shape.is_checked_by_op(), arg.shape.count() == 0 && !arg.shape.is_open())
          << op.name << "." << arg.name;
      EXPECT_FALSE(name_of(arg.dtypes).empty());
    }
  }
}

}  // namespace
}  // namespace tern::ops
