// errno as an Error, in one wording everywhere.
#pragma once

#include <string>

#include "base/status.h"

namespace tern::io {

// A file or directory that could not be read (kind: data).
[[nodiscard]] Error read_error(const std::string& path, int code);
// One that could not be written (kind: failed); a full disk says so and names what to free.
[[nodiscard]] Error write_error(const std::string& path, int code);

}  // namespace tern::io
