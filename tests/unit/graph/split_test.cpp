// If these fail, a device that compiles graphs of some kinds only computes something else where a graph is split for
// it, or takes other memory than was planned.
#include <gtest/gtest.h>

#include <cstring>

#include "base/log.h"
#include "ops/adamw.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

Environment compiling(std::int64_t nodes, int seed = 0) {
  Environment variables = {{"TERN_SIM", "graph"}, {"TERN_SIM_SEED", std::to_string(seed)}};
  if (nodes > 0) variables["TERN_SIM_GRAPH_NODES"] = std::to_string(nodes);
  return variables;
}

std::vector<std::size_t> recipe_sizes(const graph::ProgramPlan& plan) {
  std::vector<std::size_t> out;
  for (const graph::PlannedStep& step : plan.steps) {
    if (step.kind == graph::StepKind::recipe) out.push_back(step.nodes.size());
  }
  return out;
}

std::size_t sum_of(const std::vector<std::size_t>& sizes) {
  std::size_t sum = 0;
  for (const std::size_t size : sizes) sum += size;
  return sum;
}

// Losses and gradients of a few steps, to the bit, whatever the graphs are cut to; and the device counts what was
// planned.
TEST(Split, TrainsToTheSameBits) {
  for (const bool comm_lane : {false, true}) {
    TinyOptions options;
    options.fused_residual = true;
    options.comm_lane = comm_lane;
    Results whole;
    for (const std::int64_t nodes : {0, 40, 7, 3, 1}) {
      for (int seed = 0; seed < 3; ++seed) {
        SCOPED_TRACE(cat(nodes, " nodes, seed ", seed, comm_lane ? ", two lanes" : ""));
        const auto device = open_sim(compiling(nodes, seed));
        TinyProgram program(device, options);
        for (const Batch& batch : {Batch::of({5, 6}), Batch::of({3, 9, 4}, 2), Batch::of({7})}) program.run(batch);
        const std::vector<std::size_t> sizes = recipe_sizes(program.program().plan());
        EXPECT_EQ(sum_of(sizes), program.program().graph().nodes().size());
        for (const std::size_t size : sizes) EXPECT_LE(size, nodes > 0 ? static_cast<std::size_t>(nodes) : 192U);
        if (nodes == 0) {
          EXPECT_EQ(sizes.size() == 1, !comm_lane);
          if (seed == 0) whole = program.results();
        }
        EXPECT_EQ(program.results(), whole);
        const graph::MemoryReport& report = program.program().memory();
        EXPECT_EQ(device->memory().peak_by_process,
                  program.store().bytes() + report.arenas + report.library + report.context);
        EXPECT_EQ(device->memory().library_bytes, report.library);
      }
    }
  }
}

TEST(Split, KeepsOpsApartThatDontGoIntoOneGraph) {
  const auto device = open_sim(compiling(0));
  const TensorDesc desc = make_desc(TERN_F32, {4});
  Graph graph;
  const Value grad = graph.input("grad", desc);
  ops::AdamwState state;
  state.param = graph.resource("param", desc);
  state.m = graph.resource("m", desc);
  state.v = graph.resource("v", desc);
  graph.output("squares", ops::sum_squares(graph, grad));
  graph.output("param", ops::adamw(graph, state, grad, graph.input("hyper", make_desc(TERN_F32, {10}))).param);
  accel::ChoiceCache choices;
  EXPECT_EQ(recipe_sizes(graph::plan_program(graph, device, choices, {})), (std::vector<std::size_t>{1, 1}));
}

// The simulated device without some graphs.
struct Picky {
  const tern_backend* inner = nullptr;
  tern_backend table{};
  std::uint32_t refused_op = 0;
  int asked = 0;
} picky;

accel::DevicePtr open_picky(std::uint32_t refused_op, std::int64_t nodes) {
  const auto sim_backend = load_plugin("sim");
  picky.inner = &sim_backend->api();
  picky.refused_op = refused_op;
  picky.asked = 0;
  std::memcpy(&picky.table, picky.inner, std::min<std::size_t>(picky.inner->size, sizeof picky.table));
  picky.table.compile = [](tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                           tern_recipe* recipe, tern_plan_info* info) {
    ++picky.asked;
    const auto is_refused = [](const tern_graph_node& node) { return node.op.op == picky.refused_op; };
    if (std::any_of(graph->nodes, graph->nodes + graph->num_nodes, is_refused)) return tern_status{TERN_UNSUPPORTED};
    return picky.inner->compile(device, graph, options, recipe, info);
  };
  const SimEnvironment environment(compiling(nodes));
  return accel::Device::open(accel::Backend::wrap(&picky.table), 0).value();
}

TEST(Split, AnOpThatIsRefusedAloneIsNamed) {
  const auto device = open_picky(TERN_OP_ACT_MUL, 0);
  const std::string found = failure_of([&] { const TinyProgram program(device, {}); });
  EXPECT_TRUE(contains(found, "op act_mul on sim:0 can't be compiled even alone")) << found;
  EXPECT_TRUE(contains(found, "choose another --device")) << found;
  EXPECT_EQ(device->memory().library_bytes, 0U);
}

// A graph that was refused once isn't compiled again to hear the same.
TEST(Split, IsRemembered) {
  const auto device = open_picky(0, 9);
  const TinyModel model{TinyOptions{}};
  accel::ChoiceCache choices;
  const auto first = recipe_sizes(graph::plan_program(model.graph, device, choices, {}));
  const int at_first = std::exchange(picky.asked, 0);
  EXPECT_GT(at_first, static_cast<int>(first.size()));
  accel::ChoiceCache resumed;  // with what a checkpoint holds
  resumed.replay(choices.used());
  EXPECT_EQ(recipe_sizes(graph::plan_program(model.graph, device, resumed, {})), first);
  EXPECT_EQ(picky.asked, static_cast<int>(first.size()));
  EXPECT_EQ(resumed.used(), choices.used()) << "and is kept for the next one";
}

TEST(Split, AChoiceThatIsGoneSplitsNothing) {
  const auto device = open_picky(0, 0);
  const TinyModel model{TinyOptions{}};
  accel::ChoiceCache choices;
  const auto sizes = recipe_sizes(graph::plan_program(model.graph, device, choices, {}));
  auto gone = choices.used();
  for (auto& [key, choice] : gone) choice = "an older compiler's";
  accel::ChoiceCache other;
  other.replay(gone);
  std::string warnings;
  set_log_sink([&](LogLevel, std::string_view line) { warnings += line; });
  EXPECT_EQ(recipe_sizes(graph::plan_program(model.graph, device, other, {})), sizes);
  set_log_sink({});
  EXPECT_TRUE(contains(warnings, "an older compiler's, is gone")) << warnings;
  EXPECT_EQ(other.used(), choices.used());
}

}  // namespace
}  // namespace tern::test
