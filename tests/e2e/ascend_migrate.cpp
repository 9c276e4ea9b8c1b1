// docs/migrate.md: the commands of ms-swift's NPU page, with `swift` replaced by `tern`, as one script over a hub on
// loopback and the fake of CANN.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ascend_machine.h"
#include "model_scope.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

// The page's code blocks of the shell, one after the other.
std::string shell_blocks(const std::string& page) {
  std::ifstream in(page);
  std::string out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```sh";
    } else if (inside) {
      out += line + "\n";
    }
  }
  return out;
}

// An answer is kept; a server, which doesn't end by itself, is ended once it has said that it serves.
constexpr const char* kTern = R"(tern() {
  case "$1" in
    infer) echo '1 + 2' | command tern "$@" >answer.tmp; cat answer.tmp; mv answer.tmp answer-$(ls | grep -c answer-) ;;
    deploy)
      command tern "$@" --host 127.0.0.1 --port 0 >served 2>&1 &
      for i in $(seq 600); do grep -q '^serving .* on http' served && break; sleep 0.1; done
      kill -TERM $!
      wait $! || true
      grep -q '^serving .* on http' served || { cat served; return 1; } ;;
    *) command tern "$@" ;;
  esac
}
)";

std::string text_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

TEST(Migrate, TheNpuPagesCommandsRun) {
  Machine machine;
  machine.options.variables["TERN_FAKE_CANN_LATE"] = "0";
  const fs::path folder = machine.root() + "/work";
  TinyModel model;
  model.qwen3 = true;
  write_tiny_model(folder / "store/models/Qwen/Qwen3-0.6B", model);
  std::string rows;
  for (int i = 0; i < 9; ++i) {
    rows += R"({"instruction": "加 )" + std::to_string(i) + R"(", "input": "", "output": ")" + std::to_string(i + 1) +
            "\"}\n";
  }
  machine.write("work/store/datasets/AI-ModelScope/alpaca-gpt4-data-zh/train.jsonl", rows);
  hub::FakeHub hub([&](const hub::FakeRequest& request) { return answer_from(folder / "store", request); });

  std::string script = "set -e\ncd " + folder.string() + "\n";
  for (const auto& [name, value] : machine.options.variables) script += "export " + name + "='" + value + "'\n";
  script += "export MODELSCOPE_ENDPOINT=" + hub.url() + " MODELSCOPE_API_TOKEN=secret MODELSCOPE_CACHE=" +
            (folder / "cache").string() + " TERN_CACHE_DIR=" + (folder / "tokens").string() + "\nexport PATH='" +
            fs::path(TERN_PROGRAM).parent_path().string() + "':$PATH\n" + kTern;
  const std::string page = shell_blocks(std::string(TERN_SOURCE_DIR) + "/docs/migrate.md");
  for (const char* word : {"tern sft", "tern infer", "tern deploy", "CKPT_DIR", "MERGED_DIR"})
    ASSERT_NE(page.find(word), std::string::npos) << word;
  machine.write("work/page.sh", script + page + "echo \"$CKPT_DIR\" >newest\n");
  const int status =
      std::system(("sh " + (folder / "page.sh").string() + " >" + (folder / "log").string() + " 2>&1 </dev/null").c_str());
  ASSERT_EQ(status, 0) << text_of(folder / "log");

  const std::string newest = text_of(folder / "newest");
  EXPECT_NE(newest.find("npu-modelscope-qwen3-0_6b-lora/v0-"), std::string::npos) << newest;
  EXPECT_NE(newest.find("/checkpoint-125"), std::string::npos) << "the last of 999 rows in steps of 8: " << newest;
  EXPECT_NE(text_of(folder / "log").find("npu:0"), std::string::npos) << "on a card\n" << text_of(folder / "log");
  EXPECT_FALSE(text_of(folder / "answer-0").empty());
  EXPECT_FALSE(text_of(folder / "answer-1").empty());
  std::size_t fetched = 0;
  for (const auto& request : hub.requests()) fetched += request.target.ends_with("FilePath=model.safetensors") ? 1 : 0;
  EXPECT_EQ(fetched, 1U) << "the base model is in the cache from then on";
}

}  // namespace
}  // namespace tern::e2e
