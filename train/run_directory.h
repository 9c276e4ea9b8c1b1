// Where a training run writes, and which checkpoint it goes on from.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace tern::train {

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

// Where the runs of a model go that are told no place: output/<name of the model>.
[[nodiscard]] std::filesystem::path default_output_dir(const std::string& model);

// Makes base/vN-YYYYMMDD-HHMMSS, N one above the highest there; two runs that ask at once get two. Throws Failure.
[[nodiscard]] std::filesystem::path new_version(const std::filesystem::path& base);

// The checkpoint that `from` names: a directory, or `last`, the newest sound one of `base`, in the newest version
// directory that has one. Errors (data): there is none.
[[nodiscard]] Result<std::filesystem::path> find_checkpoint(const std::string& from, const std::filesystem::path& base);

}  // namespace tern::train
