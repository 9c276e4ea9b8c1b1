// tern devices: what is there, and why the rest is not.
#include <gtest/gtest.h>

#include "run.h"

namespace tern::e2e {
namespace {

TEST(Devices, APluginThatCannotBeLoadedIsAbsentWithTheReason) {
  const Scratch scratch;
  const auto file = scratch.write("libtern_broken.so", "no library");
  Options options;
  options.variables["TERN_BACKEND_PATH"] = scratch.path().string();
  const auto outcome = run({"devices"}, options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("libtern_broken  " + file + "\n  absent: "), std::string::npos) << outcome.out;
  const auto json = run({"devices", "--json"}, options);
  EXPECT_NE(json.out.find("\"file\": \"" + file + "\", \"absent_reason\": \""), std::string::npos) << json.out;
}

TEST(Devices, ANamedDeviceThatIsAbsentEndsWithFour) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"devices", "--device", "nosuch"}, {"devices", "--backend", "/nonexistent.so"}}) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.status, 4);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.rfind("tern: error: ", 0), 0U) << outcome.err;
    EXPECT_EQ(outcome.err, outcome.last_error_line() + "\n") << "more than one line";
  }
}

TEST(Devices, TheVariableNamesADeviceAndTwoMustAgree) {
  Options options;
  options.variables["TERN_ACCELERATOR"] = "nosuch";
  EXPECT_EQ(run({"devices"}, options).status, 4);
  options.variables["DS_ACCELERATOR"] = "other";
  const auto outcome = run({"devices"}, options);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("TERN_ACCELERATOR and DS_ACCELERATOR"), std::string::npos) << outcome.err;
}

TEST(Devices, AFlagWithoutEffectHereSaysSo) {
  const auto outcome = run({"devices", "--threads", "2"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "tern: error: --threads has no effect in tern devices: nothing is computed; remove it.\n");
}

}  // namespace
}  // namespace tern::e2e
