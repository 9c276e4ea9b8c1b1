// A directory that appears whole or not at all: it is written beside its target as `.<name>.tmp-<pid>`, flushed,
// described by manifest.json, and renamed. A crash leaves at most the temporary one, which the next run removes. Its
// name is hidden, so that no pattern of the targets' names matches it. A directory goes in the same way.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace tern::io {

class AtomicDir {
 public:
  enum class Existing { refuse, replace };

  // Makes the temporary directory (and the target's parents). With `refuse` an existing target is a usage error.
  static Result<AtomicDir> begin(const std::filesystem::path& target, Existing existing);
  AtomicDir(AtomicDir&&) noexcept;
  AtomicDir& operator=(AtomicDir&&) noexcept;
  ~AtomicDir();  // removes what was not committed

  [[nodiscard]] const std::filesystem::path& path() const;  // write here; subdirectories are fine
  // Flushes every file, writes `manifest.json` ({"files": {name: {"size", "xxh3_64"}}}), and renames. An existing
  // target is exchanged in one step, then removed. After an Error the target is as it was.
  [[nodiscard]] Status commit();

 private:
  struct State;
  explicit AtomicDir(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class Verify { sizes, checksums };

// Every file of the directory's manifest.json is there with its size (and checksum), and the manifest itself is sound.
[[nodiscard]] Status verify_manifest(const std::filesystem::path& directory, Verify depth = Verify::checksums);

// Removes a directory: it is renamed to a temporary name first, so that it is whole or gone. Errors: the file system's.
[[nodiscard]] Status remove_directory(const std::filesystem::path& directory);

// Removes the temporary directories in `parent` whose writer is gone (a live one holds a lock); their names. With
// `target`, those of this name only: begin() does so itself.
std::vector<std::string> remove_stale_directories(const std::filesystem::path& parent, const std::string& target = {});

// The same for a file that is written beside its target as `<name>.tmp-<pid>[.extension]`: gone is a writer of no
// process here that has not written for a minute (on a shared disk it may be another host's).
void remove_stale_files(const std::filesystem::path& target);

}  // namespace tern::io
