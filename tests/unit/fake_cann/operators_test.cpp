// What operators of the fake refuse on which chip, and what they do where CANN leaves something open.
#include <cmath>

#include "backends/npu/cann/ops_elementwise.h"
#include "backends/npu/cann/ops_moe.h"
#include "backends/npu/cann/ops_movement.h"
#include "backends/npu/cann/ops_nn.h"
#include "backends/npu/cann/ops_quant.h"
#include "backends/npu/cann/ops_random.h"
#include "backends/npu/cann/ops_reduce.h"
#include "backends/npu/cann/ops_transformer.h"
#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

using Shape = std::vector<std::int64_t>;

// The code of a first phase, whose executor nobody runs.
template <typename Plan, typename... Arguments>
aclnnStatus first_phase(Plan plan, const Arguments&... arguments) {
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = plan(arguments..., &size, &executor);
  if (status == 0) (void)aclDestroyAclOpExecutor(executor);
  return status;
}

// A tensor with memory of its own, whatever is in it.
struct Blank {
  Blank(aclDataType dtype, const Shape& shape, const Shape& strides = {})
      : memory(bytes(shape)), tensor(dtype, shape, memory.data(), strides) {}
  static std::size_t bytes(const Shape& shape) {
    std::size_t count = 64;
    for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
    return count;
  }
  operator aclTensor*() const { return tensor; }
  Array<char> memory;
  TensorHandle tensor;
};

struct Ints {
  explicit Ints(const Shape& values) : handle(aclCreateIntArray(values.data(), values.size())) {}
  ~Ints() { (void)aclDestroyIntArray(handle); }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
  operator aclIntArray*() const { return handle; }
  aclIntArray* handle;
};

// A list of one tensor, which it destroys.
struct List {
  List(aclDataType dtype, const Shape& shape, void* data) {
    Shape strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    const aclTensor* tensor = aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), 0, ACL_FORMAT_ND,
                                              shape.data(), shape.size(), data);
    handle = aclCreateTensorList(&tensor, 1);
  }
  ~List() { (void)aclDestroyTensorList(handle); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  operator aclTensorList*() const { return handle; }
  aclTensorList* handle;
};

TEST(FakeCannOperators, NoChipOfTheOldOnesHasBf16) {
  for (const char* chip : {"310P3", "910A"}) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", chip}});
    const Blank x(ACL_BF16, {4}), y(ACL_BF16, {4});
    EXPECT_EQ(first_phase(aclnnExpGetWorkspaceSize, x, y), ACLNN_ERR_PARAM_INVALID) << chip;
    EXPECT_NE(message().find("BFLOAT16"), std::string::npos);
  }
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "910B1"}});
  const Blank x(ACL_BF16, {4}), y(ACL_BF16, {4});
  EXPECT_EQ(first_phase(aclnnExpGetWorkspaceSize, x, y), ACL_SUCCESS);
}

TEST(FakeCannOperators, TypesAndShapesAreNamed) {
  const Fake fake;
  const Blank whole(ACL_INT32, {4}), x(ACL_FLOAT, {4}), narrow(ACL_FLOAT, {3}), y(ACL_FLOAT, {4});
  EXPECT_EQ(first_phase(aclnnExpGetWorkspaceSize, whole, y), ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(message().find("should be in dtype support list"), std::string::npos);
  EXPECT_EQ(first_phase(aclnnExpGetWorkspaceSize, x, narrow), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(first_phase(aclnnMaximumGetWorkspaceSize, x, narrow, y), ACLNN_ERR_PARAM_INVALID);
  // A sum of floats doesn't go into integers.
  const ScalarHandle one(1);
  EXPECT_EQ(first_phase(aclnnSubGetWorkspaceSize, x, y, one, whole), ACLNN_ERR_PARAM_INVALID);
}

TEST(FakeCannOperators, WhatAChipLacksIsRefused) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "310P3"}});
  const Blank x(ACL_FLOAT, {4}), g(ACL_FLOAT, {4}), y(ACL_FLOAT, {4}), ids(ACL_INT32, {2}), rows(ACL_FLOAT, {2, 4}),
      table(ACL_FLOAT, {8, 4}), m(ACL_FLOAT, {4}), v(ACL_FLOAT, {4}), step(ACL_INT64, {1});
  EXPECT_EQ(first_phase(aclnnSiluBackwardGetWorkspaceSize, g, x, y), ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_EQ(first_phase(aclnnEmbeddingDenseBackwardGetWorkspaceSize, rows, ids, 8U, 0U, false, table),
            ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_EQ(first_phase(aclnnInplaceIndexCopyGetWorkspaceSize, table, 0, ids, rows), ACLNN_ERR_RUNTIME_ERROR);
  EXPECT_EQ(first_phase(aclnnApplyAdamWV2GetWorkspaceSize, x, m, v, static_cast<aclTensor*>(nullptr), g, step, 0.1F,
                        0.9F, 0.99F, 0.0F, 1e-8F, false, false),
            ACLNN_ERR_RUNTIME_ERROR);
}

TEST(FakeCannOperators, OldChipsMultiplyFp16Alone) {
  for (const char* chip : {"310P3", "910A"}) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", chip}});
    const Blank a(ACL_FLOAT, {2, 3}), b(ACL_FLOAT, {3, 4}), y(ACL_FLOAT, {2, 4});
    EXPECT_EQ(first_phase(aclnnMmGetWorkspaceSize, a, b, y, std::int8_t{0}), ACLNN_ERR_PARAM_INVALID) << chip;
    EXPECT_EQ(first_phase(aclnnMmGetWorkspaceSize, a, b, y, std::int8_t{3}), ACLNN_ERR_PARAM_INVALID) << chip;
    EXPECT_EQ(first_phase(aclnnMmGetWorkspaceSize, a, b, y, std::int8_t{1}), ACL_SUCCESS) << chip;
  }
}

TEST(FakeCannOperators, RmsNormIsOfAGeneratedKind) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "910A"}});
  {
    const Blank x(ACL_FLOAT, {2, 8}), gamma(ACL_FLOAT, {8}), y(ACL_FLOAT, {2, 8}), rstd(ACL_FLOAT, {2, 1});
    EXPECT_EQ(first_phase(aclnnRmsNormGetWorkspaceSize, x, gamma, 1e-6, y, rstd), ACLNN_ERR_INNER_FIND_KERNEL_ERROR);
  }
  const Fake other({{"TERN_FAKE_CANN_CHIP", "310P3"}});
  const Blank x(ACL_FLOAT16, {2, 8}), gamma(ACL_FLOAT16, {8}), y(ACL_FLOAT16, {2, 8}), rstd(ACL_FLOAT, {2, 1}),
      flat(ACL_FLOAT, {2}), wide(ACL_FLOAT16, {2, 16}), to(ACL_FLOAT16, {2, 16}), factor(ACL_FLOAT16, {16}),
      mixed(ACL_FLOAT, {16});
  // Rows of 16 bytes; statistics of another rank; a gamma in fp32.
  EXPECT_EQ(first_phase(aclnnRmsNormGetWorkspaceSize, x, gamma, 1e-6, y, rstd), ACLNN_ERR_INNER_TILING_ERROR);
  EXPECT_EQ(first_phase(aclnnRmsNormGetWorkspaceSize, wide, factor, 1e-6, to, flat), ACLNN_ERR_INNER_TILING_ERROR);
  EXPECT_EQ(first_phase(aclnnRmsNormGetWorkspaceSize, wide, mixed, 1e-6, to, rstd), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(first_phase(aclnnRmsNormGetWorkspaceSize, wide, factor, 1e-6, to, rstd), ACL_SUCCESS);
}

TEST(FakeCannOperators, AnIndexOutOfRangeFailsOnTheDevice) {
  const Fake fake;
  const StreamHandle stream;
  const Array<float> table(std::vector<float>{1, 2, 3, 4});
  const Array<std::int32_t> ids(std::vector<std::int32_t>{0, -1});
  const TensorHandle weight(ACL_FLOAT, {2, 2}, table.data()), index(ACL_INT32, {2}, ids.data());
  const Blank y(ACL_FLOAT, {2, 2});
  EXPECT_EQ(run_op(stream, aclnnEmbeddingGetWorkspaceSize, aclnnEmbedding, weight, index, y),
            ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST(FakeCannOperators, RandomOnesAreNotRepeatable) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "910B1"}});
  const Blank y(ACL_FLOAT, {4});
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnInplaceUniformGetWorkspaceSize(y, 0, 1, 1, 0, &size, &executor), ACL_SUCCESS);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), ACLNN_ERR_INNER);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACL_SUCCESS);
  EXPECT_EQ(first_phase(aclnnInplaceUniformGetWorkspaceSize, y, 1.0, 0.0, 1U, 0U), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(first_phase(aclnnInplaceNormalGetWorkspaceSize, y, 0.0F, -1.0F, 1, 0), ACLNN_ERR_PARAM_INVALID);
}

// Gradients of an embedding of one row, whose terms in another order have another sum.
float summed_gradient(const char* seed, std::int64_t deterministic) {
  const Fake fake({{"TERN_FAKE_CANN_SEED", seed}});
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, deterministic), ACL_SUCCESS);
  const StreamHandle stream;
  std::vector<float> terms(64);
  for (std::size_t i = 0; i < terms.size(); ++i)
    terms[i] = i % 3 == 0 ? 1e7F + static_cast<float>(i) : 0.37F * static_cast<float>(i);
  const Array<float> gradient(terms), sum(1);
  const Array<std::int32_t> ids(std::vector<std::int32_t>(64, 0));
  const TensorHandle dy(ACL_FLOAT, {64, 1}, gradient.data()), index(ACL_INT32, {64}, ids.data()),
      y(ACL_FLOAT, {1, 1}, sum.data());
  EXPECT_EQ(run_op(stream, aclnnEmbeddingDenseBackwardGetWorkspaceSize, aclnnEmbeddingDenseBackward, dy, index, 1U,
                   ~std::uint64_t{0}, false, y),
            0);
  return sum.values().front();
}

TEST(FakeCannOperators, SumsDifferUnlessDeterminismIsAskedFor) {
  bool differs = false;
  const float exact = summed_gradient("1", 1);
  for (const char* seed : {"2", "3", "4", "5", "6"}) {
    EXPECT_EQ(summed_gradient(seed, 1), exact);
    differs = differs || summed_gradient(seed, 0) != exact;
  }
  EXPECT_TRUE(differs);
}

TEST(FakeCannOperators, AGroupedProductLeavesRowsPastItsListAlone) {
  const Fake fake;
  const StreamHandle stream;
  const Array<float> x(std::vector<float>{1, 2, 3}), weight(std::vector<float>{10, 100}),
      y(std::vector<float>{-1, -1, -1});
  const Array<std::int64_t> ends(std::vector<std::int64_t>{1, 2});
  const TensorHandle groups(ACL_INT64, {2}, ends.data());
  const List xs(ACL_FLOAT, {3, 1}, x.data()), weights(ACL_FLOAT, {2, 1, 1}, weight.data()),
      ys(ACL_FLOAT, {3, 1}, y.data());
  aclTensorList* const none = nullptr;
  EXPECT_EQ(run_op(stream, aclnnGroupedMatmulV4GetWorkspaceSize, aclnnGroupedMatmulV4, xs, weights, none, none, none,
                   none, none, none, groups, none, none, none, 3, 0, 0, 0, ys, none, none),
            0)
      << message();
  EXPECT_EQ(y.values(), (std::vector<float>{10, 200, -1}));
}

struct Packed {
  Blank q{ACL_FLOAT16, {4, 2, 16}}, k{ACL_FLOAT16, {6, 1, 16}}, v{ACL_FLOAT16, {6, 1, 16}},
      out{ACL_FLOAT16, {4, 2, 16}}, maximum{ACL_FLOAT, {4, 2, 8}}, sum{ACL_FLOAT, {4, 2, 8}},
      mask{ACL_BOOL, {2048, 2048}};

  aclnnStatus plan(const Shape& ends, const Shape& key_ends, const aclTensor* hidden, std::int64_t mode,
                   std::int64_t heads = 2) {
    const Ints query_ends(ends), kv_ends(key_ends);
    std::string text = "TND";
    char* const layout = text.data();
    return first_phase(aclnnFlashAttentionVarLenScoreGetWorkspaceSize, q, k, v, none, none, none, hidden,
                       static_cast<aclIntArray*>(nullptr), query_ends, kv_ends, 0.25, 1.0, 2147483647, 0, heads, layout,
                       0, mode, maximum, sum, none, out);
  }
  aclTensor* const none = nullptr;
};

TEST(FakeCannOperators, PackedAttentionChecksItsLengthsAndItsMask) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "910B1"}});
  Packed packed;
  EXPECT_EQ(packed.plan({2, 4}, {3, 6}, packed.mask, 3), ACL_SUCCESS) << message();
  EXPECT_EQ(packed.plan({2, 4}, {3, 6}, nullptr, 3), ACLNN_ERR_INNER_TILING_ERROR);         // a mode without its mask
  EXPECT_EQ(packed.plan({2, 1}, {3, 6}, packed.mask, 3), ACLNN_ERR_INNER_TILING_ERROR);     // lengths that fall
  EXPECT_EQ(packed.plan({2, 5}, {3, 6}, packed.mask, 3), ACLNN_ERR_INNER_TILING_ERROR);     // past T
  EXPECT_EQ(packed.plan({3, 4}, {1, 6}, packed.mask, 3), ACLNN_ERR_INNER_TILING_ERROR);     // more queries than keys
  EXPECT_EQ(packed.plan({2, 4}, {3, 6}, packed.mask, 3, 3), ACLNN_ERR_INNER_TILING_ERROR);  // heads that q hasn't
}

TEST(FakeCannOperators, PackedAttentionIsOnNoOldChip) {
  for (const char* chip : {"310P3", "910A"}) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", chip}});
    Packed packed;
    EXPECT_EQ(packed.plan({2, 4}, {3, 6}, nullptr, 0), ACLNN_ERR_INNER_FIND_KERNEL_ERROR) << chip;
  }
}

TEST(FakeCannOperators, QuantisedWeightsHaveGroupsOfThirtyTwo) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "910B1"}});
  const Blank x(ACL_FLOAT16, {2, 128}), weight(ACL_INT8, {128, 8}), per_group(ACL_FLOAT16, {4, 8}),
      per_column(ACL_FLOAT16, {8}), y(ACL_FLOAT16, {2, 8}), wrong(ACL_FLOAT16, {3, 8});
  aclTensor* const none = nullptr;
  const auto plan = [&](const aclTensor* scale, int group) {
    return first_phase(aclnnWeightQuantBatchMatmulV2GetWorkspaceSize, x, weight, scale, none, none, none, none, group,
                       y);
  };
  EXPECT_EQ(plan(per_group, 32), ACL_SUCCESS) << message();
  EXPECT_EQ(plan(per_column, 0), ACL_SUCCESS) << message();
  EXPECT_EQ(plan(per_group, 30), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(plan(per_column, 128), ACLNN_ERR_PARAM_INVALID);  // a group of all k is none
  EXPECT_EQ(plan(wrong, 32), ACLNN_ERR_PARAM_INVALID);
}

TEST(FakeCannOperators, QuantisedWeightsAreScaledAndRounded) {
  const Fake fake;
  const StreamHandle stream;
  const Array<std::uint16_t> x(std::vector<std::uint16_t>{0x3c00, 0x4000}), scale(std::vector<std::uint16_t>{0x3800}),
      y(1);  // 1 2; 0.5
  const Array<std::int8_t> weight(std::vector<std::int8_t>{4, -3});
  const TensorHandle tx(ACL_FLOAT16, {1, 2}, x.data()), tw(ACL_INT8, {2, 1}, weight.data()),
      ts(ACL_FLOAT16, {1}, scale.data()), ty(ACL_FLOAT16, {1, 1}, y.data());
  aclTensor* const none = nullptr;
  EXPECT_EQ(run_op(stream, aclnnWeightQuantBatchMatmulV2GetWorkspaceSize, aclnnWeightQuantBatchMatmulV2, tx, tw, ts,
                   none, none, none, none, 0, ty),
            0)
      << message();
  EXPECT_EQ(y.values().front(), 0xbc00);  // 0.5 (4 - 6) = -1
}

TEST(FakeCannOperators, RoutingGivesPlacesAndRunningSums) {
  const Fake fake;
  const StreamHandle stream;
  const Array<float> x(std::vector<float>{1, 2}), expanded(4);
  const Array<std::int32_t> experts(std::vector<std::int32_t>{2, 0, 1, 2}), rows(4), sums(3);
  const TensorHandle tx(ACL_FLOAT, {2, 1}, x.data()), ids(ACL_INT32, {2, 2}, experts.data()),
      out(ACL_FLOAT, {4, 1}, expanded.data()), places(ACL_INT32, {4}, rows.data()), totals(ACL_INT32, {3}, sums.data());
  aclTensor* const none = nullptr;
  EXPECT_EQ(run_op(stream, aclnnMoeInitRoutingV2GetWorkspaceSize, aclnnMoeInitRoutingV2, tx, ids, 0, 0, 3, 0, 1, false,
                   out, places, totals, none),
            0)
      << message();
  EXPECT_EQ(expanded.values(), (std::vector<float>{1, 2, 1, 2}));
  EXPECT_EQ(rows.values(), (std::vector<std::int32_t>{2, 0, 1, 3}));
  EXPECT_EQ(sums.values(), (std::vector<std::int32_t>{1, 2, 4}));
}

}  // namespace
}  // namespace fake_test
