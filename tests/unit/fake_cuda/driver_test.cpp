// The driver's rules: contexts, memory, streams, captures.
#include <unistd.h>

#include <thread>

#include "tests/unit/fake_cuda/support.h"

namespace tern::cuda::fake_test {
namespace {

using Driver = FakeCuda;

TEST_F(Driver, CallsNeedAContext) {
  CUresult error = CUDA_SUCCESS;
  std::thread([&] {
    CUdeviceptr address = 0;
    error = fake::MemAlloc(&address, 16);
  }).join();
  EXPECT_EQ(error, CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Driver, CopiesStayInTheirAllocations) {
  const CUdeviceptr at = device(std::vector<std::byte>(100));
  EXPECT_EQ(at % 256, 0U);
  std::byte bytes[101] = {};
  EXPECT_EQ(fake::MemcpyHtoDAsync(at, bytes, 101, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::MemcpyDtoHAsync(bytes, at + 1, 100, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::MemsetD8Async(at, 0, 101, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::MemcpyDtoHAsync(bytes, at + 1, 99, stream_), CUDA_SUCCESS);
}

TEST_F(Driver, MemoryBeginsAsNaN) {
  CUdeviceptr at = 0;
  ASSERT_EQ(fake::MemAlloc(&at, 64), CUDA_SUCCESS);
  allocated_.push_back(at);
  EXPECT_EQ(host<std::uint32_t>(at, 16), std::vector<std::uint32_t>(16, 0xffffffffU));
}

// Whether the process may read the byte: the kernel says so without a crash.
bool is_readable(CUdeviceptr address) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const bool yes = write(ends[1], reinterpret_cast<const void*>(address), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return yes;
}

TEST_F(Driver, WhatIsntAllocatedCantBeTouched) {
  CUdeviceptr at = 0;
  ASSERT_EQ(fake::MemAlloc(&at, 512), CUDA_SUCCESS);
  EXPECT_TRUE(is_readable(at + 511));
  EXPECT_FALSE(is_readable(at + 512));
  ASSERT_EQ(fake::MemFree(at), CUDA_SUCCESS);
  EXPECT_FALSE(is_readable(at));
  EXPECT_EQ(fake::MemFree(at), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, VirtualMemory) {
  const std::size_t page = std::size_t{2} << 20;
  CUdeviceptr at = 0;
  ASSERT_EQ(fake::MemAddressReserve(&at, 2 * page, 0, 0, 0), CUDA_SUCCESS);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handles[2] = {};
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(fake::MemCreate(&handles[i], page, &prop, 0), CUDA_SUCCESS);
    ASSERT_EQ(fake::MemMap(at + page * static_cast<unsigned>(i), page, 0, handles[i], 0), CUDA_SUCCESS);
  }
  EXPECT_EQ(fake::MemsetD8Async(at, 1, 16, stream_), CUDA_ERROR_INVALID_VALUE);  // no access yet
  ASSERT_EQ(fake::MemSetAccess(at, 2 * page, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(fake::MemsetD8Async(at, 1, 2 * page, stream_), CUDA_SUCCESS);  // over both
  EXPECT_EQ(host<unsigned char>(at + page - 1, 2), (std::vector<unsigned char>{1, 1}));
  EXPECT_EQ(fake::MemMap(at, page, 0, handles[0], 0), CUDA_ERROR_INVALID_VALUE);  // it's taken
  ASSERT_EQ(fake::MemUnmap(at, page), CUDA_SUCCESS);
  EXPECT_EQ(fake::MemsetD8Async(at, 1, 16, stream_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(fake::MemMap(at, page, 0, handles[0], 0), CUDA_SUCCESS);  // what it holds is still there
  ASSERT_EQ(fake::MemSetAccess(at, page, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(host<unsigned char>(at, 1)[0], 1);
  EXPECT_EQ(fake::MemAddressFree(at, 2 * page), CUDA_ERROR_INVALID_VALUE);  // mapped
  ASSERT_EQ(fake::MemUnmap(at, 2 * page), CUDA_SUCCESS);
  EXPECT_EQ(fake::MemAddressFree(at, 2 * page), CUDA_SUCCESS);
  for (const auto handle : handles) EXPECT_EQ(fake::MemRelease(handle), CUDA_SUCCESS);
}

TEST_F(Driver, OutOfMemory) {
  std::size_t free = 0, total = 0;
  ASSERT_EQ(fake::MemGetInfo(&free, &total), CUDA_SUCCESS);
  CUdeviceptr at = 0;
  EXPECT_EQ(fake::MemAlloc(&at, free + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(Driver, EventsOrderStreams) {
  CUstream other = nullptr;
  ASSERT_EQ(fake::StreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  CUevent event = nullptr;
  ASSERT_EQ(fake::EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  const CUdeviceptr at = device(std::vector<std::byte>(std::size_t{1} << 24));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(fake::MemsetD8Async(at, static_cast<unsigned char>(i), std::size_t{1} << 24, stream_), CUDA_SUCCESS);
    ASSERT_EQ(fake::EventRecord(event, stream_), CUDA_SUCCESS);
    ASSERT_EQ(fake::StreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    unsigned char last = 0;
    ASSERT_EQ(fake::MemcpyDtoHAsync(&last, at + (1 << 24) - 1, 1, other), CUDA_SUCCESS);
    EXPECT_EQ(last, i);
  }
  EXPECT_EQ(fake::EventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(fake::EventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(fake::EventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(fake::StreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(Driver, ErrorsHaveNames) {
  const char* name = nullptr;
  ASSERT_EQ(fake::GetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
  EXPECT_EQ(fake::GetErrorString(12345, &name), CUDA_ERROR_INVALID_VALUE);
}

class Captures : public FakeCuda {
 protected:
  void SetUp() override {
    FakeCuda::SetUp();
    ASSERT_EQ(fake::StreamCreateWithPriority(&other_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    for (CUevent& event : events_) ASSERT_EQ(fake::EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    at_ = device(std::vector<int>(64, 0));
    ASSERT_EQ(sync(), CUDA_SUCCESS);
  }
  void TearDown() override {
    for (const CUevent event : events_) (void)fake::EventDestroy(event);
    (void)fake::StreamDestroy(other_);
    FakeCuda::TearDown();
  }
  void begin() { ASSERT_EQ(fake::StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS); }
  CUresult end() { return fake::StreamEndCapture(stream_, &graph_); }
  void fork() {
    ASSERT_EQ(fake::EventRecord(events_[0], stream_), CUDA_SUCCESS);
    ASSERT_EQ(fake::StreamWaitEvent(other_, events_[0], 0), CUDA_SUCCESS);
  }
  void join() {
    ASSERT_EQ(fake::EventRecord(events_[1], other_), CUDA_SUCCESS);
    ASSERT_EQ(fake::StreamWaitEvent(stream_, events_[1], 0), CUDA_SUCCESS);
  }
  CUgraphNode node(CUstream stream) {
    int status = 0;
    const CUgraphNode* nodes = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(fake::StreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &count), CUDA_SUCCESS);
    EXPECT_EQ(status, 1);
    EXPECT_EQ(count, 1U);
    return count == 1 ? nodes[0] : nullptr;
  }
  CUstream other_ = nullptr;
  CUevent events_[2] = {};
  CUdeviceptr at_ = 0;
  CUgraph graph_ = nullptr;
};

TEST_F(Captures, NothingRunsUntilTheLaunchAndNodesCanBeGivenOtherArguments) {
  begin();
  ASSERT_EQ(launch("where_am_i", grid(1, 4), at_), CUDA_SUCCESS);
  const CUgraphNode kernel = node(stream_);
  ASSERT_EQ(fake::MemsetD8Async(at_ + 64, 1, 8, stream_), CUDA_SUCCESS);
  const CUgraphNode memset = node(stream_);
  ASSERT_EQ(end(), CUDA_SUCCESS);
  EXPECT_EQ(host<int>(at_, 64), std::vector<int>(64, 0));
  CUgraphExec exec = nullptr;
  ASSERT_EQ(fake::GraphInstantiate(&exec, graph_, 0), CUDA_SUCCESS);
  ASSERT_EQ(fake::GraphDestroy(graph_), CUDA_SUCCESS);  // the instance is its own
  ASSERT_EQ(fake::GraphLaunch(exec, stream_), CUDA_SUCCESS);
  // What follows changes later launches alone.
  CUdeviceptr argument = at_ + 16;
  void* params[] = {&argument};
  CUDA_KERNEL_NODE_PARAMS launch{};
  launch.func = function("where_am_i");
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1;
  launch.blockDimX = 2;
  launch.kernelParams = params;
  ASSERT_EQ(fake::GraphExecKernelNodeSetParams(exec, kernel, &launch), CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS set{at_ + 64, 0, 2, 1, 4, 1};
  ASSERT_EQ(fake::GraphExecMemsetNodeSetParams(exec, memset, &set, context_), CUDA_SUCCESS);
  EXPECT_EQ(fake::GraphExecMemsetNodeSetParams(exec, kernel, &set, context_), CUDA_ERROR_INVALID_VALUE);
  std::vector<int> expected(64, 0);
  for (std::size_t i = 0; i < 4; ++i) expected[i] = 1;
  expected[16] = expected[17] = 0x01010101;
  EXPECT_EQ(host<int>(at_, 64), expected);
  ASSERT_EQ(fake::GraphLaunch(exec, stream_), CUDA_SUCCESS);
  expected[4] = expected[5] = 1;
  expected[16] = 0x02020202;
  EXPECT_EQ(host<int>(at_, 64), expected);
  EXPECT_EQ(fake::GraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(Captures, AnotherStreamJoins) {
  begin();
  ASSERT_EQ(fake::MemsetD8Async(at_, 1, 4, stream_), CUDA_SUCCESS);
  fork();
  ASSERT_EQ(fake::MemcpyDtoDAsync(at_ + 4, at_, 4, other_), CUDA_SUCCESS);
  join();
  ASSERT_EQ(fake::MemcpyDtoDAsync(at_ + 8, at_ + 4, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(end(), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(fake::GraphInstantiate(&exec, graph_, 0), CUDA_SUCCESS);
  ASSERT_EQ(fake::GraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(host<int>(at_, 4), (std::vector<int>{0x01010101, 0x01010101, 0x01010101, 0}));
  EXPECT_EQ(fake::StreamSynchronize(other_), CUDA_SUCCESS);  // it left the capture
}

TEST_F(Captures, WorkThatNobodyJoined) {
  begin();
  fork();
  ASSERT_EQ(fake::MemsetD8Async(at_, 1, 4, other_), CUDA_SUCCESS);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_F(Captures, WhatACaptureForbidsInvalidatesIt) {
  begin();
  EXPECT_EQ(sync(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(fake::MemsetD8Async(at_, 1, 4, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  begin();
  ASSERT_EQ(fake::EventRecord(events_[0], stream_), CUDA_SUCCESS);
  EXPECT_EQ(fake::EventQuery(events_[0]), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  ASSERT_EQ(fake::EventRecord(events_[1], other_), CUDA_SUCCESS);
  begin();
  EXPECT_EQ(fake::StreamWaitEvent(stream_, events_[1], 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  begin();
  fork();
  EXPECT_EQ(fake::StreamEndCapture(other_, &graph_), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  ASSERT_EQ(fake::StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  CUdeviceptr more = 0;
  EXPECT_EQ(fake::MemAlloc(&more, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace
}  // namespace tern::cuda::fake_test
