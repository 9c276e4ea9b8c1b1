// An error's line as any run of the test prints it.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace tern::test {

// The line with DIR in the place of the test's own directory.
[[nodiscard]] inline std::string line_in(const std::filesystem::path& directory, const Error& error) {
  std::string text = error.line();
  const std::string own = directory.string();
  for (std::size_t at = text.find(own); at != std::string::npos; at = text.find(own)) {
    text.replace(at, own.size(), "DIR");
  }
  return text;
}

}  // namespace tern::test
