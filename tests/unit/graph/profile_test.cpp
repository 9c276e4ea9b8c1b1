// Work is counted as it is done, and measuring changes nothing.
#include "graph/profile.h"

#include <gtest/gtest.h>

#include <array>

#include "ops/matmul_q.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

using graph::Profile;
using graph::ProfileRow;
using graph::work_of;

constexpr std::array<std::int64_t, 2> kCounts = {5, 3};

TensorDesc rows(std::initializer_list<std::int64_t> shape, int slot) {
  return with_dynamic(make_desc(TERN_F32, shape), 0, slot);
}

TEST(Work, ProductsCountActualRowsOnly) {
  Graph graph;
  const Value a = graph.input("a", rows({8, 6}, 0));
  const Value b = graph.constant("b", make_desc(TERN_F32, {7, 6}));
  ops::MatmulOptions options;
  options.transpose_b = true;
  (void)ops::matmul(graph, a, b, options);
  const graph::Work work = work_of(graph, graph.nodes()[0], kCounts, {});
  EXPECT_EQ(work.flops, 2.0 * 5 * 6 * 7);
  EXPECT_EQ(work.bytes, 4.0 * (5 * 6 + 7 * 6 + 5 * 7));
}

TEST(Work, QuantisedWeightsCountAsStored) {
  Graph graph;
  const Value x = graph.input("x", rows({8, 64}, 0));
  const Value w = graph.constant("w", make_quantised_desc(TERN_F32, gguf_scheme(TERN_PACK_GGUF_Q4_1), 3, 64));
  (void)ops::matmul_q(graph, x, w, {});
  const graph::Work work = work_of(graph, graph.nodes()[0], kCounts, {});
  EXPECT_EQ(work.flops, 2.0 * 5 * 64 * 3);
  EXPECT_EQ(work.bytes, 4.0 * 5 * 64 + 3 * 2 * 20 + 4.0 * 5 * 3);  // a block of 32 takes 20 bytes
}

TEST(Work, TablesCountTheRowsTouched) {
  Graph graph;
  const Value table = graph.constant("table", make_desc(TERN_F32, {1000, 4}));
  const Value ids = graph.input("ids", with_dynamic(make_desc(TERN_I32, {8}), 0, 0));
  (void)ops::embedding(graph, table, ids, TERN_F32, 0);
  EXPECT_EQ(work_of(graph, graph.nodes()[0], kCounts, {}).bytes, 5 * 4 * 4 + 5 * 4 + 5 * 4 * 4);
}

TEST(Work, AttentionCountsVisiblePairsOfEachSequence) {
  Graph graph;
  const Value q = graph.input("q", rows({8, 2, 4}, 0));
  const Value k = graph.input("k", rows({8, 1, 4}, 0));
  const Value v = graph.input("v", rows({8, 1, 6}, 0));
  const Value bounds = graph.input("cu", with_dynamic(make_desc(TERN_I32, {4}), 0, 1));
  ops::AttentionOptions options;
  options.causal = true;
  options.max_seqlen_q = options.max_seqlen_k = 8;
  (void)ops::attention(graph, q, k, v, bounds, bounds, options);
  const std::array<std::int32_t, 3> cu = {0, 2, 5};
  const std::array<tern_host_array, 2> lengths = {tern_host_array{cu.data(), 3}, tern_host_array{cu.data(), 3}};
  const double pairs = (1 + 2) + (1 + 2 + 3);
  EXPECT_EQ(work_of(graph, graph.nodes()[0], kCounts, lengths).flops, 2 * pairs * 2 * (4 + 6));
}

TEST(Profile, MeasuringChangesNoBitAndMissesNoStep) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  const Batch batch = Batch::of({5, 6});
  TinyProgram plain(cpu, {});
  plain.run(batch);
  graph::ProgramOptions options;
  options.profile = std::make_shared<Profile>();
  TinyProgram measured(cpu, {}, options);
  measured.run(batch);
  EXPECT_EQ(distance(plain.results(), measured.results()), 0.0);

  double seconds = 0;
  std::int64_t calls = 0;
  for (const ProfileRow& row : options.profile->by_op()) {
    seconds += row.seconds;
    if (row.op != "host" && row.op != "upload" && row.op != "download") calls += row.calls;
  }
  EXPECT_EQ(options.profile->runs(), 1);
  EXPECT_NEAR(seconds, options.profile->seconds(), 1e-9);  // steps and the host's own part are the whole
  EXPECT_EQ(calls, static_cast<std::int64_t>(measured.program().graph().nodes().size()));
}

}  // namespace
}  // namespace tern::test
