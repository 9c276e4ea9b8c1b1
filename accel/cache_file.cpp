#include "accel/cache_file.h"

#include <unistd.h>

#include <fstream>

#include "base/strings.h"

namespace tern::accel {

void write_cache_file(const std::filesystem::path& file, std::span<const char> bytes) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  const std::filesystem::path scratch = cat(file.string(), ".", static_cast<std::int64_t>(getpid()));
  {
    std::ofstream out(scratch, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
      std::filesystem::remove(scratch, error);
      return;
    }
  }
  std::filesystem::rename(scratch, file, error);
}

}  // namespace tern::accel
