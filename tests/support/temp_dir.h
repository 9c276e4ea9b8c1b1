// A directory of the test's own, gone afterwards.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tern::test {

class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  // Writes a file below the directory, and the folders that it needs; gives its path.
  std::string write(const std::string& name, std::string_view bytes) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  void remove(const std::string& name) const;
  // The line of an Error with DIR in the place of this directory, as any run of the test prints it.
  template <typename Failed>
  [[nodiscard]] std::string line(const Failed& error) const {
    return with_dir(error.line());
  }

 private:
  [[nodiscard]] std::string with_dir(std::string text) const;
  std::filesystem::path path_;
};

}  // namespace tern::test
