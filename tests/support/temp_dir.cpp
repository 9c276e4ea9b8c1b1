#include "tests/support/temp_dir.h"

#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace tern::test {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string pattern = (fs::temp_directory_path() / "tern-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory for a test: " + pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempDir::write(const std::string& name, std::string_view bytes) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return (path_ / name).string();
}

std::string TempDir::read(const std::string& name) const {
  std::ostringstream out;
  out << std::ifstream(path_ / name, std::ios::binary).rdbuf();
  return out.str();
}

void TempDir::remove(const std::string& name) const { fs::remove_all(path_ / name); }

std::string TempDir::with_dir(std::string text) const {
  const std::string own = path_.string();
  for (std::size_t at = text.find(own); at != std::string::npos; at = text.find(own)) {
    text.replace(at, own.size(), "DIR");
  }
  return text;
}

}  // namespace tern::test
