// A directory of the test's own, gone afterwards.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/status.h"
#include "tests/unit/line_in.h"

namespace tern::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tern-io-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return out.str();
  }
  // An error's line with DIR in the place of this directory.
  [[nodiscard]] std::string line(const Error& error) const { return line_in(path_, error); }

 private:
  std::filesystem::path path_;
};

// Bytes laid end to end, for files that no writer would make.
class Raw {
 public:
  template <typename T>
  Raw& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Raw& text(const std::string& value) {
    put<std::uint64_t>(value.size());
    bytes += value;
    return *this;
  }
  Raw& pad(std::size_t alignment, std::size_t more = 0) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment + more);
    return *this;
  }
  std::string bytes;
};

}  // namespace tern::test
