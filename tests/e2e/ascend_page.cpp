// The commands of docs/ascend.md run, over the fake of CANN.
#include "ascend_machine.h"
#include "page.h"

namespace tern::e2e {
namespace {

// Variables of the machine, for a shell.
std::string exports(const Machine& machine) {
  std::string lines;
  for (const auto& [name, value] : machine.options.variables) {
    if (name != "TERN_HOME" && name != "HOME") lines += "export " + name + "='" + value + "'\n";
  }
  return lines + kServesAndEnds;
}

TEST(AscendPage, Runs) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_LATE"] = "0";
  run_page("docs/ascend.md", 12, exports(machine));
}

// What the page says of chips without bf16: the model's own dtype gives way, one that was asked for is refused.
TEST(AscendPage, WithoutBf16AModelOfItRunsInFloat16AndTheFlagIsRefused) {
  for (const char* chip : {"310P3", "910A"}) {
    Machine machine;
    machine.options.variables["TERN_FAKE_CANN_CHIP"] = chip;
    machine.options.variables["TERN_FAKE_CANN_LATE"] = "0";
    machine.options.input = "1+2=";
    const std::string plain = machine.root() + "/plain";
    const std::string model = machine.root() + "/bf16";
    write_tiny_model(plain);
    ASSERT_EQ(run({"convert", plain, model, "--outtype", "bf16"}).status, 0);
    const auto infer = [&](const std::vector<std::string>& more) {
      std::vector<std::string> words = {"infer", "--device", "npu:0", "--fallback", "forbid", "--model", model};
      for (const char* word : {"--max_new_tokens", "2", "--temperature", "0", "--max_model_len", "64"})
        words.emplace_back(word);
      words.insert(words.end(), more.begin(), more.end());
      return run(words, machine.options);
    };
    const auto runs = infer({});
    EXPECT_EQ(runs.status, 0) << chip << ": " << runs.err;
    EXPECT_NE(runs.err.find("float16"), std::string::npos) << chip << ": " << runs.err;
    const auto refused = infer({"--torch_dtype", "bfloat16"});
    EXPECT_EQ(refused.status, 2) << chip << ": " << refused.err;
    EXPECT_NE(refused.err.find("bfloat16"), std::string::npos) << chip << ": " << refused.err;
  }
}

}  // namespace
}  // namespace tern::e2e
