// The questions that newcomers to Ascend ask, on machines of the fake's: each fault is made, and doctor names it with
// the mend; on a machine that is in order it finds nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "ascend_machine.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

bool is_error(const std::string& line) { return line.rfind("error ", 0) == 0; }
bool is_warning(const std::string& line) { return line.rfind("warning ", 0) == 0; }
bool is_well(const std::string& line) { return line.rfind("ok ", 0) == 0; }

TEST(AscendDoctor, FindsNothingOnAMachineInOrder) {
  const Machine machine;
  const auto outcome = machine.doctor();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_FALSE(has(outcome.out, "error ")) << outcome.out;
  EXPECT_FALSE(has(outcome.out, "warning ")) << outcome.out;
  for (const char* line :
       {"device nodes: 2 cards", "driver: 24.1.rc3", "toolkit: ", "(8.1.RC1, named by", "stub libraries: none",
        "Ascend910B1, and its kernels are installed", "visible devices: all 2", "shows 2 devices, Ascend910B1",
        "health: no alarm", "memory: npu:0 4.0 GiB free of 4.0 GiB", "fp16, bf16 and int8", "HCCL settings: in order",
        "HCCL ports: 60000 to 60031 are free"}) {
    EXPECT_TRUE(has(outcome.out, line)) << line << "\n" << outcome.out;
  }
}

TEST(AscendDoctor, AMachineWithoutACardIsInOrder) {
  Machine machine;
  for (const char* gone : {"dev", "sys", "usr"}) machine.remove(gone);
  const auto outcome = machine.doctor();
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(is_well(machine.says("hardware"))) << outcome.out;
}

TEST(AscendDoctor, NodesThatAreNotMountedComeWithTheLineThatMountsThem) {
  Machine machine;
  for (const char* node : {"dev/davinci0", "dev/davinci1", "dev/devmm_svm"}) machine.remove(node);
  const auto on_host = machine.says("device nodes");
  EXPECT_TRUE(is_error(on_host)) << on_host;
  EXPECT_TRUE(has(on_host, "missing /dev/davinci0, /dev/devmm_svm; install the driver and firmware")) << on_host;
  machine.write(".dockerenv", "");
  const auto inside = machine.says("device nodes");
  EXPECT_TRUE(is_error(inside));
  EXPECT_TRUE(has(inside,
                  "docker run --device=/dev/davinci0 --device=/dev/davinci1 --device=/dev/davinci_manager "
                  "--device=/dev/devmm_svm --device=/dev/hisi_hdc -v "
                  "/usr/local/Ascend/driver:/usr/local/Ascend/driver:ro"))
      << inside;
}

constexpr uid_t kNobody = 65534;

// Runs what follows as nobody where the tests run as root, who may open everything.
class AsNobody {
 public:
  AsNobody() { EXPECT_EQ(was_root_ ? setresuid(kNobody, kNobody, 0) : 0, 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() { EXPECT_EQ(was_root_ ? setresuid(0, 0, 0) : 0, 0); }

 private:
  const bool was_root_ = geteuid() == 0;
};

TEST(AscendDoctor, NodesThatTheUserMayNotOpenNameTheGroup) {
  Machine machine;
  machine.options.variables["TERN_HOME"] = "/nonexistent";
  chmod(machine.root().c_str(), 0755);
  for (const char* node : {"davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"}) {
    chmod((machine.root() + "/dev/" + node).c_str(), 0666);
  }
  {
    const AsNobody nobody;
    if (access(TERN_PROGRAM, X_OK) != 0) GTEST_SKIP() << "nobody may not run " << TERN_PROGRAM;
    EXPECT_TRUE(is_well(machine.says("device nodes"))) << machine.says("device nodes");
  }
  chmod((machine.root() + "/dev/davinci1").c_str(), 0600);
  const AsNobody nobody;
  if (geteuid() != kNobody) chmod((machine.root() + "/dev/davinci1").c_str(), 0);  // it's the user's own
  const auto line = machine.says("device nodes");
  EXPECT_TRUE(is_error(line) && has(line, "may not open /dev/davinci1; ") && has(line, "HwHiAiUser")) << line;
}

TEST(AscendDoctor, ADriverThatIsNotMountedIsMissed) {
  Machine machine;
  machine.remove("usr/local/Ascend/driver");
  machine.write("run/.containerenv", "");
  const auto line = machine.says("driver");
  EXPECT_TRUE(is_error(line)) << line;
  EXPECT_TRUE(has(line, "libascend_hal.so isn't below /usr/local/Ascend/driver; start the container with: docker run"))
      << line;
}

TEST(AscendDoctor, SetEnvThatWasNotSourcedIsNamed) {
  Machine machine;
  machine.options.variables.erase("ASCEND_HOME_PATH");
  machine.options.variables.erase("ASCEND_OPP_PATH");
  const auto line = machine.says("toolkit");
  EXPECT_TRUE(is_error(line)) << line;
  EXPECT_TRUE(has(line, "ASCEND_HOME_PATH and ASCEND_OPP_PATH aren't set, so its operators aren't found; run: source "))
      << line;
  EXPECT_TRUE(has(line, "/ascend-toolkit/latest/set_env.sh") || has(line, "/ascend-toolkit/set_env.sh")) << line;
  machine.options.variables["ASCEND_OPP_PATH"] = "/nonexistent/opp";
  machine.options.variables["ASCEND_HOME_PATH"] = machine.root() + "/" + kToolkit;
  EXPECT_TRUE(has(machine.says("toolkit"), "ASCEND_OPP_PATH=/nonexistent/opp isn't there")) << machine.says("toolkit");
}

TEST(AscendDoctor, AToolkitThatIsNotInstalledIsMissed) {
  Machine machine;
  machine.remove("usr/local/Ascend/ascend-toolkit");
  EXPECT_TRUE(is_error(machine.says("toolkit"))) << machine.says("toolkit");
  EXPECT_TRUE(has(machine.says("toolkit"), "install Ascend-cann-toolkit"));
}

TEST(AscendDoctor, AStubLibraryBeforeTheRealOneIsNamed) {
  Machine machine;
  machine.write("sdk/devlib/libascendcl.so", "a stub");
  const auto real = machine.root() + "/" + kToolkit + "/lib64";
  const auto stub = machine.root() + "/sdk/devlib";
  machine.options.variables["LD_LIBRARY_PATH"] = real + ":" + stub;
  EXPECT_TRUE(is_well(machine.says("stub libraries"))) << "behind the real one it's never loaded";
  machine.options.variables["LD_LIBRARY_PATH"] = stub + ":" + real;
  const auto line = machine.says("stub libraries");
  EXPECT_TRUE(is_error(line)) << line;
  EXPECT_TRUE(has(line, stub) && has(line, "100039") && has(line, "take it out of LD_LIBRARY_PATH")) << line;
}

TEST(AscendDoctor, ARuntimeThatSaysItIsAStubIsExplained) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_FAULT"] = "aclInit@1=100039";
  const auto line = machine.says("runtime");
  EXPECT_TRUE(is_error(line) && has(line, "stub") && has(line, "LD_LIBRARY_PATH")) << line;
}

TEST(AscendDoctor, TwoToolkitsAtOnceAreNamed) {
  Machine machine;
  machine.write("opt/cann/lib64/libascendcl.so", "another");
  machine.write("opt/cann/version.cfg", "toolkit_installed_version=[7.8:8.2.RC1]\n");
  machine.options.variables["ASCEND_OPP_PATH"] = machine.root() + "/opt/cann/opp";
  fs::create_directories(machine.root() + "/opt/cann/opp");
  const auto line = machine.says("one toolkit");
  EXPECT_TRUE(is_error(line)) << line;
  EXPECT_TRUE(has(line, "(8.1.RC1, named by ASCEND_HOME_PATH)") && has(line, "(8.2.RC1, named by ASCEND_OPP_PATH)"))
      << line;
}

TEST(AscendDoctor, AToolkitThatIsOnlyInstalledDoesNoHarm) {
  Machine machine;
  machine.write("usr/local/Ascend/cann/lib64/libacl_rt.so", "another");
  const auto line = machine.says("one toolkit");
  EXPECT_TRUE(is_well(line) && has(line, "also installed, and not used: ")) << line;
  // Links to one toolkit are one toolkit.
  fs::create_directory_symlink(machine.root() + "/" + kToolkit, machine.root() + "/usr/local/Ascend/link");
  machine.options.variables["ASCEND_TOOLKIT_HOME"] = machine.root() + "/usr/local/Ascend/link";
  EXPECT_TRUE(is_well(machine.says("one toolkit"))) << machine.says("one toolkit");
}

TEST(AscendDoctor, KernelsOfAnotherChipAreNamed) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_CHIP"] = "310P3";
  const auto line = machine.says("chip and toolkit");
  EXPECT_TRUE(is_error(line)) << line;
  EXPECT_TRUE(has(line, "the chip is Ascend310P3, and the toolkit has kernels for ascend910b; install ") &&
              has(line, "(ascend310p)"))
      << line;
}

TEST(AscendDoctor, AToolkitThatDoesNotFitTheChipIsExplained) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_FAULT"] = "aclInit@1=507008";
  const auto line = machine.says("runtime");
  EXPECT_TRUE(is_error(line) && has(line, "the toolkit doesn't fit the chip") && has(line, "507008")) << line;
}

TEST(AscendDoctor, VisibleDevicesThatCannReadsOtherwiseAreNamed) {
  struct Case {
    const char* list;
    const char* problem;
  };
  for (const auto& each : {Case{"1,0", "\"0\" comes after a larger one"}, Case{"0,0", "\"0\" is named twice"},
                           Case{"0,7", "\"7\" isn't there: the cards are 0 to 1"},
                           Case{"zero", "\"zero\" is no number of a card"}, Case{"", "hides every card"}}) {
    Machine machine;
    machine.options.variables["ASCEND_RT_VISIBLE_DEVICES"] = each.list;
    const auto line = machine.says("visible devices");
    EXPECT_TRUE(is_error(line) && has(line, each.problem)) << each.list << ": " << line;
  }
  Machine machine;
  machine.options.variables["ASCEND_RT_VISIBLE_DEVICES"] = "1";
  EXPECT_TRUE(is_well(machine.says("visible devices"))) << machine.says("visible devices");
}

TEST(AscendDoctor, RanksAreHeldAgainstVisibleDevices) {
  Machine machine;
  machine.options.variables["NPROC_PER_NODE"] = "2";
  EXPECT_TRUE(has(machine.doctor().out, "ok       launch: NPROC_PER_NODE=2, and npu shows 2 devices\n"));
  machine.options.variables["ASCEND_RT_VISIBLE_DEVICES"] = "1";
  const auto outcome = machine.doctor();
  EXPECT_EQ(outcome.status, 4);
  EXPECT_TRUE(
      has(outcome.out,
          "error    launch: NPROC_PER_NODE=2, and npu shows 1 device (ASCEND_RT_VISIBLE_DEVICES=1): 1 ranks would "
          "have no device; set NPROC_PER_NODE to 1 or show more in ASCEND_RT_VISIBLE_DEVICES\n"))
      << outcome.out;
}

TEST(AscendDoctor, AlarmsOfTheDriverAreTold) {
  Machine machine;
  machine.options.variables["TERN_FAKE_DCMI_HEALTH"] = "1=1";
  EXPECT_TRUE(is_warning(machine.says("health"))) << machine.says("health");
  machine.options.variables["TERN_FAKE_DCMI_HEALTH"] = "1=3";
  const auto line = machine.says("health");
  EXPECT_TRUE(is_error(line) && has(line, "npu:1 has an alarm of level 3 of 3 (0x80E01801 HBM multi-bit ECC error)"))
      << line;
  machine.options.variables["ASCEND_RT_VISIBLE_DEVICES"] = "0";
  EXPECT_TRUE(is_well(machine.says("health"))) << "a card that is hidden harms nobody";
}

TEST(AscendDoctor, WithoutTheManagementLibraryNobodyKnowsOfAlarms) {
  Machine machine;
  machine.remove("usr/local/dcmi");
  machine.remove(std::string(kToolkit) + "/lib64/libdcmi.so");
  const auto line = machine.says("health");
  EXPECT_TRUE(is_warning(line) && has(line, "libdcmi.so") && has(line, "mount /usr/local/dcmi")) << line;
  machine.link(std::string(TERN_FAKE_CANN) + "/libdcmi.so", "usr/local/dcmi/libdcmi.so");
  machine.options.variables["TERN_FAKE_DCMI_FAULT"] = "dcmi_init=-8005";
  EXPECT_TRUE(has(machine.says("health"), "doesn't answer (code -8005)")) << machine.says("health");
}

TEST(AscendDoctor, ACardHeldByADeadProcessIsToldFromOneInUse) {
  Machine machine;
  machine.options.variables["TERN_FAKE_DCMI_PROCESSES"] = "0:4242:3000";
  const auto gone = machine.says("memory");
  EXPECT_TRUE(is_error(gone) && has(gone, "npu:0 process 4242, which isn't there any more, holds 2.9 GiB")) << gone;
  EXPECT_TRUE(has(gone, "npu-smi set -t reset")) << gone;
  machine.write("proc/4242/stat", "4242 (a (b) c) Z 1 4242\n");
  EXPECT_TRUE(has(machine.says("memory"), "process 4242, which has ended and waits for its parent, holds"))
      << machine.says("memory");
  machine.write("proc/4242/stat", "4242 (python3) S 1 4242\n");
  machine.write("proc/4242/comm", "python3\n");
  const auto alive = machine.says("memory");
  EXPECT_TRUE(is_warning(alive) &&
              has(alive, "npu:0 has 1.0 GiB free of 4.0 GiB (process 4242 (python3) holds 2.9 GiB)"))
      << alive;
  machine.options.variables["TERN_FAKE_DCMI_PROCESSES"] = "";
  machine.options.variables["TERN_FAKE_DCMI_USED"] = "0=3000";
  const auto nobody = machine.says("memory");
  EXPECT_TRUE(is_warning(nobody) && has(nobody, "npu:0 2.9 GiB of 4.0 GiB in use, by nobody who can be seen"))
      << nobody;
}

// A socket of the table /proc/net/tcp.
std::string socket(const char* port, const char* state) {
  return std::string("   0: 00000000:") + port + " 00000000:0000 " + state + " 00000000:00000000\n";
}

TEST(AscendDoctor, PortsThatHcclNeedsAreFree) {
  Machine machine;
  machine.write("proc/net/tcp", Machine::kHeading + socket("EA61", "01") + socket("1F90", "0A"));
  EXPECT_TRUE(is_well(machine.says("HCCL ports"))) << "a connection that is open, and another port";
  machine.write("proc/net/tcp6", Machine::kHeading + socket("EA61", "0A"));
  const auto line = machine.says("HCCL ports");
  EXPECT_TRUE(is_error(line) && has(line, "somebody listens on 60001: ")) << line;
  machine.options.variables["HCCL_IF_BASE_PORT"] = "50000";
  const auto unreserved = machine.says("HCCL ports");
  EXPECT_TRUE(is_warning(unreserved) && has(unreserved, "ip_local_reserved_ports=50000-50031")) << unreserved;
}

TEST(AscendDoctor, SettingsOfHcclAreInTheirRange) {
  Machine machine;
  machine.options.variables["HCCL_CONNECT_TIMEOUT"] = "60";
  auto line = machine.says("HCCL settings");
  EXPECT_TRUE(is_error(line) && has(line, "HCCL_CONNECT_TIMEOUT=60 is no number from 120 to 7200")) << line;
  machine.options.variables["HCCL_CONNECT_TIMEOUT"] = "600";
  machine.options.variables["HCCL_SOCKET_IFNAME"] = "=eth9";
  line = machine.says("HCCL settings");
  EXPECT_TRUE(is_error(line) && has(line, "HCCL_SOCKET_IFNAME==eth9 is no interface of this machine (eth0)")) << line;
  for (const char* known : {"eth", "=eth0", "^docker"}) {
    machine.options.variables["HCCL_SOCKET_IFNAME"] = known;
    EXPECT_TRUE(is_well(machine.says("HCCL settings"))) << known;
  }
}

TEST(AscendDoctor, WhatChipsDoNotMultiplyByIsSaid) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_CHIP"] = "910A";
  EXPECT_TRUE(
      has(machine.says("dtypes"), "neither bf16 (such models run in fp16, and training scales the loss) nor FP8"))
      << machine.says("dtypes");
  machine.options.variables["TERN_FAKE_CANN_CHIP"] = "910B1";
  EXPECT_TRUE(has(machine.says("dtypes"), "no FP8: such weights are expanded in each product"))
      << machine.says("dtypes");
}

TEST(AscendDoctor, WeightsThatDoNotFitAreToldBeforeTheyAreLoaded) {
  Machine machine;
  TinyModel tiny;
  tiny.hidden = 256;
  tiny.intermediate = 1024;
  const std::string model = machine.root() + "/model";
  write_tiny_model(model, tiny);
  EXPECT_TRUE(has(machine.doctor({"--model", model}).out, "ok       model: the weights of model take "));
  machine.options.variables["TERN_FAKE_CANN_HBM"] = "2097152";
  const auto outcome = machine.doctor({"--model", model});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_TRUE(has(outcome.out, "error    model: the weights of model take ") && has(outcome.out, "it does not fit"))
      << outcome.out;
}

TEST(AscendDoctor, MemoryThatOthersHoldIsToldFromACardThatIsTooSmall) {
  Machine machine;
  TinyModel tiny;
  tiny.hidden = 256;
  tiny.intermediate = 1024;
  const std::string model = machine.root() + "/model";
  write_tiny_model(model, tiny);
  machine.options.variables["TERN_FAKE_CANN_HBM"] = "16777216";
  machine.options.variables["TERN_FAKE_CANN_HBM_TAKEN"] = "14680064";
  const auto outcome = machine.doctor({"--model", model});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_TRUE(has(outcome.out, "error    model: ") && has(outcome.out, "other processes hold the rest")) << outcome.out;
}

// An A2 has no FP8, and expands such weights on the way to bf16; a 310P can't.
TEST(AscendDoctor, WeightsInFp8AreHeldAgainstTheChip) {
  Machine machine;
  const std::string model = std::string(TERN_TEST_DATA) + "/checkpoint/quantized/models/fp8_blocks";
  EXPECT_TRUE(
      has(machine.doctor({"--model", model}).out,
          "ok       model: the weights of fp8_blocks are stored as f8_block, and npu:0 has a product for them\n"));
  machine.options.variables["TERN_FAKE_CANN_CHIP"] = "310P3";
  const auto outcome = machine.doctor({"--model", model});
  EXPECT_TRUE(
      has(outcome.out,
          "warning  model: the weights of fp8_blocks are stored as f8_block, which npu:0 has no product "
          "for (matmul_q: ") &&
      has(outcome.out, "make a copy without quantisation by tern convert fp8_blocks fp8_blocks-f16 --outtype f16"))
      << outcome.out;
}

TEST(AscendDevices, ShowWhatNpuSmiShows) {
  Machine machine;
  machine.options.variables["TERN_FAKE_DCMI_PROCESSES"] = "1:4242:3000";
  machine.options.variables["TERN_FAKE_DCMI_HEALTH"] = "1=1";
  const auto outcome = run({"devices", "--device", "npu:1"}, machine.options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {"  npu:1  Ascend A2 (Ascend910B1)  Ascend910B1\n",
                           "pci 0000:c2:00.0; health degraded: the driver reports a minor alarm (0x",
                           "    now 46 C, 93.6 W, computing 71%, memory 2.93 GiB of 4.00 GiB in use, huge pages 20 of "
                           "100, card 1 chip 0 (910B1)\n",
                           "    process 4242 (not visible here) holds 2.93 GiB\n"}) {
    EXPECT_TRUE(has(outcome.out, part)) << part << "\n" << outcome.out;
  }
  // The second card is the first that is visible.
  machine.options.variables["ASCEND_RT_VISIBLE_DEVICES"] = "1";
  EXPECT_TRUE(has(run({"devices", "--device", "npu:0"}, machine.options).out, "card 1 chip 0"));
}

TEST(AscendDevices, AnAbsentCardSaysWhyAndTheMend) {
  Machine machine;
  machine.remove(std::string(kToolkit) + "/lib64");
  const auto outcome = run({"devices"}, machine.options);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(has(outcome.out, "  absent: libascendcl.so: not found; install the CANN toolkit")) << outcome.out;
}

TEST(AscendTopo, ShowsWhatNpuSmiTopoShows) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_CHIP"] = "910_9391";
  machine.options.variables["TERN_FAKE_CANN_DEVICES"] = "4";
  const auto outcome = run({"topo", "--device", "npu"}, machine.options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "npu:0    X        SIO      HCCS_SW  HCCS_SW  0-23            -     0000:c1:00.0\n"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "npu:3    HCCS_SW  HCCS_SW  SIO      X        24-47")) << outcome.out;
}

TEST(AscendBundle, HoldsTheLogsOfCann) {
  Machine machine;
  machine.write("home/ascend/log/debug/plog/plog-77_1.log", "[ERROR] RUNTIME(77): no device, token=letmein\n");
  machine.options.folder = machine.root();
  const auto outcome = machine.doctor({"--bundle", "report.tar.gz"});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "tern-report/logs/npu/plog-77_1.log")) << outcome.out;
  const auto text = machine.root() + "/text";
  ASSERT_EQ(std::system(("tar -xOf " + machine.root() + "/report.tar.gz >" + text).c_str()), 0);
  std::stringstream all;
  all << std::ifstream(text).rdbuf();
  EXPECT_TRUE(has(all.str(), "[ERROR] RUNTIME(77): no device, token=(removed)")) << all.str();
  EXPECT_TRUE(has(all.str(), "TERN_FAKE_CANN_DEVICES=2\n")) << all.str();
  EXPECT_TRUE(has(all.str(), "ASCEND_OPP_PATH=")) << "a backend names the variables that its libraries read";
}

}  // namespace
}  // namespace tern::e2e
