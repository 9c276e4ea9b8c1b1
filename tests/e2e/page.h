// The commands of a page of docs/, run as they stand there on a tiny model in the place of the bundled one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "run.h"
#include "tests/support/eagle3_head.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {

// Lines of the page's code blocks that begin a command: `tern ...`, or one piped into it or followed by it; `$ ` before
// it is the shell's.
inline std::vector<std::string> commands(const std::string& page) {
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

// Of `before` below: a server doesn't end by itself. It's ended once it has said that it serves, which it must within
// a minute.
inline const std::string kServesAndEnds = R"(tern() {
  case "$1" in deploy | app) ;; *) command tern "$@"; return ;; esac
  command tern "$@" --host 127.0.0.1 >served 2>&1 &
  for i in $(seq 600); do grep -q '^serving .* on http' served && break; sleep 0.1; done
  kill -TERM $!
  wait $! || true
  grep -q '^serving .* on http' served || { cat served; return 1; }
}
)";

// Runs each of the page's commands, of which there are at least `fewest`, after the shell's lines `before`, on models
// like `model`.
inline void run_page(const std::string& name, std::size_t fewest, const std::string& before = "",
                     TinyModel model = {}) {
  const Scratch scratch;
  model.max_positions = 4096;  // an example is some thousand bytes
  model.verdicts = true;       // as the bundled model has them
  write_tiny_model(scratch.path() / "smollm2-135m", model);
  test::write_eagle3_head(scratch.path() / "smollm2-135m-eagle3", {.vocab = 320, .layers = {0, 0, 1}});
  model.labels = 3;
  write_tiny_model(scratch.path() / "classifier", model);
  const std::filesystem::path golden = std::filesystem::path(TERN_TEST_DATA) / "golden";
  std::filesystem::copy(golden / "bert-reranker", scratch.path() / "e5");
  std::filesystem::copy(golden / "xlm-roberta-reranker", scratch.path() / "bge-reranker");
  std::filesystem::create_directory_symlink(std::filesystem::path(TERN_SOURCE_DIR) / "examples",
                                            scratch.path() / "examples");
  const std::filesystem::path media = std::filesystem::path(TERN_TEST_DATA) / "media";
  std::filesystem::create_directory_symlink(media / "models" / "qwen3_vl", scratch.path() / "Qwen3-VL-2B-Instruct");
  const std::filesystem::path gguf = media / "gguf" / "qwen3_vl";
  std::filesystem::create_directory_symlink(gguf, scratch.path() / "Qwen3-VL-2B-Instruct-GGUF");
  std::filesystem::copy(gguf / "qwen3_vl-F32.gguf", scratch.path() / "Qwen3-VL-2B-Instruct.gguf");
  std::filesystem::copy(gguf / "mmproj-F32.gguf", scratch.path() / "mmproj-Qwen3-VL-2B-Instruct.gguf");
  std::filesystem::copy(media / "decode" / "rgb-420.jpg", scratch.path() / "photo.jpg");
  std::filesystem::copy(media / "decode" / "la.png", scratch.path() / "drawing.png");
  const auto lines = commands(std::string(TERN_SOURCE_DIR) + "/" + name);
  ASSERT_GE(lines.size(), fewest) << name;
  const std::string folder = scratch.path().string();
  for (const auto& line : lines) {
    const auto script = scratch.write(
        "command.sh", "set -e\ncd " + folder + "\n" + before + "\nexport TERN_HOME=" + folder +
                          "/home TERN_CACHE_DIR=" + folder + "/cache PATH='" +
                          std::filesystem::path(TERN_PROGRAM).parent_path().string() + "':$PATH\n" + line + "\n");
    const int status = std::system(("sh " + script + " >" + folder + "/log 2>&1 </dev/null").c_str());
    std::ostringstream log;
    log << std::ifstream(folder + "/log").rdbuf();
    ASSERT_EQ(status, 0) << line << "\n" << log.str();
  }
}

}  // namespace tern::e2e
