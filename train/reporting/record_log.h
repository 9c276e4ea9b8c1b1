// LevelDB's log of records, as wandb and SwanLab keep theirs: a file header of seven bytes, then records cut at blocks
// of 32 KiB, each piece with a CRC-32 of its kind and bytes (LevelDB itself: a masked CRC-32C, and no header).
// https://github.com/google/leveldb/blob/main/doc/log_format.md
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::train {

// A record as it lies in the file from `offset` on.
[[nodiscard]] std::string framed_record(std::string_view record, std::uint64_t offset);

// The records of a file, up to the first that is cut short or doesn't match its checksum; none without the header.
[[nodiscard]] std::vector<std::string> sound_records(std::string_view file, std::string_view header);

// A log that grows by records.
class RecordLog {
 public:
  explicit RecordLog(std::string header) : header_(std::move(header)) {}

  [[nodiscard]] bool is_open() const { return !file_.empty(); }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  // A new file, its folder made with it. What can't be written is warned of when a record is.
  void create(const std::filesystem::path& file);
  // Puts these records in the place of what the file holds. Where that fails, it stays as it was.
  [[nodiscard]] Status replace(const std::filesystem::path& file, const std::vector<std::string>& records);
  void append(std::string_view record);
  void sync() const;

 private:
  std::string header_;
  std::filesystem::path file_;  // "": none yet
  std::uint64_t size_ = 0;
};

}  // namespace tern::train
