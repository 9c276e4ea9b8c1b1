// The op table and its contracts: what a plugin's author reads must be what the checks enforce.
#include "ops/table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>

#include "base/strings.h"
#include "ops/build.h"
#include "ops/ref/executor.h"
#include "ops/rules.h"

namespace tern::ops {
namespace {

TEST(Table, IdsCountUpAndNamesAreUnique) {
  std::set<std::string_view> names;
  std::uint32_t id = 1;
  for (const OpSpec& op : op_table()) {
    EXPECT_EQ(op.id, id++);
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    std::set<std::string_view> args;
    for (const ArgSpec& arg : op.args) EXPECT_TRUE(args.insert(arg.name).second) << op.name << "." << arg.name;
  }
  EXPECT_EQ(id, static_cast<std::uint32_t>(TERN_OP_LIMIT));
}

TEST(Table, EveryOpHasCheckOracleAndContract) {
  for (const OpSpec& op : op_table()) {
    EXPECT_NE(op_rules(op.id).check, nullptr) << op.name;
    EXPECT_NE(op_rules(op.id).reference, nullptr) << op.name;
    // a backward op's contract stands in its forward's header
    std::string base(op.name);
    if (const std::size_t at = base.find("_backward"); at != std::string::npos) base.resize(at);
    std::ifstream header(cat(TERN_SOURCE_DIR, "/ops/", base, ".h"));
    ASSERT_TRUE(header.good()) << base;
    std::string text;
    int lines = 0;
    bool named = false;
    while (std::getline(header, text)) {
      ++lines;
      named = named || text.rfind(cat("// ", op.name, ": "), 0) == 0;
    }
    EXPECT_TRUE(named) << op.name << " has no contract";
    EXPECT_LE(lines, 80) << base;
  }
  EXPECT_THROW((void)op_rules(0), std::out_of_range);
  EXPECT_THROW((void)op_rules(TERN_OP_LIMIT), std::out_of_range);
}

struct Norm {
  std::vector<TensorDesc> args = std::vector<TensorDesc>(TERN_RMS_NORM_NUM_ARGS, absent_desc());
  tern_rms_norm_attrs attrs = {1e-5F, 0.0F};
  std::uint32_t accumulate = 0;
  Norm() {
    args[TERN_RMS_NORM_X] = args[TERN_RMS_NORM_Y] = make_desc(TERN_BF16, {4, 8});
    args[TERN_RMS_NORM_WEIGHT] = make_desc(TERN_F32, {8});
  }
  [[nodiscard]] std::string check() const {
    return check_call(TERN_OP_RMS_NORM, args, std::as_bytes(std::span(&attrs, 1)), accumulate);
  }
};

TEST(Check, SaysWhatIsWrong) {
  EXPECT_EQ(Norm().check(), "");
  Norm absent;
  absent.args[TERN_RMS_NORM_WEIGHT] = absent_desc();
  EXPECT_EQ(absent.check(), "rms_norm: weight is absent");
  Norm narrow;
  narrow.args[TERN_RMS_NORM_WEIGHT] = make_desc(TERN_F32, {7});
  EXPECT_EQ(narrow.check(), "rms_norm: weight: expected width = 8 as in an earlier argument, found 7");
  Norm rank;
  rank.args[TERN_RMS_NORM_Y] = make_desc(TERN_BF16, {4, 8, 1});
  EXPECT_EQ(rank.check(), "rms_norm: y: expected [rows, width], found rank 3");
  Norm dtype;
  dtype.args[TERN_RMS_NORM_X].dtype = TERN_I32;
  EXPECT_EQ(dtype.check(), "rms_norm: x: expected float, found i32");
  Norm lonely;
  lonely.args[TERN_RMS_NORM_SUM] = make_desc(TERN_BF16, {4, 8});
  EXPECT_EQ(lonely.check(), "rms_norm: sum: expected exactly where residual is");
  Norm shared;
  shared.args[TERN_RMS_NORM_Y].strides[0] = 0;
  EXPECT_NE(shared.check().find("must not share memory"), std::string::npos);
  Norm adds;
  adds.accumulate = 1U << TERN_RMS_NORM_Y;
  EXPECT_EQ(adds.check(), "rms_norm: y cannot accumulate");
  Norm layout;
  layout.args[TERN_RMS_NORM_WEIGHT].layout = 3;
  EXPECT_EQ(layout.check(), "rms_norm: weight: a private layout is not allowed here");
  Norm packed;
  packed.args[TERN_RMS_NORM_X] = make_quantised_desc(TERN_F32, gguf_scheme(TERN_PACK_GGUF_Q8_0), 4, 32);
  EXPECT_NE(packed.check().find("expected an unquantised tensor"), std::string::npos);
  EXPECT_EQ(check_call(TERN_OP_RMS_NORM, Norm().args, {}, 0), "rms_norm: attributes are cut short");
  EXPECT_EQ(check_call(0, {}, {}, 0), "no op has the id 0");
}

TEST(Check, SaysWhatIsWrongOfALayerNorm) {
  const auto check = [](int arg, const TensorDesc& desc, float eps = 1e-5F) {
    std::vector<TensorDesc> args = std::vector<TensorDesc>(TERN_LAYER_NORM_NUM_ARGS, absent_desc());
    args[TERN_LAYER_NORM_X] = args[TERN_LAYER_NORM_Y] = make_desc(TERN_BF16, {4, 8});
    args[TERN_LAYER_NORM_WEIGHT] = make_desc(TERN_F32, {8});
    args[static_cast<std::size_t>(arg)] = desc;
    const tern_layer_norm_attrs attrs = {eps};
    return check_call(TERN_OP_LAYER_NORM, args, std::as_bytes(std::span(&attrs, 1)), 0);
  };
  EXPECT_EQ(check(TERN_LAYER_NORM_BIAS, make_desc(TERN_BF16, {8})), "");
  EXPECT_EQ(check(TERN_LAYER_NORM_BIAS, absent_desc(), -1.0F), "layer_norm: eps: expected no negative number");
  EXPECT_EQ(check(TERN_LAYER_NORM_SUM, make_desc(TERN_BF16, {4, 8})),
            "layer_norm: sum: expected exactly where residual is");
  EXPECT_EQ(check(TERN_LAYER_NORM_RSTD, make_desc(TERN_F32, {4})), "layer_norm: mean: expected exactly where rstd is");
  EXPECT_EQ(check(TERN_LAYER_NORM_BIAS, make_desc(TERN_BF16, {7})),
            "layer_norm: bias: expected width = 8 as in an earlier argument, found 7");
}

TEST(Check, SaysWhatIsWrongOfBordersOfAttention) {
  const auto check = [](std::int32_t causal, std::int32_t right, std::int32_t chunk) {
    std::vector<TensorDesc> args(TERN_ATTENTION_NUM_ARGS, absent_desc());
    for (const int i : {TERN_ATTENTION_Q, TERN_ATTENTION_K, TERN_ATTENTION_V, TERN_ATTENTION_OUT}) {
      args[static_cast<std::size_t>(i)] = make_desc(TERN_F32, {4, 2, 8});
    }
    args[TERN_ATTENTION_CU_SEQLENS_Q] = args[TERN_ATTENTION_CU_SEQLENS_K] = make_desc(TERN_I32, {2});
    const tern_attention_attrs attrs = {1.0F, 0.0F, causal, 0, 4, 4, right, chunk};
    return check_call(TERN_OP_ATTENTION, args, std::as_bytes(std::span(&attrs, 1)), 0);
  };
  EXPECT_EQ(check(0, 3, 2), "");
  EXPECT_EQ(check(1, 3, 0),
            "attention: window_right: expected 0 where causal, as no row sees keys after its own, found 3");
  EXPECT_EQ(check(1, 0, -1),
            "attention: window, window_right, chunk, max_seqlen_q, max_seqlen_k: expected no negative number");
}

TEST(Check, AMaskHoldsAllKeysOfASequence) {
  std::vector<TensorDesc> args(TERN_INDEX_TOPK_MASK_NUM_ARGS, absent_desc());
  args[TERN_INDEX_TOPK_MASK_Q] = make_desc(TERN_BF16, {4, 2, 8});
  args[TERN_INDEX_TOPK_MASK_WEIGHTS] = make_desc(TERN_F32, {4, 2});
  args[TERN_INDEX_TOPK_MASK_K] = make_desc(TERN_BF16, {6, 8});
  args[TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q] = args[TERN_INDEX_TOPK_MASK_CU_SEQLENS_K] = make_desc(TERN_I32, {3});
  args[TERN_INDEX_TOPK_MASK_MASK] = make_desc(TERN_BOOL, {4, 6});
  const auto check = [&](std::int32_t topk, std::int32_t max_seqlen_q, std::int32_t max_seqlen_k) {
    const tern_index_topk_mask_attrs attrs = {topk, max_seqlen_q, max_seqlen_k};
    return check_call(TERN_OP_INDEX_TOPK_MASK, args, std::as_bytes(std::span(&attrs, 1)), 0);
  };
  EXPECT_EQ(check(1, 4, 6), "");
  EXPECT_EQ(check(0, 4, 6), "index_topk_mask: topk: expected at least 1, found 0");
  EXPECT_EQ(check(1, 4, 7), "index_topk_mask: mask: expected at least max_seqlen_k = 7 keys, found 6");
  EXPECT_EQ(check(1, -4, 6), "index_topk_mask: max_seqlen_q, max_seqlen_k: expected no negative number");
  args[TERN_INDEX_TOPK_MASK_Q] = make_desc(TERN_BF16, {4, 0, 8});
  args[TERN_INDEX_TOPK_MASK_WEIGHTS] = make_desc(TERN_F32, {4, 0});
  EXPECT_EQ(check(1, 4, 6), "index_topk_mask: q: expected at least one head");

  std::vector<TensorDesc> paged(TERN_INDEX_TOPK_MASK_PAGED_NUM_ARGS, absent_desc());
  paged[TERN_INDEX_TOPK_MASK_PAGED_Q] = make_desc(TERN_BF16, {4, 2, 8});
  paged[TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS] = make_desc(TERN_F32, {4, 2});
  paged[TERN_INDEX_TOPK_MASK_PAGED_K_CACHE] = make_desc(TERN_BF16, {3, 0, 1, 8});
  paged[TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE] = make_desc(TERN_I32, {2, 1});
  paged[TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q] = make_desc(TERN_I32, {3});
  paged[TERN_INDEX_TOPK_MASK_PAGED_KV_LENS] = make_desc(TERN_I32, {2});
  paged[TERN_INDEX_TOPK_MASK_PAGED_MASK] = make_desc(TERN_BOOL, {4, 6});
  const tern_index_topk_mask_paged_attrs attrs = {1, 4, 6};
  EXPECT_EQ(check_call(TERN_OP_INDEX_TOPK_MASK_PAGED, paged, std::as_bytes(std::span(&attrs, 1)), 0),
            "index_topk_mask_paged: k_cache: expected a block_size of at least 1");
}

TEST(Check, BlocksMustBeWhole) {
  tern_matmul_q_attrs attrs = {1, TERN_F32};
  std::vector<TensorDesc> args(TERN_MATMUL_Q_NUM_ARGS, absent_desc());
  args[TERN_MATMUL_Q_X] = make_desc(TERN_F32, {2, 40});
  args[TERN_MATMUL_Q_W] = make_quantised_desc(TERN_F32, gguf_scheme(TERN_PACK_GGUF_Q4_1), 3, 40);
  args[TERN_MATMUL_Q_Y] = make_desc(TERN_F32, {2, 3});
  EXPECT_NE(check_call(TERN_OP_MATMUL_Q, args, std::as_bytes(std::span(&attrs, 1)), 0).find("whole blocks of 32"),
            std::string::npos);
}

TEST(Check, IntegersAreContiguous) {
  std::vector<TensorDesc> args(TERN_GATHER_ROWS_NUM_ARGS, absent_desc());
  args[TERN_GATHER_ROWS_X] = make_desc(TERN_F32, {5, 2});
  args[TERN_GATHER_ROWS_INDEX] = make_desc(TERN_I32, {3});
  args[TERN_GATHER_ROWS_Y] = make_desc(TERN_F32, {3, 2});
  EXPECT_EQ(check_call(TERN_OP_GATHER_ROWS, args, {}, 0), "");
  args[TERN_GATHER_ROWS_INDEX].strides[0] = 2;
  EXPECT_NE(check_call(TERN_OP_GATHER_ROWS, args, {}, 0).find("expected contiguous integers"), std::string::npos);
}

TEST(Check, ACapIsAboveZero) {
  const std::vector<TensorDesc> args(TERN_SOFTCAP_NUM_ARGS, make_desc(TERN_F32, {2, 3}));
  const auto check = [&](float cap) {
    const tern_softcap_attrs attrs = {cap};
    return check_call(TERN_OP_SOFTCAP, args, std::as_bytes(std::span(&attrs, 1)), 0);
  };
  EXPECT_EQ(check(30.0F), "");
  EXPECT_EQ(check(0.0F), "softcap: cap: expected a finite number above 0, found 0");
  EXPECT_NE(check(-1.0F), "");
  EXPECT_NE(check(std::numeric_limits<float>::infinity()), "");
  EXPECT_NE(check(std::numeric_limits<float>::quiet_NaN()), "");
}

TEST(Builders, DynamicRowsArePassedOn) {
  ref::Executor executor;
  executor.set_count(2, 3);
  const Value x = executor.add(with_dynamic(make_desc(TERN_F32, {5, 2}), 0, 2), std::vector<double>(10, 1.0));
  const TensorDesc y = like(executor.desc(x), TERN_BF16);
  EXPECT_EQ(y.dynamic_dim, 0);
  EXPECT_EQ(y.count_slot, 2);
  EXPECT_EQ(executor.read(x).real.size(), 6U);
}

TEST(Builders, AViewMustStayInsideOfItsMemory) {
  ref::Executor executor;
  const Value x = executor.add(make_desc(TERN_F32, {4}), {1, 2, 3, 4});
  EXPECT_EQ(executor.read(executor.view(x, make_desc(TERN_F32, {2}), 2)).real, (std::vector<double>{3, 4}));
  EXPECT_THROW((void)executor.view(x, make_desc(TERN_F32, {2}), 3), std::logic_error);
}

}  // namespace
}  // namespace tern::ops
