// The memory of the fake's devices, and copies.
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

TEST(FakeCannMemory, IsNoneOfTheHosts) {
  const Fake fake;
  const Array<float> x(std::vector<float>{1});
  EXPECT_DEATH(*static_cast<volatile float*>(x.data()) = 2, "");
  EXPECT_EQ(x.values()[0], 1);
}

TEST(FakeCannMemory, BeginsAsNothingThatOneCouldUse) {
  const Fake fake;
  for (const float value : Array<float>(1000).values()) ASSERT_TRUE(std::isnan(value));
}

TEST(FakeCannMemory, RunsOut) {
  const Fake fake({{"TERN_FAKE_CANN_HBM", "4194304"}});
  std::size_t free = 0, total = 0;
  EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0);
  EXPECT_EQ(free, 4194304U);
  EXPECT_EQ(total, 4194304U);
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(aclrtMalloc(&first, 3 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0);
  EXPECT_LE(free, std::size_t{1} << 20);
  EXPECT_EQ(aclrtMalloc(&second, 3 << 20, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_NE(message().find("Failed to allocate memory"), std::string::npos);
  EXPECT_EQ(aclrtFree(first), 0);
  EXPECT_EQ(aclrtMalloc(&second, 3 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtFree(second), 0);
}

TEST(FakeCannMemory, MayBeAnotherProcesss) {
  const Fake fake({{"TERN_FAKE_CANN_HBM", "8388608"}, {"TERN_FAKE_CANN_HBM_TAKEN", "6291456"}});
  std::size_t free = 0, total = 0;
  EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0);
  EXPECT_EQ(free, 2097152U);
  EXPECT_EQ(total, 8388608U);
}

TEST(FakeCannMemory, IsOfTheKindThatTheChipHas) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "310P3"}});
  std::size_t free = 1, total = 1;
  EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0);
  EXPECT_EQ(total, 0U);
  EXPECT_EQ(aclrtGetMemInfo(ACL_DDR_MEM, &free, &total), 0);
  EXPECT_GT(total, 0U);
}

TEST(FakeCannMemory, ArgumentsAreChecked) {
  const Fake fake;
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtMalloc(&memory, 1, static_cast<aclrtMemMallocPolicy>(77)), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
  int of_the_host = 0;
  EXPECT_EQ(aclrtFree(&of_the_host), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtFree(static_cast<char*>(memory) + 32), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtFree(memory), 0);
  EXPECT_EQ(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtFreeHost(&of_the_host), ACL_ERROR_RT_PARAM_INVALID);
}

TEST(FakeCannCopy, TheKindTellsWhereTheAddressesAre) {
  const Fake fake;
  const Array<float> x(4), y(4);
  std::vector<float> host(4);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, host.data(), 16, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, host.data(), 16, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, y.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, y.data(), 16, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, y.data(), 16, static_cast<aclrtMemcpyKind>(9)), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, y.data(), 16, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, host.data(), 16, ACL_MEMCPY_DEFAULT), 0);
}

TEST(FakeCannCopy, TheCountMustFit) {
  const Fake fake;
  const Array<float> x(4);
  std::vector<float> host(64);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, host.data(), 17, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemcpy(x.data(), 16, host.data(), 0, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemcpy(nullptr, 16, host.data(), 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
  // More than was allocated, whatever destMax says.
  EXPECT_EQ(aclrtMemcpy(x.data(), 256, host.data(), 256, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtMemset(x.data(), 8, 0, 16), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemset(host.data(), 16, 0, 16), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
}

TEST(FakeCannCopy, BetweenDevicesOneMustBeLetIn) {
  const Fake fake({{"TERN_FAKE_CANN_DEVICES", "2"}});
  const Array<float> x(std::vector<float>{5});
  ASSERT_EQ(aclrtSetDevice(1), 0);
  const Array<float> y(1);
  EXPECT_EQ(aclrtMemcpy(y.data(), 4, x.data(), 4, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtDeviceEnablePeerAccess(0, 0), 0);
  EXPECT_EQ(aclrtMemcpy(y.data(), 4, x.data(), 4, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
  EXPECT_EQ(y.values()[0], 5);
}

// A stream that does nothing until `open` is called.
class HeldStream {
 public:
  HeldStream() {
    EXPECT_EQ(aclrtCreateEvent(&gate_), 0);
    EXPECT_EQ(aclrtStreamWaitEvent(stream, gate_), 0);
  }
  ~HeldStream() {
    (void)aclrtSynchronizeStream(stream);
    (void)aclrtDestroyEvent(gate_);
  }
  void open() {
    EXPECT_EQ(aclrtRecordEvent(gate_, other_), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
  }
  StreamHandle stream;

 private:
  StreamHandle other_;
  aclrtEvent gate_ = nullptr;
};

TEST(FakeCannCopy, SynchronousOnesAreInNoStreamsOrder) {
  const Fake fake;
  const Array<float> x(std::vector<float>{1}), y(std::vector<float>{2});
  HeldStream held;
  ASSERT_EQ(aclrtMemcpyAsync(y.data(), 4, x.data(), 4, ACL_MEMCPY_DEVICE_TO_DEVICE, held.stream), 0);
  EXPECT_EQ(y.values()[0], 2);
  held.open();
  EXPECT_EQ(y.values()[0], 1);
}

TEST(FakeCannCopy, PinnedMemoryIsReadWhenTheStreamComesToIt) {
  const Fake fake;
  const Array<float> x(1), y(1);
  void* pinned = nullptr;
  ASSERT_EQ(aclrtMallocHost(&pinned, 4), 0);
  *static_cast<float*>(pinned) = 1;
  float pageable = 1;
  HeldStream held;
  ASSERT_EQ(aclrtMemcpyAsync(x.data(), 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, held.stream), 0);
  ASSERT_EQ(aclrtMemcpyAsync(y.data(), 4, &pageable, 4, ACL_MEMCPY_HOST_TO_DEVICE, held.stream), 0);
  *static_cast<float*>(pinned) = 2;
  pageable = 2;
  held.open();
  EXPECT_EQ(x.values()[0], 2);
  EXPECT_EQ(y.values()[0], 1);
  EXPECT_EQ(aclrtFreeHost(pinned), 0);
}

TEST(FakeCannCopy, PinnedMemoryStaysUntilItIsDone) {
  const Fake fake;
  const Array<float> x(1);
  void* pinned = nullptr;
  ASSERT_EQ(aclrtMallocHost(&pinned, 4), 0);
  const StreamHandle stream, other;
  aclrtEvent gate = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&gate), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(stream, gate), 0);
  ASSERT_EQ(aclrtMemcpyAsync(x.data(), 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream), 0);
  ASSERT_EQ(aclrtFreeHost(pinned), 0);
  ASSERT_EQ(aclrtRecordEvent(gate, other), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
  EXPECT_EQ(aclrtDestroyEvent(gate), 0);
}

TEST(FakeCannCopy, WithinTheHostItIsNotAsynchronous) {
  const Fake fake;
  const StreamHandle stream;
  float from = 1, to = 0;
  EXPECT_EQ(aclrtMemcpyAsync(&to, 4, &from, 4, ACL_MEMCPY_HOST_TO_HOST, stream), ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  EXPECT_EQ(aclrtMemcpy(&to, 4, &from, 4, ACL_MEMCPY_HOST_TO_HOST), 0);
  EXPECT_EQ(to, 1);
}

TEST(FakeCannPages, AreMappedAndTakenAway) {
  const Fake fake({{"TERN_FAKE_CANN_HBM", "8388608"}});
  constexpr std::size_t size = std::size_t{2} << 20;
  aclrtPhysicalMemProp prop{};
  prop.memAttr = ACL_HBM_MEM_HUGE;
  prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  std::size_t granularity = 0;
  EXPECT_EQ(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granularity), 0);
  EXPECT_EQ(granularity, size);
  void* address = nullptr;
  aclrtDrvMemHandle memory = nullptr;
  ASSERT_EQ(aclrtReserveMemAddress(&address, size, 0, nullptr, 1), 0);
  EXPECT_EQ(aclrtMallocPhysical(&memory, size / 2, &prop, 0), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtMallocPhysical(&memory, size, &prop, 0), 0);
  float value = 3, read = 0;
  EXPECT_EQ(aclrtMemcpy(address, 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtMapMem(address, size / 2, 0, memory, 0), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_EQ(aclrtMapMem(address, size, 0, memory, 0), 0);
  EXPECT_EQ(aclrtMapMem(address, size, 0, memory, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtMemcpy(address, 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  EXPECT_EQ(aclrtMemcpy(&read, 4, address, 4, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  EXPECT_EQ(read, 3);
  EXPECT_EQ(aclrtFreePhysical(memory), ACL_ERROR_RT_PARAM_INVALID);        // still mapped
  EXPECT_EQ(aclrtReleaseMemAddress(address), ACL_ERROR_RT_PARAM_INVALID);  // the same
  EXPECT_EQ(aclrtUnmapMem(address), 0);
  EXPECT_EQ(aclrtUnmapMem(address), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtFreePhysical(memory), 0);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0);
  EXPECT_EQ(free, total);
  EXPECT_EQ(aclrtMemcpy(&read, 4, address, 4, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtReleaseMemAddress(address), 0);
}

TEST(FakeCannPages, OfTheHostAreLentToNewerChips) {
  alignas(4096) static float page[1024];
  for (const char* chip : {"910B1", "310P3"}) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", chip}});
    const bool can = std::string(chip) == "910B1";
    void* seen = nullptr;
    EXPECT_EQ(aclrtHostRegister(page, 4096, ACL_HOST_REGISTER_MAPPED, &seen),
              can ? 0 : ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (!can) continue;
    EXPECT_NE(seen, static_cast<void*>(page));
    EXPECT_EQ(aclrtHostRegister(page + 1, 4096, ACL_HOST_REGISTER_MAPPED, &seen), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_EQ(aclrtHostUnregister(page), 0);
    EXPECT_EQ(aclrtHostUnregister(page), ACL_ERROR_RT_PARAM_INVALID);
  }
}

}  // namespace
}  // namespace fake_test
