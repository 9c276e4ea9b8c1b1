// A disk as a crash can leave it: what POSIX promises of a journal's operations, and no more. A file's bytes are there
// once it was synced; a folder's entries once the folder was. Of what came after, a disk may have all, nothing, or a
// beginning, each file and folder for itself (Pillai et al., "All File Systems Are Not Created Equal", 2014).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/crash/journal.h"

namespace tern::crash {

struct Record {
  RecordHead head;
  std::string path;  // below the root: "run/checkpoint-1"
  std::string data;  // of a rename: below the root, too
};
// Throws std::runtime_error where the journal ends in the middle of a record.
[[nodiscard]] std::vector<Record> read_journal(const std::filesystem::path& journal, const std::filesystem::path& root);

// What of the operations that nothing synced is on the disk.
enum class Unsynced {
  nothing,        // neither bytes nor entries
  entries,        // all entries, no bytes: files are as long as at their last sync
  entries_zeros,  // all entries and lengths, zeros for bytes
  everything,
  beginnings,  // of each file's writes and each folder's entries, by chance
};

class Disk {
 public:
  // A folder that was there before, with what is in it, all of it synced.
  explicit Disk(const std::filesystem::path& root);
  void apply(const Record& record);
  // Writes what a crash now leaves below `folder`, which is empty.
  void leave(const std::filesystem::path& folder, Unsynced unsynced, std::mt19937& random) const;

 private:
  using Entries = std::map<std::string, std::uint64_t>;  // inodes by name
  struct Change {
    std::string bytes;         // written at `offset`; or, where `is_size`, the file is `offset` bytes long
    std::uint64_t offset = 0;
    bool is_size = false;
  };
  struct Node {
    bool is_folder = false;
    std::string link;              // a symbolic link's target; "": none
    std::string synced;            // a file's bytes
    std::vector<Change> changes;   // since the sync
    Entries entries;               // a folder's, now
    std::vector<Entries> history;  // ... after each change since the sync; the first is the synced state
  };
  static void change(std::string& bytes, const Change& change, bool zeros);
  [[nodiscard]] std::string bytes_of(const Node& node, Unsynced unsynced, std::mt19937& random) const;
  [[nodiscard]] const Entries& entries_of(const Node& node, Unsynced unsynced, std::mt19937& random) const;
  std::uint64_t load(const std::filesystem::path& path);
  std::uint64_t add(std::uint64_t inode, Node node);
  [[nodiscard]] std::uint64_t folder_of(const std::string& path) const;  // the folder that holds it
  void set(const std::string& path, std::uint64_t node);                 // 0: none
  [[nodiscard]] std::uint64_t at(const std::string& path) const;
  void leave(std::uint64_t node, const std::filesystem::path& path, Unsynced unsynced, std::mt19937& random) const;

  std::map<std::uint64_t, Node> nodes_;          // by a number of their own: inodes are used again
  std::map<std::uint64_t, std::uint64_t> nodes_of_inodes_;
  std::uint64_t root_ = 0;
  std::uint64_t next_ = 1;
};

}  // namespace tern::crash
