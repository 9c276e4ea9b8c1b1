// Devices, settings and messages of the fake's runtime.
#include <thread>

#include "tests/fakes/cann/acl/settings.h"
#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

TEST(FakeCannDevice, VisibleDevicesAreReadToTheFirstBadEntry) {
  EXPECT_EQ(fake::visible_devices(nullptr, 3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(fake::visible_devices("0,2", 4), (std::vector<int>{0, 2}));
  EXPECT_EQ(fake::visible_devices("1,0", 4), (std::vector<int>{1}));    // not ascending
  EXPECT_EQ(fake::visible_devices("0,0,1", 4), (std::vector<int>{0}));  // twice
  EXPECT_EQ(fake::visible_devices("2,9,3", 4), (std::vector<int>{2}));  // none of that number
  EXPECT_EQ(fake::visible_devices("1,x,2", 4), (std::vector<int>{1}));
  EXPECT_EQ(fake::visible_devices("", 4), (std::vector<int>{}));
}

TEST(FakeCannDevice, VisibleDevicesAreNumberedAnew) {
  const Fake fake({{"TERN_FAKE_CANN_DEVICES", "4"}, {"ASCEND_RT_VISIBLE_DEVICES", "1,3"}});
  std::uint32_t count = 0;
  EXPECT_EQ(aclrtGetDeviceCount(&count), 0);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(aclrtSetDevice(1), 0);
  EXPECT_EQ(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_NE(message().find("valid device range is [0, 2)"), std::string::npos);
}

TEST(FakeCannDevice, WithoutDevicesNothingIsSet) {
  const Fake fake({{"ASCEND_RT_VISIBLE_DEVICES", "7"}}, false);
  std::uint32_t count = 1;
  EXPECT_EQ(aclInit(nullptr), 0);
  EXPECT_EQ(aclrtGetDeviceCount(&count), ACL_ERROR_RT_NO_DEVICE);
  EXPECT_EQ(aclrtSetDevice(0), ACL_ERROR_RT_NO_DEVICE);
  EXPECT_EQ(aclrtGetSocName(), nullptr);
}

TEST(FakeCannDevice, BeginsAndEndsOnce) {
  const Fake fake({}, false);
  EXPECT_EQ(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
  EXPECT_EQ(aclInit(nullptr), 0);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
  EXPECT_EQ(aclFinalize(), 0);
  EXPECT_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

TEST(FakeCannDevice, IsSetInEachThread) {
  const Fake fake;
  std::int32_t device = -1;
  EXPECT_EQ(aclrtGetDevice(&device), 0);
  EXPECT_EQ(device, 0);
  std::thread([] {
    void* memory = nullptr;
    aclrtStream stream = nullptr;
    std::int32_t none = 0;
    EXPECT_EQ(aclrtGetDevice(&none), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
  }).join();
}

TEST(FakeCannDevice, KnowsEachChip) {
  const std::pair<const char*, const char*> chips[] = {
      {"910A", "Ascend910A"},       {"910B", "Ascend910B"},
      {"910B4-1", "Ascend910B4-1"}, {"Ascend910_9391", "Ascend910_9391"},
      {"310P3", "Ascend310P3"},     {"950PR_9589", "Ascend950PR_9589"}};
  for (const auto& [setting, name] : chips) {
    const Fake fake({{"TERN_FAKE_CANN_CHIP", setting}});
    EXPECT_STREQ(aclrtGetSocName(), name);
  }
  EXPECT_EQ(fake::find_chip("910B1")->family, fake::Family::kA2);
  EXPECT_EQ(fake::find_chip("Ascend910B")->family, fake::Family::k910);  // the bare name is the old chip
  EXPECT_EQ(fake::find_chip("920"), nullptr);
}

TEST(FakeCannDevice, OptionsAreOfTheProcessOrTheContext) {
  const Fake fake;
  std::int64_t value = -1;
  EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
  EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
  EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
  EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3), 0);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtSetSysParamOpt(static_cast<aclSysParamOpt>(9), 1), ACL_ERROR_RT_PARAM_INVALID);
}

TEST(FakeCannDevice, OldRuntimesKnowTwoValuesOfDeterminism) {
  const Fake fake({{"TERN_FAKE_CANN_VERSION", "8.1"}});
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
  EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3), ACL_ERROR_RT_PARAM_INVALID);
}

TEST(FakeCannDevice, ChipsReachEachOthersMemoryButFor310P) {
  for (const char* chip : {"910B1", "310P3"}) {
    const Fake fake({{"TERN_FAKE_CANN_DEVICES", "2"}, {"TERN_FAKE_CANN_CHIP", chip}});
    const bool can = std::string(chip) == "910B1";
    std::int32_t reach = -1;
    EXPECT_EQ(aclrtDeviceCanAccessPeer(&reach, 0, 1), 0);
    EXPECT_EQ(reach, can ? 1 : 0);
    EXPECT_EQ(aclrtDeviceCanAccessPeer(&reach, 0, 0), 0);
    EXPECT_EQ(reach, 0);
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 0), can ? 0 : ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 1), ACL_ERROR_RT_PARAM_INVALID);
  }
}

TEST(FakeCannMessages, AreOfOneThreadAndSaidOnce) {
  const Fake fake;
  (void)aclrtSetDevice(5);
  std::thread([] { EXPECT_EQ(aclGetRecentErrMsg(), nullptr); }).join();
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST(FakeCannMessages, HaveTheFormOfTheirVersion) {
  {
    const Fake fake;
    (void)aclDestroyAclOpExecutor(nullptr);
    EXPECT_TRUE(message().starts_with("EZ9999[PID: "));
    (void)aclDestroyAclOpExecutor(nullptr);
    EXPECT_NE(message().find(" AclNN_Inner_Error(EZ9999):  "), std::string::npos);
  }
  const Fake fake({{"TERN_FAKE_CANN_VERSION", "8.1"}});
  (void)aclDestroyAclOpExecutor(nullptr);
  const std::string text = message();
  EXPECT_TRUE(text.starts_with("EZ9999: Inner Error!\nEZ9999: [PID: ")) << text;
  EXPECT_NE(text.find("\n        TraceBack (most recent call last):\n       "), std::string::npos);
}

TEST(FakeCannFaults, AreParsed) {
  const std::vector<fake::Fault> faults = fake::parse_faults("oom@3,launch@2,kernel@4=507018,hang@1,aclInit=507008");
  ASSERT_EQ(faults.size(), 5U);
  EXPECT_EQ(faults[0].function, "aclrtMalloc");
  EXPECT_EQ(faults[0].at, 3);
  EXPECT_EQ(faults[0].code, ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_EQ(faults[1].function, "kernel");
  EXPECT_EQ(faults[1].code, ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(faults[2].code, ACL_ERROR_RT_AICPU_EXCEPTION);
  EXPECT_EQ(faults[4].at, 1);
  EXPECT_EQ(faults[4].code, ACL_ERROR_RT_SOC_VERSION);
}

TEST(FakeCannFaults, ComeAtTheCallThatTheyName) {
  const Fake fake({{"TERN_FAKE_CANN_FAULT", "oom@2"}});
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(aclrtMalloc(&first, 16, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtMalloc(&second, 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_EQ(aclrtMalloc(&second, 16, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(ternFakeCannAllocations(), 2U);
  EXPECT_EQ(aclrtFree(first), 0);
  EXPECT_EQ(aclrtFree(second), 0);
}

TEST(FakeCannFaults, StartOnAWrongToolkit) {
  const Fake fake({{"TERN_FAKE_CANN_FAULT", "aclInit=100039,aclInit@2=507008"}}, false);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_COMPILING_STUB_MODE);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_RT_SOC_VERSION);
  EXPECT_EQ(aclInit(nullptr), 0);
}

}  // namespace
}  // namespace fake_test
