#include "cli/version.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/strings.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> libraries_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".so") found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::string> backend_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("TERN_BACKEND_PATH"); path != nullptr) {
    for (const auto part : split(path, ':')) {
      if (!part.empty()) folders.emplace_back(part);
    }
  }
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back((program.parent_path().parent_path() / "lib" / "tern" / "backends").string());
  return folders;
}

std::string version_text() {
  const std::string_view revision = TERN_REVISION;  // empty: not built from a checkout
  std::string out = cat("tern ", TERN_VERSION, revision.empty() ? "" : " (", revision, revision.empty() ? "" : ")");
  out += cat("\nbuild: ", TERN_BUILD_TYPE, ", ", TERN_COMPILER, "\n");
  std::size_t count = 0;
  for (const auto& folder : backend_folders()) {
    for (const auto& library : libraries_in(folder)) {
      out += cat("backend: ", library, "\n");
      ++count;
    }
  }
  if (count == 0) out += cat("backends: none in ", join(backend_folders(), ", "), "\n");
  return out;
}

}  // namespace tern::cli
