// tern doctor and tern topo: what they say of broken drivers, and that a bug report holds what it lists and no secret.
#include <gtest/gtest.h>

#include <cstdlib>

#include "run.h"

namespace tern::e2e {
namespace {

Options simulated(const std::string& kind, const std::string& devices) {
  Options options;
  options.variables["TERN_SIM"] = kind;
  options.variables["TERN_SIM_DEVICES"] = devices;
  return options;
}

TEST(Topo, IsAMatrixWithTheProcessorsNearEachDevice) {
  const auto outcome = run({"topo", "--device", "sim"}, simulated("ascend", "5"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "        sim:0   sim:1   sim:2   sim:3   sim:4   CPU affinity    NUMA  PCI\n"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "\nsim:3   HCCS    HCCS    HCCS    X       SYS     any             -     sim:3\n"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "\n  HCCS    a link of the vendor's own\n")) << outcome.out;
  EXPECT_FALSE(has(outcome.out, "  PIX ")) << "a word that the matrix doesn't use";
}

TEST(Topo, JsonNamesEachLink) {
  const auto outcome = run({"topo", "--device", "sim:1", "--json"}, simulated("discrete", "2"));
  EXPECT_EQ(outcome.out,
            "[{\"device\": \"sim:1\", \"links\": {\"sim:0\": \"PIX\", \"sim:1\": \"X\"}, \"pci_address\": \"sim:1\", "
            "\"cpu_affinity\": \"\", \"numa_node\": null}]\n");
}

TEST(Topo, ADeviceThatIsAbsentEndsWithFour) { EXPECT_EQ(run({"topo", "--device", "sim:9"}).status, 4); }

TEST(Doctor, ADriverThatCrashesEndsItsOwnChecksAlone) {
  Options options;
  options.variables["TERN_TEST_PLUGIN"] = std::string("crashes=") + TERN_PLUGIN_DIR + "/libtern_sim.so";
  const auto outcome = run({"doctor", "--backend", TERN_FAULTY_PLUGIN}, options);
  EXPECT_EQ(outcome.status, 4);
  EXPECT_TRUE(has(outcome.out, "error    sim: a driver that is too old\n")) << outcome.out;
  EXPECT_TRUE(has(outcome.out,
                  "error    sim: its checks did not end: its driver crashed the probing process (Aborted); "
                  "check the driver with the vendor's own tool\n"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "ok       cpu: instruction set: ")) << "the others go on: " << outcome.out;
}

TEST(Doctor, AModelsWeightsAreHeldAgainstTheDevice) {
  const std::string data = TERN_TEST_DATA;
  const auto fits = run({"doctor", "--device", "cpu", "--model", data + "/golden/llama-tied"});
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_TRUE(has(fits.out, "ok       model: the weights of llama-tied take ")) << fits.out;
  const auto none = run({"doctor", "--model", "/nonexistent"});
  EXPECT_NE(none.status, 0);
}

TEST(Doctor, WeightsInADtypeThatADeviceLacksAreToldWithWhatHappens) {
  auto options = simulated("discrete", "1");
  options.variables["TERN_SIM_WITHOUT"] = "bf16";
  const Scratch scratch;
  const std::string data = TERN_TEST_DATA;
  options.variables["TERN_HOME"] = scratch.path().string();
  const auto model = (scratch.path() / "bf16").string();
  ASSERT_EQ(run({"convert", data + "/golden/llama-tied", model, "--outtype", "bf16"}).status, 0);
  const auto outcome = run({"doctor", "--device", "sim", "--model", model}, options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out,
                  "ok       model: the weights of bf16 are bfloat16, which sim:0 lacks: they run in f16, "
                  "and training scales the loss\n"))
      << outcome.out;
  options.variables.erase("TERN_SIM_WITHOUT");
  EXPECT_FALSE(has(run({"doctor", "--device", "sim", "--model", model}, options).out, "lacks"));
}

// What a shell says of the report, as its receiver would look at it.
std::string shell(const std::string& command) {
  std::string out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  pclose(pipe);
  return out;
}

TEST(Bundle, HoldsWhatItListsAndNoSecret) {
  const Scratch scratch;
  scratch.write("output/m/v0/logging.jsonl", "{\"loss\": 1.5}\n");
  scratch.write("output/m/v0/args.json", "{\"model\": \"m\", \"note\": \"hf_zyxwvutsrq987\"}\n");
  auto options = simulated("ascend", "2");
  options.folder = scratch.path();
  options.variables["HF_TOKEN"] = "hf_abcdefghij123";
  options.variables["TERN_NOTE"] = "https://joe:pass4joe@example.org";
  options.variables["PRIVATE_MATTER"] = "nobody reads this";
  for (const std::string name : {"report.tar.zst", "report.tar.gz"}) {
    const auto outcome = run({"doctor", "--bundle", name}, options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(has(outcome.out, "wrote " + name + ", which holds ")) << outcome.out;
    const std::string listed = shell("tar -tf " + (scratch.path() / name).string());
    EXPECT_EQ(listed,
              "tern-report/versions.txt\ntern-report/devices.txt\ntern-report/doctor.txt\n"
              "tern-report/environment.txt\ntern-report/logs/run/logging.jsonl\ntern-report/logs/run/args.json\n");
    for (std::size_t begin = 0; begin < listed.size(); begin = listed.find('\n', begin) + 1) {
      EXPECT_TRUE(has(outcome.out, "\n  " + listed.substr(begin, listed.find('\n', begin) - begin) + "  "));
    }
    const std::string all = shell("tar -xOf " + (scratch.path() / name).string());
    EXPECT_TRUE(has(all, std::string("tern ") + TERN_VERSION)) << all;
    EXPECT_TRUE(has(all, "sim:1  simulated ascend device")) << all;
    EXPECT_TRUE(has(all, "sim:0   X       HCCS")) << all;
    EXPECT_TRUE(has(all, "ok       sim: personality: ascend")) << all;
    EXPECT_TRUE(has(all, "HF_TOKEN=(removed)\n")) << all;
    EXPECT_TRUE(has(all, "TERN_NOTE=https://(removed)@example.org\n")) << all;
    EXPECT_TRUE(has(all, "{\"loss\": 1.5}\n")) << all;
    for (const char* secret : {"hf_abcdefghij123", "pass4joe", "hf_zyxwvutsrq987", "nobody reads this"}) {
      EXPECT_FALSE(has(all, secret)) << secret;
    }
  }
}

TEST(Bundle, ANameThatDoesNotSayHowToPackIsRefusedBeforeAnythingIsAsked) {
  const auto outcome = run({"doctor", "--bundle", "report.zip"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "tern: error: --bundle report.zip does not say how to pack the report; name it NAME.tar.zst or "
            "NAME.tar.gz.\n");
}

TEST(Bundle, AFileThatCannotBeWrittenIsAnError) {
  const auto outcome = run({"doctor", "--bundle", "/nonexistent/report.tar.gz"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.err, "/nonexistent/report.tar.gz")) << outcome.err;
}

}  // namespace
}  // namespace tern::e2e
