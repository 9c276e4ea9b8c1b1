// Where a training run writes, and which checkpoint it goes on from.
#pragma once

#include <filesystem>
#include <string>

#include "cli/flags/arguments.h"

namespace tern::cli {

// Held while a run writes to its directory, so that a second run is refused; ends with the process, killed or not.
class DirectoryLock {
 public:
  // Makes the directory where there is none. Throws Failure where it cannot be written or another run holds it.
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

// --output_dir, else output/<name of the model>.
[[nodiscard]] std::filesystem::path base_directory(const Arguments& arguments);

// Makes base/vN-YYYYMMDD-HHMMSS, N one above the highest there; two runs that ask at once get two. Throws Failure.
[[nodiscard]] std::filesystem::path new_version(const std::filesystem::path& base);

// The checkpoint of --resume_from_checkpoint; `last` is the newest sound one, in the newest version directory that has
// one. Empty where the flag is not given. Throws Failure (data) where there is none.
[[nodiscard]] std::filesystem::path checkpoint_to_resume(const Arguments& arguments, const std::filesystem::path& base);

}  // namespace tern::cli
