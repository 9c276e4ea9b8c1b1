// Graphs that are captured from streams: what they do, and each rule while one is captured.
#include <functional>
#include <set>
#include <thread>

#include "backends/npu/cann/ops_elementwise.h"
#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

class SideEvent {
 public:
  SideEvent() { EXPECT_EQ(aclrtCreateEventExWithFlag(&handle_, ACL_EVENT_SYNC), 0); }
  ~SideEvent() { (void)aclrtDestroyEvent(handle_); }
  SideEvent(const SideEvent&) = delete;
  SideEvent& operator=(const SideEvent&) = delete;
  operator aclrtEvent() const { return handle_; }

 private:
  aclrtEvent handle_ = nullptr;
};

// A number on the device that streams multiply.
struct Number {
  Array<float> x{std::vector<float>{1}}, unit{std::vector<float>{1}};
  TensorHandle tensor{ACL_FLOAT, {1}, x.data()}, unit_tensor{ACL_FLOAT, {1}, unit.data()};

  void times(float factor, aclrtStream stream) const {
    const ScalarHandle scalar(factor);
    std::uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnMulsGetWorkspaceSize(tensor, scalar, tensor, &size, &executor), 0);
    ASSERT_EQ(aclnnMuls(nullptr, size, executor, stream), 0);
  }
  void plus(float value, aclrtStream stream) const {
    const ScalarHandle scalar(value);
    std::uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnInplaceAddGetWorkspaceSize(tensor, unit_tensor, scalar, &size, &executor), 0);
    ASSERT_EQ(aclnnInplaceAdd(nullptr, size, executor, stream), 0);
  }
  [[nodiscard]] float value() const { return x.values()[0]; }
};

constexpr aclmdlRICaptureMode kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
constexpr aclmdlRICaptureMode kLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
constexpr aclmdlRICaptureMode kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

TEST(FakeCannCapture, RunsNothingUntilTheGraphDoes) {
  const Fake fake;
  const StreamHandle stream;
  const Number number;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  EXPECT_EQ(aclmdlRICaptureGetInfo(stream, &status, &graph), 0);
  EXPECT_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  number.times(2, stream);
  number.times(3, stream);
  ASSERT_EQ(aclmdlRICaptureEnd(stream, &graph), 0);
  EXPECT_EQ(number.value(), 1);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(number.value(), 36);
  EXPECT_EQ(aclmdlRIDestroy(graph), 0);
  EXPECT_EQ(aclmdlRIDestroy(graph), ACL_ERROR_RT_INVALID_HANDLE);
}

TEST(FakeCannCapture, IsForChipsThatCan) {
  const std::pair<std::pair<const char*, const char*>, bool> cases[] = {
      {{"910A", "9.1"}, false}, {{"310P3", "8.1"}, false},   {{"310P3", "9.1"}, true},
      {{"910B1", "8.1"}, true}, {{"910_9391", "8.1"}, true}, {{"950PR_9589", "9.1"}, true}};
  for (const auto& [which, can] : cases) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", which.first}, {"TERN_FAKE_CANN_VERSION", which.second}});
    const StreamHandle stream;
    EXPECT_EQ(aclmdlRICaptureBegin(stream, kGlobal), can ? 0 : ACL_ERROR_RT_FEATURE_NOT_SUPPORT) << which.first;
    aclmdlRI graph = nullptr;
    EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), can ? 0 : ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  }
}

TEST(FakeCannCapture, BeginsAndEndsOnItsStreamAndThread) {
  const Fake fake;
  const StreamHandle stream, other;
  aclmdlRI graph = nullptr;
  EXPECT_EQ(aclmdlRICaptureBegin(nullptr, kGlobal), ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(aclmdlRICaptureBegin(stream, static_cast<aclmdlRICaptureMode>(5)), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  EXPECT_EQ(aclmdlRICaptureBegin(stream, kGlobal), ACL_ERROR_RT_STREAM_CAPTURED);
  EXPECT_EQ(aclmdlRICaptureEnd(other, &graph), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  std::thread([&] {
    ASSERT_EQ(aclrtSetDevice(0), 0);
    EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), 0);
  EXPECT_EQ(aclmdlRIDestroy(graph), 0);
}

TEST(FakeCannCapture, WaitingEndsIt) {
  const Fake fake;
  const StreamHandle stream;
  const SideEvent event;
  aclmdlRI graph = nullptr;
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  const std::function<aclError()> forbidden[] = {
      [&] { return aclrtSynchronizeStream(stream); },
      [&] { return aclrtStreamQuery(stream, &status); },
      [&] { return aclrtSynchronizeDevice(); },
  };
  for (const auto& call : forbidden) {
    ASSERT_EQ(aclmdlRICaptureBegin(stream, kRelaxed), 0);
    EXPECT_EQ(call(), ACL_ERROR_RT_STREAM_CAPTURED);
    aclmdlRICaptureStatus state = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    EXPECT_EQ(aclmdlRICaptureGetInfo(stream, &state, &graph), 0);
    EXPECT_EQ(state, ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
  }
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kRelaxed), 0);
  ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
  EXPECT_EQ(aclrtQueryEventStatus(event, &recorded), ACL_ERROR_RT_EVENT_CAPTURED);
  EXPECT_EQ(aclrtSynchronizeEvent(event), ACL_ERROR_RT_EVENT_CAPTURED);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  // And the default stream, of whoever.
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kRelaxed), 0);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
}

// What a synchronous copy gives while `stream` is captured: from this thread or another.
aclError copy_while(aclmdlRICaptureMode mode, bool elsewhere, bool pageable_async) {
  const StreamHandle stream, side;
  const Array<float> x(1);
  float host = 1;
  EXPECT_EQ(aclmdlRICaptureBegin(stream, mode), 0);
  aclError code = -1;
  const auto copy = [&] {
    (void)aclrtSetDevice(0);
    code = pageable_async ? aclrtMemcpyAsync(x.data(), 4, &host, 4, ACL_MEMCPY_HOST_TO_DEVICE, side)
                          : aclrtMemcpy(x.data(), 4, &host, 4, ACL_MEMCPY_HOST_TO_DEVICE);
  };
  if (elsewhere) {
    std::thread(copy).join();
  } else {
    copy();
  }
  aclmdlRI graph = nullptr;
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), code == 0 ? 0 : ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  return code;
}

TEST(FakeCannCapture, ModesSayWhoMayCopy) {
  const Fake fake;
  EXPECT_EQ(copy_while(kGlobal, false, false), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  EXPECT_EQ(copy_while(kGlobal, true, false), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  EXPECT_EQ(copy_while(kLocal, false, false), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  EXPECT_EQ(copy_while(kLocal, true, false), 0);
  EXPECT_EQ(copy_while(kRelaxed, false, false), 0);
  EXPECT_EQ(copy_while(kGlobal, false, true), ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
  EXPECT_EQ(copy_while(kRelaxed, false, true), 0);
}

TEST(FakeCannCapture, AThreadMayRelaxItsMode) {
  const Fake fake;
  aclmdlRICaptureMode mode = kRelaxed;
  EXPECT_EQ(aclmdlRICaptureThreadExchangeMode(&mode), 0);
  EXPECT_EQ(mode, kGlobal);
  EXPECT_EQ(copy_while(kGlobal, false, false), 0);
  EXPECT_EQ(aclmdlRICaptureThreadExchangeMode(&mode), 0);
  EXPECT_EQ(mode, kRelaxed);
  EXPECT_EQ(copy_while(kGlobal, false, false), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
}

TEST(FakeCannCapture, SideStreamsJoinByEventsAndMustComeBack) {
  const Fake fake;
  const StreamHandle stream, side;
  const SideEvent out, back;
  const Number left, right;
  aclmdlRI graph = nullptr;
  const auto fork = [&] {
    ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
    left.times(2, stream);
    ASSERT_EQ(aclrtRecordEvent(out, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(side, out), 0);
    right.times(3, side);
    left.times(5, stream);
  };
  fork();
  EXPECT_EQ(aclmdlRICaptureEnd(side, &graph), ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  fork();
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_UNJOINED);
  fork();
  ASSERT_EQ(aclrtRecordEvent(back, side), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(stream, back), 0);
  ASSERT_EQ(aclmdlRICaptureEnd(stream, &graph), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, side), 0);  // any stream runs it
  ASSERT_EQ(aclrtSynchronizeStream(side), 0);
  EXPECT_EQ(left.value(), 10);
  EXPECT_EQ(right.value(), 3);
  EXPECT_EQ(aclmdlRIDestroy(graph), 0);
}

TEST(FakeCannCapture, AGraphRunsInEachOrderThatItAllows) {
  const Fake fake;
  const StreamHandle stream, side;
  const SideEvent out, back;
  const Number number;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  number.times(1, stream);
  ASSERT_EQ(aclrtRecordEvent(out, stream), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(side, out), 0);
  number.times(2, side);  // nothing orders these two
  number.plus(1, stream);
  ASSERT_EQ(aclrtRecordEvent(back, side), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(stream, back), 0);
  ASSERT_EQ(aclmdlRICaptureEnd(stream, &graph), 0);
  std::set<float> seen;
  for (int i = 0; i < 64; ++i) {
    const float one = 1;
    ASSERT_EQ(aclrtMemcpy(number.x.data(), 4, &one, 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    seen.insert(number.value());
  }
  EXPECT_EQ(seen, (std::set<float>{3, 4}));
  EXPECT_EQ(aclmdlRIDestroy(graph), 0);
}

TEST(FakeCannCapture, WhatIsOutsideIsNotWaitedFor) {
  const Fake fake;
  const StreamHandle stream, other;
  const SideEvent outside;
  aclrtEvent plain = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&plain), 0);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclrtRecordEvent(outside, other), 0);
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  EXPECT_EQ(aclrtStreamWaitEvent(stream, outside), ACL_ERROR_RT_CAPTURE_DEPENDENCY);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  // An event of aclrtCreateEvent isn't one that is captured.
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  EXPECT_EQ(aclrtRecordEvent(plain, stream), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(aclrtDestroyEvent(plain), 0);
}

// A graph that multiplies by 2, by 3 in a group, and by 5.
struct Grouped {
  StreamHandle stream, update;
  Number number;
  aclmdlRI graph = nullptr;
  aclrtTaskGrp group = nullptr;

  Grouped() {
    EXPECT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
    number.times(2, stream);
    EXPECT_EQ(aclmdlRICaptureTaskGrpBegin(stream), 0);
    number.times(3, stream);
    EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream, &group), 0);
    number.times(5, stream);
    EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), 0);
  }
  ~Grouped() { (void)aclmdlRIDestroy(graph); }
  [[nodiscard]] float run() const {
    const float one = 1;
    EXPECT_EQ(aclrtMemcpy(number.x.data(), 4, &one, 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(aclmdlRIExecuteAsync(graph, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    return number.value();
  }
};

TEST(FakeCannCapture, AGroupsTasksAreGivenAnew) {
  const Fake fake;
  const Grouped grouped;
  EXPECT_EQ(grouped.run(), 30);
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(grouped.update, grouped.group), 0);
  grouped.number.times(7, grouped.update);
  ASSERT_EQ(aclmdlRICaptureTaskUpdateEnd(grouped.update), 0);
  ASSERT_EQ(aclrtSynchronizeStream(grouped.update), 0);
  EXPECT_EQ(grouped.run(), 70);
}

TEST(FakeCannCapture, AnUpdateIsInItsStreamsOrder) {
  const Fake fake;
  const Grouped grouped;
  const SideEvent gate;
  ASSERT_EQ(aclrtStreamWaitEvent(grouped.update, gate), 0);
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(grouped.update, grouped.group), 0);
  grouped.number.times(7, grouped.update);
  ASSERT_EQ(aclmdlRICaptureTaskUpdateEnd(grouped.update), 0);
  EXPECT_EQ(grouped.run(), 30);  // the stream hasn't come to it
  ASSERT_EQ(aclrtRecordEvent(gate, grouped.stream), 0);
  ASSERT_EQ(aclrtSynchronizeStream(grouped.update), 0);
  EXPECT_EQ(grouped.run(), 70);
}

TEST(FakeCannCapture, AnUpdateMustBeOfTheSameTasks) {
  const Fake fake;
  const Grouped grouped;
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(grouped.update, grouped.group), 0);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateEnd(grouped.update), ACL_ERROR_STREAM_TASK_GROUP_STATUS);  // fewer
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(grouped.update, grouped.group), 0);
  grouped.number.plus(1, grouped.update);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateEnd(grouped.update), ACL_ERROR_STREAM_TASK_GROUP_STATUS);  // of another kind
  EXPECT_EQ(aclmdlRICaptureTaskUpdateEnd(grouped.update), ACL_ERROR_STREAM_TASK_GROUP_STATUS);  // none is begun
  EXPECT_EQ(grouped.run(), 30);
}

TEST(FakeCannCapture, GroupsHaveTheirOrder) {
  const Fake fake;
  const Grouped grouped;
  const StreamHandle stream;
  aclrtTaskGrp group = nullptr;
  aclmdlRI graph = nullptr;
  EXPECT_EQ(aclmdlRICaptureTaskGrpBegin(stream), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  EXPECT_EQ(aclmdlRICaptureTaskGrpEnd(stream, &group), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateBegin(stream, grouped.group), ACL_ERROR_RT_STREAM_CAPTURED);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream), 0);
  EXPECT_EQ(aclmdlRICaptureTaskGrpBegin(stream), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_STREAM_TASK_GROUP_INTR);
  EXPECT_EQ(aclmdlRICaptureTaskUpdateBegin(stream, nullptr), ACL_ERROR_INVALID_PARAM);
  int none = 0;
  EXPECT_EQ(aclmdlRICaptureTaskUpdateBegin(stream, &none), ACL_ERROR_RT_INVALID_HANDLE);
}

TEST(FakeCannCapture, ARunningGraphIsNotDestroyed) {
  const Fake fake;
  const Grouped grouped;
  const StreamHandle held;
  const SideEvent gate;
  ASSERT_EQ(aclrtStreamWaitEvent(held, gate), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(grouped.graph, held), 0);
  EXPECT_EQ(aclmdlRIDestroy(grouped.graph), ACL_ERROR_RT_MODEL_RUNNING);
  ASSERT_EQ(aclrtRecordEvent(gate, grouped.stream), 0);
  EXPECT_EQ(aclrtSynchronizeStream(held), 0);
}

TEST(FakeCannCapture, CallbacksAndGraphsAreNotCaptured) {
  const Fake fake;
  const Grouped grouped;
  const StreamHandle stream;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream, kGlobal), 0);
  EXPECT_EQ(aclmdlRIExecuteAsync(grouped.graph, stream), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  EXPECT_EQ(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace
}  // namespace fake_test
