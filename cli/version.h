// What `tern --version` tells.
#pragma once

#include <string>

namespace tern::cli {

// Version, build, and the backend files that would be loaded.
[[nodiscard]] std::string version_text();

// "0.1.0"
[[nodiscard]] std::string version_number();

}  // namespace tern::cli
