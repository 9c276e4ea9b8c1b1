// If these fail, tern doctor passes a launch that will hang or a model that will not fit, or blames one that is in order.
#include "cli/diagnosis.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tern::cli {
namespace {

using Level = accel::Finding::Level;

accel::ProbedBackend backend(int devices, const std::string& hides) {
  accel::ProbedBackend out;
  out.name = "fast";
  out.visible_devices_env = hides;
  out.devices.resize(static_cast<std::size_t>(devices));
  return out;
}

// What is said of so many ranks over so many devices: level and line.
std::vector<Check> checks(const char* ranks, int devices, const std::string& hides = "FAST_VISIBLE") {
  if (ranks != nullptr) setenv("NPROC_PER_NODE", ranks, 1);
  setenv("FAST_VISIBLE", "0,1", 1);
  auto found = launch_checks({backend(devices, hides)});
  unsetenv("NPROC_PER_NODE");
  unsetenv("FAST_VISIBLE");
  return found;
}

TEST(LaunchChecks, RanksAndVisibleDevicesAreCompared) {
  const auto more = checks("4", 2);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].finding.level, Level::error);
  EXPECT_EQ(more[0].finding.line,
            "NPROC_PER_NODE=4, and fast shows 2 devices (FAST_VISIBLE=0,1): 2 ranks would have no device; set "
            "NPROC_PER_NODE to 2 or show more in FAST_VISIBLE");
  const auto fewer = checks("1", 2);
  ASSERT_EQ(fewer.size(), 1U);
  EXPECT_EQ(fewer[0].finding.level, Level::warning);
  const auto equal = checks("2", 2);
  ASSERT_EQ(equal.size(), 1U);
  EXPECT_EQ(equal[0].finding.level, Level::ok);
}

TEST(LaunchChecks, WithoutRanksOrWithTheHostAloneThereIsNothingToSay) {
  EXPECT_TRUE(checks(nullptr, 2).empty());
  EXPECT_TRUE(checks("4", 0).empty());
  EXPECT_TRUE(checks("4", 1, "").empty()) << "ranks share the host";
}

TEST(LaunchChecks, ANumberOfRanksIsANumber) {
  for (const char* ranks : {"two", "0", "-1", "3x"}) {
    const auto found = checks(ranks, 2);
    ASSERT_EQ(found.size(), 1U) << ranks;
    EXPECT_EQ(found[0].finding.level, Level::error) << ranks;
  }
}

TEST(ModelChecks, WeightsThatDoNotFitAreToldFromMemoryThatIsTaken) {
  tern_memory_info memory{};
  memory.total = std::uint64_t{64} << 30;
  memory.free = std::uint64_t{8} << 30;
  const auto level_of = [&](std::uint64_t gibi) { return memory_check("m", gibi << 30, "npu:0", memory).finding; };
  EXPECT_EQ(level_of(8).level, Level::ok);
  EXPECT_EQ(level_of(9).level, Level::error);
  EXPECT_EQ(level_of(9).line,
            "the weights of m take 9.00 GiB as stored, and npu:0 has 8.00 GiB free of 64.0 GiB: other processes hold "
            "the rest; tern devices shows them; end them, or name another device");
  EXPECT_EQ(level_of(65).level, Level::error);
  EXPECT_NE(level_of(65).line.find("it does not fit"), std::string::npos) << level_of(65).line;
}

TEST(BackendChecks, AnAbsentBackendThatCannotBeLoadedIsInOrder) {
  accel::ProbedBackend absent;
  absent.file = "/nonexistent/libtern_x.so";
  absent.absent_reason = "no driver";
  const auto found = backend_checks({absent});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(checks_text(found), "ok       libtern_x: absent: no driver\n");
}

}  // namespace
}  // namespace tern::cli
