// A file mapped read-only, safe even where another process truncates it while it is mapped.
//
// Reading a page that no longer exists raises SIGBUS. The first mapping installs a handler that, for addresses inside a
// MappedFile, puts a page of zeros in place and marks the mapping as damaged; every other SIGBUS goes to the handler
// that was there before. So no reader needs a guard and none can crash: whoever consumed bytes in bulk (a weight copy,
// a header parse) asks `intact()` afterwards, and gets an Error in place of the zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tern::io {

class MappedFile {
 public:
  // A regular file; an empty one gives an empty span. Errors: absent, not a regular file, no permission, no memory.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // An Error where the file has shrunk since it was opened, or a read met a page that had gone.
  [[nodiscard]] Status intact() const;

  // Hints on [offset, offset + size), clamped to the file: ask for read-ahead, or give the resident pages back.
  void will_need(std::size_t offset, std::size_t size) const;
  void done_with(std::size_t offset, std::size_t size) const;
  // The same for bytes of this mapping; other spans are ignored.
  void will_need(std::span<const std::byte> part) const;
  void done_with(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  void advise(std::size_t offset, std::size_t size, int advice, bool inward) const;

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
  int slot_ = -1;  // in the handler's table
};

// The whole file as text, at most `limit` bytes; for small files (configurations, templates).
[[nodiscard]] Result<std::string> read_text_file(const std::filesystem::path& path,
                                                 std::uint64_t limit = std::uint64_t{1} << 30);

}  // namespace tern::io
