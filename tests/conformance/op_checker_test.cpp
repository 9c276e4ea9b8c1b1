// A model's own ops against the oracle: a sound device passes on every personality, and one kernel that is wrong in one
// element is named, forward and backward, with the weights that it read.
#include <gtest/gtest.h>

#include "conformance/op_checker.h"
#include "mutant/mutant.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

using conformance::OpChecker;

std::shared_ptr<OpChecker> checked(const accel::DevicePtr& device) {
  auto checker = std::make_shared<OpChecker>();
  graph::ProgramOptions options;
  options.probe = checker;
  TinyProgram program(device, {}, options);
  program.run(Batch::of({5, 6}));
  program.run(Batch::of({3, 9, 4}, 2));
  return checker;
}

TEST(OpChecker, PassesASoundDevice) {
  const auto on_cpu = checked(accel::Device::open(load_plugin("cpu"), 0).value());
  EXPECT_FALSE(on_cpu->first()) << on_cpu->first()->problem;
  EXPECT_GT(on_cpu->calls(), 80);
  EXPECT_TRUE(on_cpu->tallies().contains(TERN_OP_ATTENTION));
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    const auto on_sim = checked(open_sim({{"TERN_SIM", personality}}));
    EXPECT_FALSE(on_sim->first()) << on_sim->first()->problem;
    EXPECT_GE(on_sim->calls(), on_cpu->calls());
  }
}

TEST(OpChecker, NamesTheFirstWrongOp) {
  const auto sound = load_plugin("cpu");
  for (const std::uint32_t op : std::initializer_list<std::uint32_t>{
           TERN_OP_RMS_NORM, TERN_OP_MATMUL, TERN_OP_ROPE, TERN_OP_ATTENTION, TERN_OP_ACT_MUL,
           TERN_OP_LINEAR_CROSS_ENTROPY, TERN_OP_ATTENTION_BACKWARD, TERN_OP_RMS_NORM_BACKWARD}) {
    const ops::OpSpec& spec = ops::op_spec(op);
    SCOPED_TRACE(spec.name);
    int written = 0;
    while (spec.args[static_cast<std::size_t>(written)].role == ops::Role::input) ++written;
    const auto backend = mutant::mutate(sound, {.mistake = mutant::Mistake::wrong_element, .op = op, .arg = written});
    const auto checker = checked(accel::Device::open(backend, 0).value());
    ASSERT_GT(mutant::times_made(), 0);
    ASSERT_TRUE(checker->first());
    EXPECT_EQ(checker->first()->failing.op, op);
    EXPECT_NE(checker->first()->problem.find("of the tolerance"), std::string::npos) << checker->first()->problem;
    // Ops that read what the wrong one made are judged by that, and pass.
    for (const auto& [other, tally] : checker->tallies()) EXPECT_EQ(tally.wrong > 0, other == op);
    if (op == TERN_OP_MATMUL) {
      EXPECT_EQ(checker->first()->weights, "layer0.q");
    }
  }
}

}  // namespace
}  // namespace tern::test
