// If these fail, a plugin that lacks what it promises is found out by a crash in the middle of a run.
#include <gtest/gtest.h>

#include <cstring>

#include "fake_backend.h"

namespace tern::accel::test {
namespace {

TEST(Required, AnOpenDeviceHasEveryFunctionThatItsFlagsPromise) {
  EXPECT_TRUE(Device::open(Backend::wrap(&fake_table()), 0).ok());
  tern_backend table = fake_table();
  table.launch = nullptr;
  auto opened = Device::open(Backend::wrap(&table), 0);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::device);
  EXPECT_EQ(opened.error().problem, "device fake:0 lacks functions that its capabilities promise: launch");

  table = fake_table();
  table.device_info = [](std::int32_t, tern_device_info* info) -> tern_status {
    info->capabilities = TERN_CAP_EAGER | TERN_CAP_CAPTURE;
    return TERN_OK;
  };
  opened = Device::open(Backend::wrap(&table), 0);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().problem.find("capture_update"), std::string::npos) << opened.error().problem;
}

TEST(Required, WhoListsProfilesDescribesThem) {
  static constexpr const char* kProfiles[] = {"big", nullptr};
  tern_backend table = fake_table();
  table.profiles = kProfiles;
  EXPECT_EQ(Backend::wrap(&table)->missing_functions(0), "device_describe");
  const auto described = Device::describe(Backend::wrap(&table), "big");
  ASSERT_FALSE(described.ok());
  EXPECT_EQ(described.error().line(), "backend fake describes no devices; plan on a machine that has the device.");
}

TEST(Required, OptionsThatABackendRefusesAreAnErrorOfUse) {
  tern_backend table = fake_table();
  table.device_open = [](const tern_open_args* args, tern_device*) -> tern_status {
    fake_state().error = std::string("no ") + args->options[0].key + "=" + args->options[0].value;
    return TERN_INVALID_ARGUMENT;
  };
  const auto opened = Device::open(Backend::wrap(&table), 0, {{"colour", "red"}});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::usage);
  EXPECT_EQ(
      opened.error().line(),
      "device fake:0 cannot be opened with these options: no colour=red; `tern devices` lists those that there are.");
}

TEST(Required, AMemberBeyondTheTablesSizeIsAbsent) {
  tern_backend table = fake_table();
  table.size = offsetof(tern_backend, supports);
  EXPECT_EQ(Backend::wrap(&table)->missing_functions(0), "supports");
}

TEST(Required, ADeviceRunsOpsOrGraphs) {
  tern_backend table = fake_table();
  table.device_info = [](std::int32_t, tern_device_info* info) -> tern_status {
    info->capabilities = 0;
    return TERN_OK;
  };
  EXPECT_FALSE(Device::open(Backend::wrap(&table), 0).ok());
}

TEST(Required, TextsEndWhereTheirArraysDo) {
  tern_device_info info{};
  std::memset(info.name, 'x', sizeof(info.name));
  std::memset(info.link, 'y', sizeof(info.link));
  terminate_texts(info);
  EXPECT_EQ(std::strlen(info.name), sizeof(info.name) - 1);
  EXPECT_EQ(std::strlen(info.link), sizeof(info.link) - 1);
}

}  // namespace
}  // namespace tern::accel::test
