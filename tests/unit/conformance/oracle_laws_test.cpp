// The oracles, gradients and decompositions against each other: if one of these fails, every device is judged by a
// wrong measure.
#include "conformance/oracle_laws.h"

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/recipe.h"
#include "ops/ref/executor.h"
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
    if (source.variant.in != TERN_F32 || source.variant.out != TERN_F32 || source.variant.narrow_keys) continue;
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

// Without any rounding, what a decomposition gives is the op itself.
double distance_in_fp64(const Case& c) {
  ops::ref::Executor executor(false);
  ops::OpCall call;
  call.op = c.op;
  call.attrs = c.attrs;
  call.accumulate = c.accumulate;
  call.inputs.resize(c.args.size());
  call.outputs.assign(c.args.size(), absent_desc());
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const Argument& arg = c.args[i];
    if (!is_present(arg.desc)) continue;
    if (c.written(i)) call.outputs[i] = arg.desc;
    if (c.read(i)) call.inputs[i] = executor.add(decode(arg.desc, arg.planes, c.counts));
  }
  const std::vector<ops::Value> results = ops::op_rules(c.op).decompose(executor, call);
  const std::vector<ops::ref::Tensor> fused = run_oracle(c);
  double worst = 0.0;
  for (std::size_t i = 0; i < fused.size(); ++i) {
    if (!c.written(i) || !fused[i].present()) continue;
    const ops::ref::Tensor made = executor.read(results[i]);
    for (std::size_t n = 0; n < fused[i].real.size(); ++n) {
      const double want = fused[i].real[n];
      const double found = made.real[n];
      if (want == found) continue;  // -infinity among them
      const double error = std::fabs(want - found) / (1.0 + std::fabs(want));
      worst = error <= worst ? worst : error;  // a NaN stays
      if (std::isnan(worst)) return worst;
    }
  }
  return worst;
}

TEST(Sinks, DecomposedAttentionIsTheFusedOneInFp64) {
  const std::pair<std::uint32_t, int> ops[] = {{TERN_OP_ATTENTION, TERN_ATTENTION_SINKS},
                                               {TERN_OP_ATTENTION_BACKWARD, TERN_ATTENTION_BACKWARD_SINKS},
                                               {TERN_OP_ATTENTION_PAGED, TERN_ATTENTION_PAGED_SINKS}};
  for (const auto& [op, sinks] : ops) {
    int count = 0;
    for (const CaseSource& source : case_sources(op)) {
      if (source.variant.dynamic || source.variant.special != 0) continue;
      const Case c = source.make(5);
      if (!is_present(c.args[static_cast<std::size_t>(sinks)].desc) || c.accumulate != 0) continue;
      EXPECT_LT(distance_in_fp64(c), 1e-11) << c.label;
      ++count;
    }
    EXPECT_GT(count, 10) << ops::op_spec(op).name;
  }
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
