// The pages' commands run: each code block of the pages, on a tiny model in the place of the bundled one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

// Lines of the page's code blocks that begin a command: `tern ...`, or one piped into it or followed by it; `$ ` before
// it is the shell's.
std::vector<std::string> commands(const std::string& page) {
  std::ifstream in(page);
  std::vector<std::string> out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) inside = !inside;
    if (!inside) continue;
    if (line.rfind("$ ", 0) == 0) line = line.substr(2);
    const bool later = line.find("| tern ") != std::string::npos || line.find("&& tern ") != std::string::npos;
    if (line.rfind("tern ", 0) == 0 || later) out.push_back(line);
  }
  return out;
}

void run_page(const std::string& name, std::size_t fewest) {
  const Scratch scratch;
  TinyModel model;
  model.max_positions = 4096;  // an example is some thousand bytes
  model.verdicts = true;       // as the bundled model has them
  write_tiny_model(scratch.path() / "smollm2-135m", model);
  model.labels = 3;
  write_tiny_model(scratch.path() / "classifier", model);
  const fs::path golden = fs::path(TERN_TEST_DATA) / "golden";
  fs::copy(golden / "bert-reranker", scratch.path() / "e5");
  fs::copy(golden / "xlm-roberta-reranker", scratch.path() / "bge-reranker");
  fs::create_directory_symlink(fs::path(TERN_SOURCE_DIR) / "examples", scratch.path() / "examples");
  const fs::path media = fs::path(TERN_TEST_DATA) / "media";
  fs::create_directory_symlink(media / "models" / "qwen3_vl", scratch.path() / "Qwen3-VL-2B-Instruct");
  const fs::path gguf = media / "gguf" / "qwen3_vl";
  fs::create_directory_symlink(gguf, scratch.path() / "Qwen3-VL-2B-Instruct-GGUF");
  fs::copy(gguf / "qwen3_vl-F32.gguf", scratch.path() / "Qwen3-VL-2B-Instruct.gguf");
  fs::copy(gguf / "mmproj-F32.gguf", scratch.path() / "mmproj-Qwen3-VL-2B-Instruct.gguf");
  fs::copy(media / "decode" / "rgb-420.jpg", scratch.path() / "photo.jpg");
  fs::copy(media / "decode" / "la.png", scratch.path() / "drawing.png");
  const auto lines = commands(std::string(TERN_SOURCE_DIR) + "/" + name);
  ASSERT_GE(lines.size(), fewest) << name;
  const std::string folder = scratch.path().string();
  for (const auto& line : lines) {
    const auto script = scratch.write(
        "command.sh", "set -e\ncd " + folder + "\nexport TERN_HOME=" + folder + "/home TERN_CACHE_DIR=" + folder +
                          "/cache PATH='" + fs::path(TERN_PROGRAM).parent_path().string() + "':$PATH\n" + line + "\n");
    const int status = std::system(("sh " + script + " >" + folder + "/log 2>&1 </dev/null").c_str());
    std::ostringstream log;
    log << std::ifstream(folder + "/log").rdbuf();
    ASSERT_EQ(status, 0) << line << "\n" << log.str();
  }
}

TEST(Docs, QuickstartRuns) { run_page("docs/quickstart.md", 9); }
TEST(Docs, FilesRuns) { run_page("docs/files.md", 7); }
TEST(Docs, InferenceRuns) { run_page("docs/inference.md", 14); }
TEST(Docs, DataRuns) { run_page("docs/data.md", 6); }
TEST(Docs, ReadmeRuns) { run_page("README.md", 2); }

}  // namespace
}  // namespace tern::e2e
