// If these fail, tern devices, topo and doctor tell something else than the backend does, or a broken one ends them.
#include "accel/inspection.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tern::accel::test {
namespace {

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

ProbedBackend probe(const std::filesystem::path& file) { return probe_backends({file}, {})[0]; }

const std::filesystem::path kSim = std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_sim.so";

TEST(Inspection, StatesAndLinksAreThoseOfTheBackend) {
  const Environment devices("TERN_SIM_DEVICES", "6");
  const Environment kind("TERN_SIM", "ascend");
  const auto inspection = inspect(probe(kSim), {.status = true, .links = true});
  EXPECT_EQ(inspection.trouble, "");
  ASSERT_EQ(inspection.devices.size(), 6U);
  const auto& fifth = inspection.devices[4];
  EXPECT_TRUE(fifth.monitored);
  EXPECT_EQ(fifth.health, "ok");
  EXPECT_STREQ(fifth.state.place, "board 1 place 0");
  EXPECT_EQ(fifth.state.memory_total, std::uint64_t{4} << 30);
  EXPECT_TRUE(fifth.processes.empty()) << "nobody has opened it";
  EXPECT_EQ(fifth.links, (std::vector<std::string>{"SYS", "SYS", "SYS", "SYS", "", "HCCS"}));
  EXPECT_TRUE(inspection.findings.empty()) << "they were not asked for";
}

TEST(Inspection, ABackendWithoutAMonitorIsOpenedForItsHealth) {
  const auto inspection = inspect(probe(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_cpu.so"), {.status = true});
  ASSERT_EQ(inspection.devices.size(), 1U);
  EXPECT_FALSE(inspection.devices[0].monitored);
  EXPECT_EQ(inspection.devices[0].health, "ok");
  EXPECT_EQ(inspection.devices[0].reason, "");
}

TEST(Inspection, WhatADriverSaidBeforeItCrashedOrHungIsKept) {
  struct Case {
    const char* fault;
    const char* trouble;
  };
  for (const auto& each : {Case{"crashes", "its driver crashed the probing process (Aborted)"},
                           Case{"hangs", "its driver did not answer within 1 s"}}) {
    const Environment plugin("TERN_TEST_PLUGIN", std::string(each.fault) + "=" + kSim.string());
    const auto inspection =
        inspect(probe(TERN_FAULTY_PLUGIN), {.findings = true, .deadline = std::chrono::milliseconds(1000)});
    EXPECT_EQ(inspection.trouble, each.trouble);
    ASSERT_EQ(inspection.findings.size(), 1U) << each.fault;
    EXPECT_EQ(inspection.findings[0].line, "a driver that is too old");
    EXPECT_EQ(inspection.findings[0].level, Finding::Level::error);
  }
}

}  // namespace
}  // namespace tern::accel::test
