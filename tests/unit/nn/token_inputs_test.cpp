// If these fail, what a program computes beyond a run's actual tokens reaches its results, or columns are bound to the
// wrong count.
#include "nn/token_inputs.h"

#include <gtest/gtest.h>

#include "graph/program.h"

namespace tern::nn {
namespace {

const graph::Storage& input(const graph::Graph& graph, const char* name) { return graph.storage_of(graph.find(name)); }

TEST(TokenInputs, AreHarmlessBeyondTheirCounts) {
  graph::Graph graph;
  TokenCapacity capacity{.tokens = 32, .sequences = 4, .rows = 8, .max_seqlen = 32};
  capacity.paged = PagedCapacity{.max_kv_len = 64, .max_blocks = 4, .num_blocks = 9, .block_size = 16, .num_seats = 5};
  const TokenInputs inputs = declare_tokens(graph, capacity);
  EXPECT_TRUE(inputs.paged());
  EXPECT_FALSE(inputs.dropout_keys.present());
  // A key in the block that is nobody's, a row that is not looked at, a sequence without tokens.
  EXPECT_EQ(input(graph, "slots").padding, graph::Padding::zero);
  EXPECT_EQ(input(graph, "rows").padding, graph::Padding::minus_one);
  EXPECT_EQ(input(graph, "cu_seqlens").padding, graph::Padding::repeat_last);
  EXPECT_EQ(input(graph, "kv_lens").padding, graph::Padding::zero);
  EXPECT_EQ(input(graph, "seats").padding, graph::Padding::zero);
  EXPECT_EQ(input(graph, "table_slots").padding, graph::Padding::zero);
  EXPECT_EQ(num_elements(graph.desc(inputs.block_table)), 4 * 4);
}

// Every declared input is given, with as many entries as its count says.
TEST(TokenInputs, AreAllGivenWithTheirCounts) {
  graph::Graph graph;
  TokenCapacity capacity{.tokens = 32, .sequences = 4, .rows = 8, .max_seqlen = 32, .dropout = true};
  capacity.paged = PagedCapacity{.max_kv_len = 64, .max_blocks = 4, .num_blocks = 9, .block_size = 16, .num_seats = 5};
  (void)declare_tokens(graph, capacity);
  TokenColumns columns;
  columns.ids = columns.positions = columns.slots = {0, 1, 2, 3, 4};
  columns.dropout_keys.resize(5);
  columns.cu_seqlens = {0, 2, 5};
  columns.kv_lens = {2, 3};
  columns.seats = {1, 3};
  columns.table_slots = columns.table_values = {4, 12};
  columns.rows = {4};
  graph::RunInputs run;
  give_tokens(run, columns);
  std::size_t declared = 0;
  for (const graph::Storage& storage : graph.storages()) {
    if (storage.kind != graph::StorageKind::input) continue;
    ASSERT_TRUE(run.inputs.contains(storage.name)) << storage.name;
    TensorDesc actual = storage.desc;
    actual.shape[0] = run.counts[actual.count_slot];
    EXPECT_EQ(run.inputs.at(storage.name).size(), total_bytes(actual)) << storage.name;
    ++declared;
  }
  EXPECT_EQ(declared, run.inputs.size());
}

// No more blocks are touched first than the table's column has room for, wherever the sequences begin.
TEST(TokenInputs, HaveRoomForEveryBlockThatARunTouchesFirst) {
  const PagedCapacity paged{.block_size = 4};
  for (std::int64_t begin = 0; begin < 9; ++begin) {
    for (std::int64_t count = 1; count < 20; ++count) {
      std::int64_t touched = 0;
      for (std::int64_t t = begin; t < begin + count; ++t) touched += t % 4 == 0 ? 1 : 0;
      EXPECT_LE(touched, paged.new_blocks(count, 1)) << begin << " " << count;
    }
  }
}

}  // namespace
}  // namespace tern::nn
