// What a graph needs at least, reckoned up without a plan.
#include "graph/live_bytes.h"

#include <gtest/gtest.h>

#include "ops/axpby.h"

namespace tern::graph {
namespace {

// Inputs until their last reader, intermediates from their first to their last, outputs to the end, and nothing of what
// lies in a store.
TEST(LiveBytes, CountWhatIsThereAtOnce) {
  Graph graph;
  const TensorDesc large = make_desc(TERN_F32, {100, 4});  // 1600 bytes
  EXPECT_EQ(live_bytes(graph), 0U);
  const Value x = graph.input("x", large);
  const Value weight = graph.constant("weight", large);
  const Value a = ops::axpby(graph, x, weight, {});  // x, a
  EXPECT_EQ(live_bytes(graph), 2U * 1600);
  const Value b = ops::axpby(graph, a, weight, {});  // a, b
  EXPECT_EQ(live_bytes(graph), 2U * 1600);
  const Value c = ops::axpby(graph, b, a, {});  // a, b, c
  EXPECT_EQ(live_bytes(graph), 3U * 1600);
  const Value half = graph.view(c, make_desc(TERN_F32, {50, 4}), 0);
  const Value d = ops::axpby(graph, half, {}, {});  // c, and half of it
  EXPECT_EQ(live_bytes(graph), 3U * 1600);
  graph.output("a", a);  // a, b, c; then a, c, d
  graph.output("d", d);
  EXPECT_EQ(live_bytes(graph), 3U * 1600);
  (void)ops::axpby(graph, c, x, {});  // x, a, b, c; at last x, a, c, d and what it makes
  EXPECT_EQ(live_bytes(graph), 4U * 1600 + 800);
}

}  // namespace
}  // namespace tern::graph
