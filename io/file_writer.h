// A file being written: every failure, a full disk above all, comes back as an Error that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::io {

class FileWriter {
 public:
  // A new, empty file, or an existing one emptied.
  static Result<FileWriter> create(const std::filesystem::path& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return end_; }  // bytes appended so far

  [[nodiscard]] Status append(std::span<const std::byte> bytes);
  [[nodiscard]] Status append(std::string_view text);
  [[nodiscard]] Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Takes the room on the disk now, so that it cannot run out later.
  [[nodiscard]] Status reserve(std::uint64_t size);
  // Onto the disk, then closed.
  [[nodiscard]] Status finish();

 private:
  FileWriter() = default;
  std::string path_;
  int fd_ = -1;
  std::uint64_t end_ = 0;
};

// Writes, flushes to disk and closes in one go.
[[nodiscard]] Status write_file(const std::filesystem::path& path, std::string_view text);
// The same, beside the file as `<name>.tmp-<pid>`, then put in its place: a crash leaves the old text or the new.
[[nodiscard]] Status replace_file(const std::filesystem::path& path, std::string_view text);
// Makes a directory and those above it that are missing, all of them durable.
[[nodiscard]] Status make_directories(const std::filesystem::path& path);
// Makes the entries of a directory durable.
[[nodiscard]] Status sync_directory(const std::filesystem::path& directory);
// Flushes a finished file that another writer made.
[[nodiscard]] Status sync_file(const std::filesystem::path& path);

}  // namespace tern::io
