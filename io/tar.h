// An archive of texts in tar's format (POSIX ustar).
#pragma once

#include <span>
#include <string>

namespace tern::io {

struct TarEntry {
  std::string name;  // a relative path of at most 100 bytes; longer: std::logic_error
  std::string text;
};

// Every file belongs to root, may be read by all, and is of the time given, in seconds since 1970.
[[nodiscard]] std::string tar(std::span<const TarEntry> entries, long long time);

}  // namespace tern::io
