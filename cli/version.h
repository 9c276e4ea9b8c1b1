// What `tern --version` tells.
#pragma once

#include <string>
#include <vector>

namespace tern::cli {

// The folders searched for backends, in order: $TERN_BACKEND_PATH, then lib/tern/backends beside the program.
[[nodiscard]] std::vector<std::string> backend_folders();

[[nodiscard]] std::string version_text();

}  // namespace tern::cli
