// `tern sft` of the tiny model in a folder of the test's own: what the tests of training share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {

class TinyTraining : public ::testing::Test {
 protected:
  // Trains on `rows`, a JSONL text.
  explicit TinyTraining(const std::string& rows) : rows_(scratch_.write("rows.jsonl", rows)) {
    write_tiny_model(path("model"));
    options_.variables["TERN_HOME"] = path("home").string();
    options_.variables["TERN_CACHE_DIR"] = path("cache").string();
    options_.folder = scratch_.path();
  }
  // A model with heads of 16, as the paged attention of some devices takes none below.
  void use_heads_of_16() const {
    TinyModel model;
    model.heads = 2;
    model.kv_heads = 1;
    write_tiny_model(path("model"), model);
  }
  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return scratch_.path() / name; }
  [[nodiscard]] std::string read(const std::string& name) const { return scratch_.read(name); }

  // sft into the folder `output` itself, in float32, each step logged.
  [[nodiscard]] std::vector<std::string> sft(const std::string& output,
                                             const std::vector<std::string>& more = {}) const {
    // clang-format off
    std::vector<std::string> words = {
        "sft", "--model", path("model").string(), "--dataset", rows_, "--output_dir", path(output).string(),
        "--add_version", "false", "--torch_dtype", "float32", "--logging_steps", "1"};
    // clang-format on
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The numbers of `key` in the log of the run in `output`, as written.
  [[nodiscard]] std::vector<std::string> logged(const std::string& output, const std::string& key) const {
    const std::string text = read(output + "/logging.jsonl");
    const std::regex pattern("\"" + key + "\":([-+.0-9eE]+)");
    std::vector<std::string> out;
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) out.push_back((*it)[1]);
    return out;
  }
  void expect_same_checkpoint(const std::string& one, const std::string& other,
                              const std::string& weights = "adapter_model") const {
    for (const std::string& file : {"/" + weights + ".safetensors", std::string("/optimizer.safetensors")}) {
      const auto bytes = read(one + file);
      EXPECT_FALSE(bytes.empty()) << one + file;
      EXPECT_TRUE(bytes == read(other + file)) << file << " of " << one << " and " << other << " differ";
    }
  }

  Scratch scratch_;
  Options options_;
  std::string rows_;
};

}  // namespace tern::e2e
