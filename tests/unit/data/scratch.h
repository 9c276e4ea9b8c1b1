// A directory that goes with the test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tests/unit/line_in.h"

namespace tern::data {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tern-data-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // An error's line with DIR in the place of this directory.
  [[nodiscard]] std::string line(const Error& error) const { return test::line_in(path_, error); }
  std::string file(const std::string& name, std::string_view text) const {
    const auto target = path_ / name;
    std::ofstream(target, std::ios::binary) << text;
    return target.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tern::data
