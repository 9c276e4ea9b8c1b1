// If these fail, a user's explicit device is not what the run takes, or the reason why is lost.
#include "accel/registry.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::accel::test {
namespace {

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST(Registry, AMalformedNameIsAUsageError) {
  for (const char* name : {"cpu:x", "cpu:-1", ":0", "cpu:1:2"}) {
    const auto selected = select_device({name, {}}, {});
    ASSERT_FALSE(selected.ok()) << name;
    EXPECT_EQ(selected.error().kind, ErrorKind::usage) << name;
    EXPECT_EQ(selected.error().line(),
              cat("--device \"", name,
                  "\" is not the name of a device; write BACKEND or BACKEND:ORDINAL, such as cpu or npu:0."));
  }
}

TEST(Registry, AnAbsentBackendIsADeviceErrorThatNamesTheFlag) {
  const auto selected = select_device({"warp9:0", {}}, {});
  ASSERT_FALSE(selected.ok());
  EXPECT_EQ(selected.error().kind, ErrorKind::device);
  EXPECT_EQ(selected.error().problem.rfind("--device warp9 names a backend that is not installed (there are ", 0), 0U)
      << selected.error().problem;
}

// Each installed plugin is shadowed by a file of its name that is none.
TEST(Registry, WithoutAnyDeviceEachReasonIsTold) {
  const ::tern::test::TempDir scratch;
  const std::filesystem::path& folder = scratch.path();
  for (const auto& file : find_backend_files()) std::ofstream(folder / file.filename()) << "no library";
  std::ofstream(folder / "libtern_broken.so") << "no library";
  {
    const Environment path("TERN_BACKEND_PATH", folder.c_str());
    const auto selected = select_device({}, {});
    ASSERT_FALSE(selected.ok());
    EXPECT_EQ(selected.error().kind, ErrorKind::device);
    const std::string line = selected.error().line();
    EXPECT_EQ(line.rfind("there is no device to run on: ", 0), 0U) << line;
    EXPECT_NE(line.find(cat("broken: cannot load backend ", (folder / "libtern_broken.so").string(), ": ")),
              std::string::npos)
        << line;
    EXPECT_TRUE(line.ends_with("; run `tern devices` to see each backend and what it lacks.")) << line;
  }
}

TEST(Registry, TheAliasMustAgree) {
  const Environment a("TERN_ACCELERATOR", "cpu");
  const Environment b("DS_ACCELERATOR", "npu");
  const auto selected = select_device({}, {});
  ASSERT_FALSE(selected.ok());
  EXPECT_EQ(selected.error().kind, ErrorKind::usage);
  EXPECT_NE(selected.error().problem.find("cpu and npu"), std::string::npos);
}

TEST(Registry, AFileThatIsNoPluginKeepsItsReason) {
  const auto probed = probe_backends({"/proc/self/cmdline"}, {});
  ASSERT_EQ(probed.size(), 1U);
  EXPECT_TRUE(probed[0].devices.empty());
  EXPECT_EQ(probed[0].absent_reason.rfind("cannot load backend /proc/self/cmdline: ", 0), 0U)
      << probed[0].absent_reason;
  EXPECT_EQ(probed[0].absent_reason.find(';'), std::string::npos) << "it is part of other sentences";
}

}  // namespace
}  // namespace tern::accel::test
