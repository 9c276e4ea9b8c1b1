// If these fail, what a model says of its inputs does not reach the device.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/bind.h"
#include "ops/axpby.h"
#include "ops/cast_copy.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::graph {
namespace {

// Sources of every kind, each with all that can be said of one, and a chain of nodes over them.
Graph graph_of_all_sources() {
  Graph graph;
  const Value ids = graph.input("ids", with_dynamic(make_desc(TERN_F32, {8, 4}), 0, 3), Padding::zero);
  const Value slots = graph.input("slots", with_dynamic(make_desc(TERN_F32, {8, 4}), 0, 3), Padding::minus_one);
  const Value bounds = graph.input("bounds", with_dynamic(make_desc(TERN_F32, {8, 4}), 0, 3), Padding::repeat_last);
  const Value weight = graph.constant("weight", make_desc(TERN_F32, {8, 4}));
  const Value state = graph.resource("state", make_desc(TERN_F32, {8, 4}));
  Value sum = ops::axpby(graph, ids, slots, {});
  sum = ops::axpby(graph, sum, bounds, {});
  sum = ops::axpby(graph, sum, graph.view(weight, make_desc(TERN_F32, {8, 4}), 0), {});
  graph.set_last_lane(Lane::comm);
  sum = ops::axpby(graph, sum, state, {});
  (void)ops::axpby(graph, weight, {}, {});  // dead
  graph.output("sum", sum);
  return graph;
}

void expect_same_sources(const Graph& from, const Graph& to) {
  for (const Storage& source : from.storages()) {
    if (source.kind == StorageKind::intermediate) continue;
    const Value found = to.find(source.name);
    ASSERT_TRUE(found.present()) << source.name;
    const Storage& copy = to.storage_of(found);
    EXPECT_EQ(copy.kind, source.kind) << source.name;
    EXPECT_EQ(copy.padding, source.padding) << source.name;
    EXPECT_EQ(to_string(copy.desc), to_string(source.desc)) << source.name;
    EXPECT_EQ(copy.desc.dynamic_dim, source.desc.dynamic_dim) << source.name;
    EXPECT_EQ(copy.desc.count_slot, source.desc.count_slot) << source.name;
  }
}

TEST(Graph, CopiesKeepWhatIsSaidOfASource) {
  const Graph graph = graph_of_all_sources();
  const Graph live = remove_dead_nodes(graph);
  EXPECT_EQ(live.nodes().size() + 1, graph.nodes().size());
  expect_same_sources(graph, live);
  EXPECT_EQ(live.nodes()[2].lane, Lane::comm);
}

TEST(Graph, ABoundGraphKeepsWhatIsSaidOfASource) {
  const Graph graph = graph_of_all_sources();
  const auto device = accel::Device::open(test::load_plugin("cpu"), 0).value();
  const BoundGraph bound = bind_graph(graph, *device, nullptr, {});
  expect_same_sources(graph, bound.graph);
  EXPECT_EQ(bound.graph.nodes()[2].lane, Lane::comm);
}

// Five sequences in a bucket of eight: what the device itself holds beyond them.
TEST(Graph, PaddingReachesTheDevice) {
  const std::vector<std::int32_t> values = {0, 6, 12, 18, 24, 30};
  const std::map<std::string, std::pair<Padding, std::vector<float>>> expected = {
      {"bounds", {Padding::repeat_last, {0, 6, 12, 18, 24, 30, 30, 30, 30}}},
      {"slots", {Padding::minus_one, {0, 6, 12, 18, 24, 30, -1, -1, -1}}},
      {"ids", {Padding::zero, {0, 6, 12, 18, 24, 30, 0, 0, 0}}}};
  Graph graph;
  RunInputs inputs;
  inputs.counts[2] = static_cast<std::int64_t>(values.size());
  for (const auto& [name, column] : expected) {
    const Value input = graph.input(name, with_dynamic(make_desc(TERN_I32, {9}), 0, 2), column.first);
    const Value whole = graph.view(input, make_desc(TERN_I32, {9}), 0);
    graph.output(name + ".held", ops::cast_copy(graph, whole, {.out = TERN_F32}));
    inputs.inputs[name] = test::bytes_of(values);
  }
  for (const char* personality : {"ascend", "graph", "discrete"}) {
    SCOPED_TRACE(personality);
    accel::ChoiceCache choices;
    const auto store = std::make_shared<TensorStore>(test::open_sim({{"TERN_SIM", personality}}));
    const auto program = Program::build(graph, store, choices, {});
    program->run(inputs);
    for (const auto& [name, column] : expected) {
      const auto bytes = program->output(name + ".held");
      std::vector<float> held(bytes.size() / sizeof(float));
      std::memcpy(held.data(), bytes.data(), bytes.size());
      EXPECT_EQ(held, column.second) << name;
    }
  }
}

}  // namespace
}  // namespace tern::graph
