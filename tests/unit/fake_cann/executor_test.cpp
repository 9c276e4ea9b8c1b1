// The two phases of an operator: what they compute, and each way in which they are used wrongly.
#include <memory>
#include <thread>

#include "backends/npu/cann/ops_elementwise.h"
#include "backends/npu/cann/ops_nn.h"
#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

// Two vectors and their sum on the device, with the first phase of an addition of them.
struct Addition {
  Array<float> a{std::vector<float>{1, 2, 3, 4}}, b{std::vector<float>{10, 20, 30, 40}}, y{4};
  TensorHandle ta{ACL_FLOAT, {4}, a.data()}, tb{ACL_FLOAT, {4}, b.data()}, ty{ACL_FLOAT, {4}, y.data()};
  ScalarHandle alpha{2};
  StreamHandle stream;
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;

  aclnnStatus plan() { return aclnnAddGetWorkspaceSize(ta, tb, alpha, ty, &size, &executor); }
};

TEST(FakeCannExecutor, AddsWithItsFactor) {
  const Fake fake;
  Addition add;
  EXPECT_EQ(run_op(add.stream, aclnnAddGetWorkspaceSize, aclnnAdd, add.ta, add.tb, add.alpha, add.ty), 0);
  EXPECT_EQ(add.y.values(), (std::vector<float>{21, 42, 63, 84}));
}

TEST(FakeCannExecutor, APlainOneRunsOnce) {
  const Fake fake;
  Addition add;
  ASSERT_EQ(add.plan(), 0);
  ASSERT_EQ(aclnnAdd(nullptr, 0, add.executor, add.stream), 0);
  EXPECT_EQ(aclnnAdd(nullptr, 0, add.executor, add.stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_NE(message().find("run already"), std::string::npos);
}

TEST(FakeCannExecutor, ARepeatableOneRunsUntilItIsDestroyed) {
  const Fake fake;
  Addition add;
  ASSERT_EQ(add.plan(), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(add.executor), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(aclnnAdd(nullptr, 0, add.executor, add.stream), 0);
  EXPECT_EQ(aclrtSynchronizeStream(add.stream), 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(add.executor), 0);
  EXPECT_EQ(aclnnAdd(nullptr, 0, add.executor, add.stream), ACLNN_ERR_PARAM_NULLPTR);
}

TEST(FakeCannExecutor, ARepeatableOneTakesOtherAddresses) {
  const Fake fake;
  Addition add;
  const Array<float> other(std::vector<float>{100, 200, 300, 400});
  ASSERT_EQ(add.plan(), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(add.executor), 0);
  ASSERT_EQ(aclSetInputTensorAddr(add.executor, 0, add.ta, other.data()), 0);
  ASSERT_EQ(aclnnAdd(nullptr, 0, add.executor, add.stream), 0);
  ASSERT_EQ(aclrtSynchronizeStream(add.stream), 0);
  EXPECT_EQ(add.y.values(), (std::vector<float>{120, 240, 360, 480}));
  // On 32 bytes, and only of a tensor that the first phase had.
  EXPECT_EQ(aclSetInputTensorAddr(add.executor, 0, add.ta, static_cast<char*>(other.data()) + 4),
            ACLNN_ERR_PARAM_INVALID);
  const TensorHandle stranger(ACL_FLOAT, {4}, other.data());
  EXPECT_EQ(aclSetInputTensorAddr(add.executor, 0, stranger, other.data()), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyAclOpExecutor(add.executor), 0);
}

TEST(FakeCannExecutor, IsMadeRepeatableAtOnceAndOnItsThread) {
  const Fake fake;
  Addition add, other;
  ASSERT_EQ(add.plan(), 0);
  std::thread([&] { EXPECT_EQ(aclSetAclOpExecutorRepeatable(add.executor), ACLNN_ERR_INNER); }).join();
  ASSERT_EQ(other.plan(), 0);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(add.executor), ACLNN_ERR_INNER);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(other.executor), 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(add.executor), 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(other.executor), 0);
}

TEST(FakeCannExecutor, OneThatIsNeverRunIsLeaked) {
  const Fake fake;
  Addition add;
  const std::uint64_t before = ternFakeCannExecutors();
  ASSERT_EQ(add.plan(), 0);
  EXPECT_EQ(ternFakeCannExecutors(), before + 1);
  EXPECT_EQ(aclDestroyAclOpExecutor(add.executor), 0);
  EXPECT_EQ(ternFakeCannExecutors(), before);
}

TEST(FakeCannExecutor, NullsAreRefused) {
  const Fake fake;
  Addition add;
  EXPECT_EQ(aclnnAddGetWorkspaceSize(nullptr, add.tb, add.alpha, add.ty, &add.size, &add.executor),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclnnAddGetWorkspaceSize(add.ta, add.tb, nullptr, add.ty, &add.size, &add.executor),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclnnAddGetWorkspaceSize(add.ta, add.tb, add.alpha, add.ty, nullptr, &add.executor),
            ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclnnAdd(nullptr, 0, nullptr, add.stream), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_INNER_NULLPTR);
}

TEST(FakeCannExecutor, TheWorkspaceMustBeThereAndLargeEnough) {
  const Fake fake;
  const Array<float> a(6), b(6), y(4);
  const TensorHandle ta(ACL_FLOAT, {2, 3}, a.data()), tb(ACL_FLOAT, {3, 2}, b.data()), ty(ACL_FLOAT, {2, 2}, y.data());
  const StreamHandle stream;
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnMatmulGetWorkspaceSize(ta, tb, ty, 0, &size, &executor), 0);
  ASSERT_GT(size, 0U);
  EXPECT_EQ(aclnnMatmul(nullptr, size, executor, stream), ACLNN_ERR_PARAM_NULLPTR);
  ASSERT_EQ(aclnnMatmulGetWorkspaceSize(ta, tb, ty, 0, &size, &executor), 0);
  EXPECT_EQ(aclnnMatmul(a.data(), size / 2, executor, stream), ACLNN_ERR_PARAM_INVALID);
  // Memory that isn't as large as is said: the kernel writes past it.
  ASSERT_EQ(aclnnMatmulGetWorkspaceSize(ta, tb, ty, 0, &size, &executor), 0);
  EXPECT_EQ(aclnnMatmul(a.data(), size, executor, stream), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST(FakeCannExecutor, WhatIsKeptInTheWorkspaceIsLost) {
  const Fake fake;
  const Array<float> a(std::vector<float>{1, 0, 0, 1}), b(std::vector<float>{1, 2, 3, 4}), y(4);
  const TensorHandle ta(ACL_FLOAT, {2, 2}, a.data()), tb(ACL_FLOAT, {2, 2}, b.data()), ty(ACL_FLOAT, {2, 2}, y.data());
  const StreamHandle stream;
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnMatmulGetWorkspaceSize(ta, tb, ty, 0, &size, &executor), 0);
  const Array<float> workspace(std::vector<float>(size / 4, 7.0F));
  ASSERT_EQ(aclnnMatmul(workspace.data(), size, executor, stream), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(y.values(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_NE(workspace.values()[0], 7.0F);
}

TEST(FakeCannExecutor, ATensorIsNeededUntilTheSecondPhase) {
  const Fake fake;
  const Array<float> a(4), y(4);
  auto ta = std::make_unique<TensorHandle>(ACL_FLOAT, std::vector<std::int64_t>{4}, a.data());
  const TensorHandle ty(ACL_FLOAT, {4}, y.data());
  const ScalarHandle one(1);
  const StreamHandle stream;
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnMulsGetWorkspaceSize(*ta, one, ty, &size, &executor), 0);
  ta.reset();
  EXPECT_EQ(aclnnMuls(nullptr, size, executor, stream), ACLNN_ERR_PARAM_INVALID);
}

TEST(FakeCannExecutor, PlanningNeedsADevice) {
  const Fake fake;
  Addition add;
  ASSERT_EQ(aclrtResetDevice(0), 0);
  EXPECT_EQ(add.plan(), ACLNN_ERR_RUNTIME_ERROR);
  ASSERT_EQ(aclrtSetDevice(0), 0);
}

TEST(FakeCannExecutor, OperatorsAreFoundWhereTheEnvironmentSays) {
  const Fake fake({{"TERN_FAKE_CANN_NEEDS_OPP", "1"}});
  Addition add;
  EXPECT_EQ(add.plan(), ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND);
}

TEST(FakeCannExecutor, DtypesAndShapesAreChecked) {
  const Fake fake;
  Addition add;
  const TensorHandle strange(ACL_INT4, {4}, add.a.data());
  EXPECT_EQ(aclnnAddGetWorkspaceSize(strange, add.tb, add.alpha, add.ty, &add.size, &add.executor),
            ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(message().find("Tensor self not implemented for DT_INT4, should be in dtype support list [DT_FLOAT,"),
            std::string::npos);
  const TensorHandle three(ACL_FLOAT, {3}, add.a.data());
  EXPECT_EQ(aclnnAddGetWorkspaceSize(three, add.tb, add.alpha, add.ty, &add.size, &add.executor),
            ACLNN_ERR_PARAM_INVALID);
  const TensorHandle two(ACL_FLOAT, {2, 2}, add.y.data());
  EXPECT_EQ(aclnnAddGetWorkspaceSize(add.ta, add.tb, add.alpha, two, &add.size, &add.executor),
            ACLNN_ERR_PARAM_INVALID);
  const TensorHandle whole(ACL_INT32, {4}, add.y.data());
  EXPECT_EQ(aclnnAddGetWorkspaceSize(add.ta, add.tb, add.alpha, whole, &add.size, &add.executor),
            ACLNN_ERR_PARAM_INVALID);
}

TEST(FakeCannExecutor, OldChipsHaveNoBf16) {
  for (const char* chip : {"910A", "Ascend910B", "310P3"}) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", chip}});
    const Array<std::uint16_t> x(4), y(4);
    const TensorHandle tx(ACL_BF16, {4}, x.data()), ty(ACL_FLOAT16, {4}, y.data());
    std::uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(aclnnCastGetWorkspaceSize(tx, ACL_FLOAT16, ty, &size, &executor), ACLNN_ERR_PARAM_INVALID) << chip;
  }
}

TEST(FakeCannExecutor, OldChipsMultiplyInFp16) {
  for (const char* chip : {"910A", "310P3", "910B1", "910_9391", "950PR_9589"}) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", chip}});
    const bool old = std::string(chip) == "910A" || std::string(chip) == "310P3";
    const Array<float> a(std::vector<float>{1.00045F}), b(std::vector<float>{1}), y(1);
    const TensorHandle ta(ACL_FLOAT, {1, 1}, a.data()), tb(ACL_FLOAT, {1, 1}, b.data()),
        ty(ACL_FLOAT, {1, 1}, y.data());
    const StreamHandle stream;
    EXPECT_EQ(run_op(stream, aclnnMatmulGetWorkspaceSize, aclnnMatmul, ta, tb, ty, std::int8_t{0}),
              old ? ACLNN_ERR_PARAM_INVALID : 0);
    if (!old) {
      EXPECT_EQ(y.values()[0], 1.00045F) << chip;
    }
    EXPECT_EQ(run_op(stream, aclnnMatmulGetWorkspaceSize, aclnnMatmul, ta, tb, ty, std::int8_t{3}),
              old ? ACLNN_ERR_PARAM_INVALID : 0);
    EXPECT_EQ(run_op(stream, aclnnMatmulGetWorkspaceSize, aclnnMatmul, ta, tb, ty, std::int8_t{1}), 0);
    // fp16 has 10 bits behind the point, HF32 11.
    EXPECT_EQ(y.values()[0], old ? 1.0F : 1.0F + 0x1p-11F) << chip;
  }
}

TEST(FakeCannExecutor, AFreedTensorIsAnExceptionOfTheCore) {
  const Fake fake;
  Addition add;
  void* gone = nullptr;
  ASSERT_EQ(aclrtMalloc(&gone, 16, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  const TensorHandle freed(ACL_FLOAT, {4}, gone);
  ASSERT_EQ(aclrtFree(gone), 0);
  EXPECT_EQ(run_op(add.stream, aclnnAddGetWorkspaceSize, aclnnAdd, freed, add.tb, add.alpha, add.ty),
            ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_NE(message().find("invalid address"), std::string::npos);
  // It stays until the device is reset.
  EXPECT_EQ(aclrtSynchronizeStream(add.stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtResetDevice(0), 0);
  EXPECT_EQ(aclrtSetDevice(0), 0);
  EXPECT_EQ(aclrtSynchronizeStream(add.stream), 0);
}

TEST(FakeCannExecutor, ViewsStayInTheirStorage) {
  const Fake fake;
  const std::int64_t shape = 4, storage = 4, stride = 2;
  const Array<float> x(4);
  EXPECT_EQ(aclCreateTensor(&shape, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &storage, 1, x.data()), nullptr);
  EXPECT_EQ(aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &storage, 1, x.data()), nullptr);
}

TEST(FakeCannExecutor, HandlesEndOnce) {
  const Fake fake;
  const Array<float> x(4);
  const std::int64_t shape = 4;
  aclTensor* tensor = aclCreateTensor(&shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &shape, 1, x.data());
  aclTensorList* list = aclCreateTensorList(&tensor, 1);
  EXPECT_EQ(aclDestroyTensorList(list), 0);  // and the tensor
  EXPECT_EQ(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclDestroyTensor(nullptr), 0);
}

}  // namespace
}  // namespace fake_test
