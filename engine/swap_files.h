// Blocks of the key-value cache on disk, where later servers find them too: a file for each, named by the hash of what
// is in it. All that keys and values hang on beside tokens names their folder, so that one of another model, or of
// other sizes, isn't read.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/prefix_hash.h"

namespace tern::engine {

struct SwapFilesOptions {
  std::filesystem::path folder;
  std::uint64_t bytes = 0;  // of all files in it
  // What blocks hang on beside the tokens before them, in words: the model, how its numbers are kept and computed.
  std::string about;
  std::uint64_t block_bytes = 0;
};

// One thread asks it; another one writes. Files are found by the hash of their block, and are sound or not there: each
// has a checksum of all its bytes.
class SwapFiles {
 public:
  // Makes the folder, and finds what is in it. Where it's full of blocks of other models or sizes, those that were used
  // longest ago go, unless another server has them. Errors (usage): another server writes there; (failed): it can't be
  // written.
  static Result<std::unique_ptr<SwapFiles>> open(const SwapFilesOptions& options);
  // Writes what waits for it.
  ~SwapFiles();
  SwapFiles(const SwapFiles&) = delete;
  SwapFiles& operator=(const SwapFiles&) = delete;

  [[nodiscard]] bool has(const BlockHash& hash) const;
  [[nodiscard]] std::int64_t num_blocks() const;
  // Reads a block; false where its file is damaged or gone: it's not found any more then, and a line says so.
  [[nodiscard]] bool read(const BlockHash& hash, std::span<std::byte> bytes);
  // It will be read soon: the system may begin at once.
  void will_read(const BlockHash& hash) const;
  // The block was used, wherever it was: others make room before it.
  void use(const BlockHash& hash);
  // Has the block written, whose bytes stay as they are until written() gives its place back. Those that were used
  // longest ago make room. Where a file can't be written, a line says so, and it's the last one that is tried.
  void write(const BlockHash& hash, std::span<const std::byte> bytes, std::int32_t place);
  // Places whose bytes are needed no more, since the last call.
  [[nodiscard]] std::vector<std::int32_t> written();
  void wait_for_writes();
  void forget(const BlockHash& hash);
  void forget_all();
  // The blocks that come are of other weights: none is written any more.
  void end_writing();

 private:
  struct Job {
    BlockHash hash{};
    std::span<const std::byte> bytes;
    std::int32_t place = 0;
  };
  using Hashes = std::list<BlockHash>;

  explicit SwapFiles(SwapFilesOptions options);
  [[nodiscard]] Status begin();
  [[nodiscard]] Status lock();
  void find_files();
  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] std::filesystem::path path_of(const BlockHash& hash) const;
  void work();
  [[nodiscard]] Status write_file(const Job& job, const std::filesystem::path& path) const;
  void finish(const Job& job, const Status& wrote);
  void make_room();
  void count_room();
  void drop(const BlockHash& hash);  // from the index and the disk

  const SwapFilesOptions options_;
  const BlockHash about_;
  std::filesystem::path directory_;  // of this model's
  int lock_ = -1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Hashes by_use_;  // the one that was used last is first
  std::unordered_map<BlockHash, Hashes::iterator, FirstBits> files_;
  std::uint64_t others_ = 0;  // bytes of other models' folders
  bool others_stay_ = false;  // as other servers have them
  std::int64_t most_ = 0;     // files
  std::deque<Job> jobs_;
  std::optional<BlockHash> writing_;
  bool is_void_ = false;  // what is being written has been forgotten meanwhile
  bool writes_ = true;
  bool stop_ = false;
  std::vector<std::int32_t> written_;
  std::thread thread_;
};

}  // namespace tern::engine
