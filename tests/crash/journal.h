// What a process did to the files below one folder, in order: written by recorder.cpp, read by disk.cpp.
#pragma once

#include <cstdint>

namespace tern::crash {

enum class Operation : std::uint32_t {
  create,    // `path` is a new file `inode`
  mkdir,     // `path` is a new folder `inode`
  symlink,   // `path` is a new link `inode` to `data`
  write,     // `data` into `inode` at `offset`
  truncate,  // `inode` is `offset` bytes long
  sync,      // `inode`, a file or a folder, is on the disk
  rename,    // `path` is `data` from now on
  exchange,  // `path` and `data` change places
  unlink,    // `path`, of any kind, is gone
  report,    // `data` was written to stderr
};

// A record; `path` and `data` follow it, without an end mark.
struct RecordHead {
  Operation operation = Operation::report;
  std::uint32_t path_size = 0;
  std::uint64_t data_size = 0;
  std::uint64_t inode = 0;
  std::uint64_t offset = 0;
};

inline constexpr const char* kRoot = "TERN_CRASH_ROOT";        // the folder, an absolute path
inline constexpr const char* kJournal = "TERN_CRASH_JOURNAL";  // the file that records are appended to

}  // namespace tern::crash
