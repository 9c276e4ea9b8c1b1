// Streams, events and callbacks of the fake's runtime, and kernels that fail.
#include <pthread.h>

#include <cstdlib>
#include <thread>

#include "backends/npu/cann/ops_elementwise.h"
#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

class EventHandle {
 public:
  explicit EventHandle(std::uint32_t flags = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE) {
    EXPECT_EQ(aclrtCreateEventWithFlag(&handle_, flags), 0);
  }
  ~EventHandle() { (void)aclrtDestroyEvent(handle_); }
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  operator aclrtEvent() const { return handle_; }

 private:
  aclrtEvent handle_ = nullptr;
};

TEST(FakeCannStream, WaitsForAnEventThatIsRecordedLater) {
  const Fake fake;
  const EventHandle gate;
  const StreamHandle held, other;
  ASSERT_EQ(aclrtStreamWaitEvent(held, gate), 0);
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  EXPECT_EQ(aclrtStreamQuery(held, &status), 0);
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(held, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(held, -2), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtRecordEvent(gate, other), 0);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(held, -1), 0);
  EXPECT_EQ(aclrtStreamQuery(held, &status), 0);
  EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

TEST(FakeCannStream, KeepsItsOrderAndThatOfEvents) {
  const Fake fake({{"TERN_FAKE_CANN_LATE", "2000"}});
  const StreamHandle first, second;
  const EventHandle between;
  const Array<float> x(std::vector<float>{1}), y(1);
  const TensorHandle tx(ACL_FLOAT, {1}, x.data()), ty(ACL_FLOAT, {1}, y.data());
  const ScalarHandle two(2);
  for (int i = 0; i < 10; ++i) {
    std::uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnMulsGetWorkspaceSize(tx, two, tx, &size, &executor), 0);
    ASSERT_EQ(aclnnMuls(nullptr, size, executor, first), 0);
  }
  ASSERT_EQ(aclrtRecordEvent(between, first), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(second, between), 0);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnMulsGetWorkspaceSize(tx, two, ty, &size, &executor), 0);
  ASSERT_EQ(aclnnMuls(nullptr, size, executor, second), 0);
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  EXPECT_EQ(y.values()[0], 2048);
}

TEST(FakeCannStream, IsOfOneDeviceAndEndsOnce) {
  const Fake fake({{"TERN_FAKE_CANN_DEVICES", "2"}});
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), 0);
  ASSERT_EQ(aclrtSetDevice(1), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
  ASSERT_EQ(aclrtSetDevice(0), 0);
  EXPECT_EQ(aclrtDestroyStream(stream), 0);
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);  // the default stream
  EXPECT_EQ(aclrtCreateStreamWithConfig(&stream, 8, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtCreateStreamWithConfig(&stream, 0, 9), ACL_ERROR_RT_PARAM_INVALID);
}

TEST(FakeCannStream, ThereAreOnlySoMany) {
  const Fake fake;
  std::vector<aclrtStream> streams(1984);
  for (aclrtStream& stream : streams) ASSERT_EQ(aclrtCreateStream(&stream), 0);
  aclrtStream more = nullptr;
  EXPECT_EQ(aclrtCreateStream(&more), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  for (aclrtStream stream : streams) EXPECT_EQ(aclrtDestroyStream(stream), 0);
}

TEST(FakeCannEvent, TellsWhetherItIsReached) {
  const Fake fake;
  const EventHandle event, gate;
  const StreamHandle stream, other;
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  EXPECT_EQ(aclrtQueryEventStatus(event, &status), 0);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeEvent(event), ACL_ERROR_RT_PARAM_INVALID);  // it isn't recorded
  ASSERT_EQ(aclrtStreamWaitEvent(stream, gate), 0);
  ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
  EXPECT_EQ(aclrtQueryEventStatus(event, &status), 0);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event, 10), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtRecordEvent(gate, other), 0);
  EXPECT_EQ(aclrtSynchronizeEvent(event), 0);
  EXPECT_EQ(aclrtQueryEventStatus(event, &status), 0);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  ASSERT_EQ(aclrtResetEvent(event, stream), 0);
  EXPECT_EQ(aclrtQueryEventStatus(event, &status), 0);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
}

TEST(FakeCannEvent, KeepsATimeWhereItSaysSo) {
  const Fake fake;
  const EventHandle start, end, timeless(ACL_EVENT_SYNC);
  const StreamHandle stream;
  float milliseconds = -1;
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  ASSERT_EQ(aclrtRecordEvent(start, stream), 0);
  ASSERT_EQ(aclrtRecordEvent(timeless, stream), 0);
  ASSERT_EQ(aclrtRecordEvent(end, stream), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, start, end), 0);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
  EXPECT_EQ(aclrtEventElapsedTime(&milliseconds, timeless, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
}

TEST(FakeCannEvent, HandlesAreChecked) {
  const Fake fake;
  aclrtEvent event = nullptr;
  EXPECT_EQ(aclrtCreateEventWithFlag(&event, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtCreateEventWithFlag(&event, 0x40), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtCreateEvent(&event), 0);
  EXPECT_EQ(aclrtDestroyEvent(event), 0);
  EXPECT_EQ(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtDestroyEvent(nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST(FakeCannCallback, RunsOnTheThreadThatIsSubscribed) {
  const Fake fake;
  const StreamHandle stream;
  std::thread::id ran;
  const aclrtCallback note = [](void* to) { *static_cast<std::thread::id*>(to) = std::this_thread::get_id(); };
  EXPECT_EQ(aclrtLaunchCallback(note, &ran, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
  const auto self = static_cast<std::uint64_t>(pthread_self());
  ASSERT_EQ(aclrtSubscribeReport(self, stream), 0);
  EXPECT_EQ(aclrtSubscribeReport(self, stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  EXPECT_EQ(aclrtProcessReport(5), ACL_ERROR_RT_REPORT_TIMEOUT);
  ASSERT_EQ(aclrtLaunchCallback(note, &ran, ACL_CALLBACK_BLOCK, stream), 0);
  EXPECT_EQ(aclrtProcessReport(-1), 0);
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(aclrtUnSubscribeReport(self + 1, stream), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  EXPECT_EQ(aclrtUnSubscribeReport(self, stream), 0);
}

aclnnStatus multiply(const TensorHandle& x, aclrtStream stream) {
  const ScalarHandle two(2);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  if (const aclnnStatus status = aclnnMulsGetWorkspaceSize(x, two, x, &size, &executor)) return status;
  return aclnnMuls(nullptr, size, executor, stream);
}

TEST(FakeCannKernel, ThatFailsIsHeardOfWhenOneWaits) {
  for (const auto& [fault, code] : {std::pair("launch@2", ACL_ERROR_RT_AICORE_EXCEPTION),
                                    std::pair("kernel@2=507018", ACL_ERROR_RT_AICPU_EXCEPTION),
                                    std::pair("kernel@2=507014", ACL_ERROR_RT_AICORE_TIMEOUT)}) {
    const Fake fake({{"TERN_FAKE_CANN_FAULT", fault}});
    const StreamHandle stream;
    const Array<float> x(std::vector<float>{1});
    const TensorHandle tx(ACL_FLOAT, {1}, x.data());
    EXPECT_EQ(multiply(tx, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(multiply(tx, stream), 0);
    EXPECT_EQ(multiply(tx, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), code);
    EXPECT_NE(message().find("aclnnMuls"), std::string::npos);
    EXPECT_EQ(x.values()[0], 2);  // nothing was done after it
    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_NORMAL;
    EXPECT_EQ(aclrtQueryDeviceStatus(0, &status), 0);
    EXPECT_EQ(status, ACL_RT_DEVICE_STATUS_ABNORMAL);
  }
}

TEST(FakeCannKernel, ThatHangsIsLeftBehindInTime) {
  EXPECT_EXIT(
      {
        const Fake fake({{"TERN_FAKE_CANN_FAULT", "hang@1"}});
        const StreamHandle stream;
        const Array<float> x(std::vector<float>{1});
        const TensorHandle tx(ACL_FLOAT, {1}, x.data());
        if (multiply(tx, stream) != 0) std::_Exit(1);
        std::_Exit(aclrtSynchronizeStreamWithTimeout(stream, 50) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fake_test
