// A tiny model, rows and a folder, and what a command that fails must show.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {

namespace fs = std::filesystem;

class Failing : public ::testing::Test {
 protected:
  Failing() {
    write_tiny_model(path("model"));
    rows_ = scratch_.write("rows.jsonl", sums(8));
    options_.variables["TERN_HOME"] = path("home").string();
    options_.variables["TERN_CACHE_DIR"] = path("cache").string();
    options_.folder = scratch_.path();
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }
  [[nodiscard]] std::string model() const { return path("model").string(); }

  // `words` end with `status` and one error line that holds every one of `parts`.
  void expect(const std::vector<std::string>& words, int status, const std::vector<std::string>& parts) const {
    expect(words, status, parts, options_);
  }
  void expect(const std::vector<std::string>& words, int status, const std::vector<std::string>& parts,
              const Options& options, const std::string& whole = {}) const {
    SCOPED_TRACE(words.size() > 2 ? words[0] + " " + words[1] + " " + words[2] : words[0]);
    const auto outcome = run(words, options);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    const std::string line = outcome.last_error_line();
    EXPECT_EQ(line.rfind("tern: error: ", 0), 0U) << outcome.err;
    for (const auto& part : parts) EXPECT_NE(line.find(part), std::string::npos) << line << "\nlacks: " << part;
    if (!whole.empty()) {
      EXPECT_EQ(line, "tern: error: " + whole);
    }
    std::size_t lines = 0;
    for (std::size_t at = outcome.err.find("tern: error:"); at != std::string::npos;
         at = outcome.err.find("tern: error:", at + 1)) {
      ++lines;
    }
    EXPECT_EQ(lines, 1U) << outcome.err;
  }
  [[nodiscard]] std::vector<std::string> sft(std::vector<std::string> more) const {
    std::vector<std::string> words = {"sft", "--max_steps", "1", "--output_dir", path("out").string()};
    if (std::find(more.begin(), more.end(), "--model") == more.end()) more.insert(more.end(), {"--model", model()});
    if (std::find(more.begin(), more.end(), "--dataset") == more.end()) more.insert(more.end(), {"--dataset", rows_});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // A copy of the model with one file changed.
  std::string damaged(const std::string& file, const std::function<std::string(std::string)>& change) const {
    const fs::path copy = path("damaged");
    fs::remove_all(copy);
    fs::copy(path("model"), copy);
    std::ostringstream text;
    text << std::ifstream(copy / file, std::ios::binary).rdbuf();
    std::ofstream(copy / file, std::ios::binary) << change(text.str());
    return copy.string();
  }

  // `words` end with `status`, and the whole error line is `line`.
  void expect_line(const std::vector<std::string>& words, int status, const std::string& line) const {
    expect_line(words, status, line, options_);
  }
  void expect_line(const std::vector<std::string>& words, int status, const std::string& line,
                   const Options& options) const {
    expect(words, status, {}, options, line);
  }

  Scratch scratch_;
  Options options_;
  std::string rows_;
};

}  // namespace tern::e2e
