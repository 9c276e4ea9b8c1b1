#include "cli/version.h"

#include "accel/backend.h"
#include "base/strings.h"

namespace tern::cli {

std::string version_number() { return TERN_VERSION; }

std::string version_text() {
  constexpr std::string_view revision{TERN_REVISION};  // empty: not built from a checkout
  std::string out = cat("tern ", TERN_VERSION, revision.empty() ? "" : " (", revision, revision.empty() ? "" : ")");
  out += cat("\nbuild: ", TERN_BUILD_TYPE, ", ", TERN_COMPILER, "\n");
  const auto files = accel::find_backend_files();
  for (const auto& file : files) out += cat("backend: ", file.string(), "\n");
  if (files.empty()) out += "backends: none; put plugins into a folder of $TERN_BACKEND_PATH\n";
  return out;
}

}  // namespace tern::cli
