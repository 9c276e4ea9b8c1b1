// What an op says of itself: none of it can be left out, and what two facts say of one thing agrees.
#include "ops/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "ops/rules.h"

namespace tern::ops {
namespace {

// What OpRules holds, in its order.
using Check = std::string (*)(std::span<const TensorDesc>, std::span<const std::byte>);
using Backward = std::vector<Value> (*)(BackwardCall&);
using Decompose = std::vector<Value> (*)(Emitter&, const OpCall&);
using Reference = void (*)(ref::Call&);
using Flops = double (*)(const CallDesc&, HostArrays);
using Bytes = double (*)(const CallDesc&, int, HostArrays);
using Uses = std::uint32_t (*)(const CallDesc&, int);
using RowDim = int (*)(const CallDesc&, int);
using SplitOf = std::optional<Split> (*)(const CallDesc&, int, int);
using IndicesOf = Indices (*)(const CallDesc&);

template <typename Struct, typename... Members>
concept MadeOf = requires(Members... members) {
  Struct{members...};
};

static_assert(
    MadeOf<OpRules, Check, Backward, Decompose, Reference, WorkRules, Uses, RowDim, SplitOf, IndicesOf, NeededBy>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose, Reference, WorkRules, Uses, RowDim, SplitOf, IndicesOf>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose, Reference, WorkRules, Uses, RowDim, SplitOf>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose, Reference, WorkRules, Uses, RowDim>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose, Reference, WorkRules, Uses>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose, Reference, WorkRules>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose, Reference>);
static_assert(!MadeOf<OpRules, Check, Backward, Decompose>);
static_assert(!MadeOf<OpRules>);
static_assert(MadeOf<WorkRules, Flops, Bytes>);
static_assert(!MadeOf<WorkRules, Flops>);
static_assert(!std::is_default_constructible_v<Stated<NeededBy>>);

// As the ops write them, with the index bounds left out in between.
template <typename T>
concept WithoutIndices = requires(T check) {
  OpRules{.check = check,
          .backward = Backward{},
          .decompose = Decompose{},
          .reference = Reference{},
          .work = {no_products, each_argument_once},
          .uses = no_weights,
          .row_dim = no_rows,
          .split = no_split,
          .needed_by = kNoCommand};
};
static_assert(!WithoutIndices<Check>);

TEST(Facts, OpsWithAPackableArgumentSayWhatItIsUsedFor) {
  for (const OpSpec& spec : op_table()) {
    const OpRules& rules = op_rules(spec.id);
    bool packable = false;
    for (const ArgSpec& arg : spec.args) packable = packable || (arg.flags & kPackable) != 0;
    EXPECT_EQ(packable, rules.uses != no_weights) << spec.name;
    EXPECT_NE(rules.work.flops, nullptr) << spec.name;
    EXPECT_NE(rules.work.bytes, nullptr) << spec.name;
    EXPECT_NE(rules.row_dim, nullptr) << spec.name;
    EXPECT_NE(rules.split, nullptr) << spec.name;
    EXPECT_NE(rules.indices, nullptr) << spec.name;
  }
}

// An i32 argument is an index or a length, but for these numbers that need no bound.
TEST(Facts, EveryIndexHasItsBounds) {
  const std::vector<std::string_view> free = {"sample.top_k", "sample.history", "sample.output_begin",
                                              "sample.bias_ids", "shard_index.ids"};
  for (const OpSpec& spec : op_table()) {
    std::vector<TensorDesc> descs(spec.args.size());
    for (TensorDesc& desc : descs) desc = make_desc(TERN_I32, {2, 2, 2, 2});
    const std::vector<std::byte> attrs(4 * spec.attrs.size());
    const Indices indices = op_rules(spec.id).indices({spec.id, descs, attrs, 0});
    std::vector<int> bounded;
    for (const auto& range : indices.ranges) bounded.push_back(range.arg);
    for (const auto& sequences : indices.sequences) bounded.push_back(sequences.arg);
    if (indices.paged) bounded.insert(bounded.end(), {indices.paged->kv_lens, indices.paged->block_table});
    std::size_t expected = 0;
    for (std::size_t i = 0; i < spec.args.size(); ++i) {
      const ArgSpec& arg = spec.args[i];
      if (arg.role != Role::input || arg.dtypes != Dtypes::i32) continue;
      const std::string name = std::string(spec.name) + "." + std::string(arg.name);
      if (std::find(free.begin(), free.end(), name) != free.end()) continue;
      ++expected;
      EXPECT_NE(std::find(bounded.begin(), bounded.end(), static_cast<int>(i)), bounded.end()) << name;
    }
    EXPECT_EQ(bounded.size(), expected) << spec.name;
  }
}

TEST(Facts, AWeightIsUsedAsTheCallReadsIt) {
  const auto uses = [](std::uint32_t op, const auto& attrs, const std::vector<TensorDesc>& descs, int arg) {
    return std::uint32_t{op_rules(op).uses({op, descs, std::as_bytes(std::span(&attrs, 1)), 0}, arg)};
  };
  const std::vector<TensorDesc> some(TERN_LINEAR_CROSS_ENTROPY_NUM_ARGS, make_desc(TERN_F32, {2, 2}));
  const std::uint32_t forward = TERN_USE_FORWARD;
  const std::uint32_t gradient = TERN_USE_INPUT_GRAD;
  EXPECT_EQ(uses(TERN_OP_MATMUL, tern_matmul_attrs{0, 1, TERN_COMPUTE_F32, 1.0F}, some, TERN_MATMUL_B), forward);
  EXPECT_EQ(uses(TERN_OP_MATMUL, tern_matmul_attrs{0, 0, TERN_COMPUTE_F32, 1.0F}, some, TERN_MATMUL_B), gradient);
  EXPECT_EQ(uses(TERN_OP_MATMUL, tern_matmul_attrs{0, 1, TERN_COMPUTE_F32, 1.0F}, some, TERN_MATMUL_A), 0U);
  EXPECT_EQ(uses(TERN_OP_MATMUL_Q, tern_matmul_q_attrs{1, TERN_F32}, some, TERN_MATMUL_Q_W), forward);
  EXPECT_EQ(uses(TERN_OP_MATMUL_Q, tern_matmul_q_attrs{0, TERN_F32}, some, TERN_MATMUL_Q_W), gradient);
  const tern_linear_cross_entropy_attrs loss{TERN_F32, 0.0F};
  EXPECT_EQ(uses(TERN_OP_LINEAR_CROSS_ENTROPY, loss, some, TERN_LINEAR_CROSS_ENTROPY_W), forward | gradient);
  std::vector<TensorDesc> evaluation = some;
  evaluation[TERN_LINEAR_CROSS_ENTROPY_DH] = absent_desc();
  EXPECT_EQ(uses(TERN_OP_LINEAR_CROSS_ENTROPY, loss, evaluation, TERN_LINEAR_CROSS_ENTROPY_W), forward);
}

// Written and read in place is moved twice; of a cache only what is written.
TEST(Facts, BytesFollowWhatACallTouches) {
  const TensorDesc x = make_desc(TERN_F32, {4, 2});
  std::vector<TensorDesc> sum = {x, absent_desc(), x};
  const std::vector<std::byte> attrs(sizeof(tern_axpby_attrs));
  EXPECT_EQ(work_of({TERN_OP_AXPBY, sum, attrs, 0}, {}).bytes, 2 * 32);
  EXPECT_EQ(work_of({TERN_OP_AXPBY, sum, attrs, 1U << TERN_AXPBY_OUT}, {}).bytes, 3 * 32);
  EXPECT_EQ(work_of({TERN_OP_AXPBY, sum, attrs, 0}, {}).flops, 0);
  sum[TERN_AXPBY_X].strides[0] = 100;  // gaps are not read
  EXPECT_EQ(work_of({TERN_OP_AXPBY, sum, attrs, 0}, {}).bytes, 2 * 32);
  const TensorDesc rows = make_desc(TERN_F32, {3, 1, 4});
  const TensorDesc cache = make_desc(TERN_BF16, {10, 16, 1, 4});
  const std::vector<TensorDesc> write = {rows, rows, make_desc(TERN_I32, {3}), cache, cache};
  EXPECT_EQ(work_of({TERN_OP_KV_WRITE, write, {}, 0}, {}).bytes, 2 * 48 + 2 * 24 + 12);
  const std::vector<TensorDesc> gather = {make_desc(TERN_F32, {100, 2}), make_desc(TERN_I32, {3}),
                                          make_desc(TERN_F32, {3, 2})};
  EXPECT_EQ(work_of({TERN_OP_GATHER_ROWS, gather, {}, 0}, {}).bytes, 24 + 12 + 24);
}

TEST(Facts, PagedAttentionReadsTheKeysOfItsSequences) {
  std::vector<TensorDesc> descs(TERN_ATTENTION_PAGED_NUM_ARGS, absent_desc());
  descs[TERN_ATTENTION_PAGED_Q] = make_desc(TERN_F32, {3, 2, 4});
  descs[TERN_ATTENTION_PAGED_K_CACHE] = make_desc(TERN_F32, {10, 16, 1, 4});
  descs[TERN_ATTENTION_PAGED_V_CACHE] = make_desc(TERN_F32, {10, 16, 1, 6});
  descs[TERN_ATTENTION_PAGED_OUT] = make_desc(TERN_F32, {3, 2, 6});
  const std::array<std::int32_t, 3> cu = {0, 1, 3};
  const std::array<std::int32_t, 2> kv_lens = {5, 7};
  const std::array<tern_host_array, 2> lengths = {tern_host_array{cu.data(), 3}, tern_host_array{kv_lens.data(), 2}};
  tern_attention_paged_attrs attrs{};
  attrs.causal = 1;
  const Work work = work_of({TERN_OP_ATTENTION_PAGED, descs, std::as_bytes(std::span(&attrs, 1)), 0}, lengths);
  EXPECT_EQ(work.flops, 2.0 * (5 + (6 + 7)) * 2 * (4 + 6));
  EXPECT_EQ(work.bytes, 4.0 * (3 * 2 * 4 + 3 * 2 * 6 + 12 * (4 + 6)));
}

// Pairs are counted within windows and chunks: brute force says how many there are.
TEST(Facts, AttentionCountsTheKeysWithinItsBorders) {
  std::vector<TensorDesc> descs(TERN_ATTENTION_NUM_ARGS, absent_desc());
  descs[TERN_ATTENTION_Q] = make_desc(TERN_F32, {9, 2, 4});
  descs[TERN_ATTENTION_K] = make_desc(TERN_F32, {40, 1, 4});
  descs[TERN_ATTENTION_V] = make_desc(TERN_F32, {40, 1, 6});
  const std::array<std::int32_t, 3> cu_q = {0, 5, 9};
  const std::array<std::int32_t, 3> cu_k = {0, 23, 30};
  const std::array<tern_host_array, 2> lengths = {tern_host_array{cu_q.data(), 3}, tern_host_array{cu_k.data(), 3}};
  for (const auto& [causal, window, right, chunk] : std::vector<std::array<std::int32_t, 4>>{
           {1, 0, 0, 0}, {0, 0, 0, 0}, {1, 3, 0, 0}, {0, 3, 2, 0}, {0, 0, 2, 0}, {1, 0, 0, 7}, {0, 30, 1, 4}}) {
    double pairs = 0;
    for (std::size_t s = 0; s < 2; ++s) {
      const std::int32_t rows = cu_q[s + 1] - cu_q[s];
      const std::int32_t keys = cu_k[s + 1] - cu_k[s];
      for (std::int32_t p = keys - rows; p < keys; ++p) {
        for (std::int32_t j = 0; j < keys; ++j) {
          const bool hidden = (causal != 0 && j > p) || (window > 0 && j <= p - window) ||
                              (right > 0 && j >= p + right) || (chunk > 0 && j / chunk != p / chunk);
          pairs += hidden ? 0 : 1;
        }
      }
    }
    const tern_attention_attrs attrs{1.0F, 0.0F, causal, window, 0, 0, right, chunk};
    EXPECT_EQ(work_of({TERN_OP_ATTENTION, descs, std::as_bytes(std::span(&attrs, 1)), 0}, lengths).flops,
              2.0 * pairs * 2 * (4 + 6))
        << window << " " << right << " " << chunk;
  }
}

TEST(Facts, CommandsHaveTheirWords) {
  EXPECT_EQ(find_command("train"), kTrain);
  EXPECT_EQ(find_command("deploy"), std::nullopt);
  EXPECT_EQ(command_words(kEveryCommand), "infer, train, serve");
  EXPECT_EQ(command_words(kNoCommand), "");
}

}  // namespace
}  // namespace tern::ops
