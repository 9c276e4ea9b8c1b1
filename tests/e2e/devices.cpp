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

TEST(Devices, EachBackendListsItsOptionsAndWhatItDescribes) {
  const auto outcome = run({"devices", "--device", "sim"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\n  --device_options memory_limit: bytes that "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\n  describes discrete, ascend, graph, embedded\n"), std::string::npos) << outcome.out;
  const auto json = run({"devices", "--device", "sim", "--json"});
  EXPECT_NE(json.out.find("\"profiles\": [\"discrete\", \"ascend\", \"graph\", \"embedded\"]"), std::string::npos)
      << json.out;
}

TEST(Devices, AnOptionReachesTheDeviceOrIsRefusedByItsName) {
  const std::vector<std::string> test = {"selftest", "--device", "sim", "--op", "axpby", "--device_options"};
  const auto with = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = test;
    all.insert(all.end(), words.begin(), words.end());
    Options options;
    const Scratch scratch;
    options.folder = scratch.path();
    return run(all, options);
  };
  const auto unknown = with({"colour=red"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("device option \"colour\": expected one of faults, graph_nodes, memory_limit, seed"),
            std::string::npos)
      << unknown.err;
  const auto shapeless = with({"memory_limit"});
  EXPECT_EQ(shapeless.status, 2);
  EXPECT_EQ(shapeless.err,
            "tern: error: --device_options memory_limit is not KEY=VALUE; write it like "
            "memory_limit=4000000000; tern devices lists the keys.\n");
  // A list within a value, and a second option behind it.
  EXPECT_NE(with({"faults=oom@3,oom@5,seed=4"}).out.find("allocation 3 fails"), std::string::npos);
}

// Once, after whatever the command was; a backend that isn't told keeps what it holds.
TEST(Devices, ABackendIsFinalizedWhenTheProgramEnds) {
  const Scratch scratch;
  Options options;
  options.folder = scratch.path();
  options.variables["TERN_TEST_PLUGIN"] = std::string("ends=") + TERN_PLUGIN_DIR + "/libtern_cpu.so";
  for (const auto& [word, status] : {std::pair{"axpby", 0}, std::pair{"no_such_op", 2}}) {
    const auto outcome = run({"selftest", "--backend", TERN_FAULTY_PLUGIN, "--op", word}, options);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    const auto first = outcome.err.find("the plugin was finalized");
    EXPECT_EQ(first != std::string::npos, status == 0) << outcome.err;  // where it was loaded
    if (status != 0) continue;
    EXPECT_EQ(outcome.err.find("the plugin was finalized", first + 1), std::string::npos) << "twice";
  }
}

}  // namespace
}  // namespace tern::e2e
