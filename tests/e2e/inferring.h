// A tiny model, rows of sums, and commands over them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {

namespace fs = std::filesystem;

class Inference : public ::testing::Test {
 protected:
  Inference() {
    write_tiny_model(path("model"));
    rows_ = scratch_.write("rows.jsonl", sums(6));
    options_.variables["TERN_HOME"] = path("home").string();
    options_.variables["TERN_CACHE_DIR"] = path("cache").string();
    options_.folder = scratch_.path();
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }

  [[nodiscard]] std::string output(std::vector<std::string> words, const std::string& input = {}) const {
    words.insert(words.begin() + 1, {"--model", path("model").string()});
    Options options = options_;
    options.input = input;
    const auto outcome = run(words, options);
    EXPECT_EQ(outcome.status, 0) << words[0] << ": " << outcome.err;
    return outcome.out;
  }
  [[nodiscard]] std::string answer(std::vector<std::string> more) const {
    more.insert(more.begin(), {"infer", "--max_new_tokens", "24", "--torch_dtype", "float32"});
    return output(std::move(more), "1 + 2");
  }

  Scratch scratch_;
  Options options_;
  std::string rows_;
};

}  // namespace tern::e2e
