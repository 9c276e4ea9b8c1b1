// The oracles, gradients and decompositions against each other: if one of these fails, every device is judged by a
// wrong measure.
#include "conformance/oracle_laws.h"

#include <gtest/gtest.h>

#include "conformance/recipe.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

class EveryOp : public testing::TestWithParam<std::uint32_t> {};

// A small case: finite differences run the oracle some hundred times.
bool is_small(const Case& c) {
  std::int64_t elements = 0;
  for (const Argument& arg : c.args) elements += num_elements(arg.desc);
  return elements < 12'000;
}

TEST_P(EveryOp, CasesKeepTheContract) {
  for (const CaseSource& source : case_sources(GetParam())) {
    const Case c = source.make(1);
    const accel::OpDesc desc = op_desc(c);
    EXPECT_EQ(ops::check_call(desc.op, desc.args, desc.attrs, desc.accumulate), "") << c.label;
  }
}

TEST_P(EveryOp, GradientsAreThoseOfTheOracle) {
  int checked = 0;
  for (const CaseSource& source : case_sources(GetParam())) {
    if (source.variant.in != TERN_F32 || source.variant.out != TERN_F32) continue;
    const Case c = source.make(2);
    if (!is_small(c)) continue;
    EXPECT_EQ(check_gradient(c, checked), "") << c.label;
  }
  EXPECT_EQ(checked > 0, ops::op_rules(GetParam()).backward != nullptr);
}

TEST_P(EveryOp, DecompositionsAreTheOp) {
  int count = 0;
  for (const CaseSource& source : case_sources(GetParam())) {
    const Case c = source.make(3);
    if (c.special && c.op == TERN_OP_DROPOUT) continue;  // a dropped NaN stays NaN, as the contract says
    bool decomposed = false;
    EXPECT_EQ(check_decomposition(c, decomposed), "") << c.label;
    count += decomposed ? 1 : 0;
  }
  EXPECT_EQ(count > 0, ops::op_rules(GetParam()).decompose != nullptr);
}

std::vector<std::uint32_t> all_ops() {
  std::vector<std::uint32_t> out;
  for (const ops::OpSpec& op : ops::op_table()) out.push_back(op.id);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return std::string(ops::op_spec(info.param).name); });

}  // namespace
}  // namespace tern::conformance
