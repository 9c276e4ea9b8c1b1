// A directory of the test's own, gone afterwards.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace tern::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tern-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory for a test: " + pattern);
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  // Writes a file below the directory, and the folders that it needs; gives its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return out.str();
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path_ / name); }
  // The line of an Error with DIR in the place of this directory, as any run of the test prints it.
  template <typename Failed>
  [[nodiscard]] std::string line(const Failed& error) const {
    std::string text = error.line();
    const std::string own = path_.string();
    for (std::size_t at = text.find(own); at != std::string::npos; at = text.find(own)) {
      text.replace(at, own.size(), "DIR");
    }
    return text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tern::test
