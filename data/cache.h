// Tokenised samples in a file that is mapped, not read: one file a (content, settings) key, or a file that a user keeps
// (data/cached_dataset.h).
//
// A cache appears under its name only when it is whole (written beside it, fsynced, renamed), so two processes and a
// kill -9 at any time leave either a sound file or none. While one process writes, others that want the same key wait
// for it. What a killed writer left behind is removed by the next one.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/sample.h"
#include "io/mapped_file.h"

namespace tern::data {

// What happened to the rows on the way: kept in the cache, so that a hit tells what a miss told.
struct RowCounts {
  std::uint64_t rows = 0;                 // read from the files, bad ones included
  std::uint64_t bad = 0;                  // dropped: not what the contract asks for
  std::uint64_t too_long = 0;             // dropped: longer than max_length (truncation_strategy delete)
  std::uint64_t truncated = 0;            // samples shortened
  std::uint64_t split_rows = 0;           // rows cut into several samples by truncation_strategy split
  std::uint64_t split_turns = 0;          // rows whose turns became samples of their own, as the template demands
  std::uint64_t unsupervised = 0;         // dropped: no supervised token
  std::uint64_t selected = 0;             // rows that were to be encoded
  std::vector<std::string> first_errors;  // of the bad rows, in file order, at most kKeptErrors

  static constexpr std::size_t kKeptErrors = 8;
};

class SampleCache final : public SampleStore {
 public:
  // Checks the whole file, its checksum included. An Error where it is not a sound cache.
  static Result<std::shared_ptr<const SampleCache>> open(const std::filesystem::path& path);

  [[nodiscard]] std::uint32_t size() const override { return static_cast<std::uint32_t>(infos_.size()); }
  [[nodiscard]] SampleView sample(std::uint32_t index) const override;
  [[nodiscard]] const SampleInfo& info(std::uint32_t index) const override { return infos_[index]; }
  [[nodiscard]] std::span<const ColumnSpec> columns() const override { return columns_; }
  [[nodiscard]] std::span<const std::byte> column(std::uint32_t index, std::size_t column) const override;
  [[nodiscard]] bool begins_group(std::uint32_t index) const override { return begins_group_[index] != 0; }
  [[nodiscard]] const RowCounts& counts() const { return counts_; }

 private:
  SampleCache() = default;
  std::shared_ptr<const io::MappedFile> file_;
  std::span<const SampleInfo> infos_;
  std::vector<ColumnSpec> columns_;
  std::span<const std::uint64_t> ends_;         // [samples, columns] of the columns' bytes, which follow the tokens
  std::span<const std::uint8_t> begins_group_;  // [samples]
  RowCounts counts_;
};

// Writes one cache. Destroyed before finish(), it removes what it wrote.
class SampleCacheWriter {
 public:
  static Result<std::unique_ptr<SampleCacheWriter>> create(const std::filesystem::path& target,
                                                           std::vector<ColumnSpec> columns = {});
  ~SampleCacheWriter();
  SampleCacheWriter(const SampleCacheWriter&) = delete;
  SampleCacheWriter& operator=(const SampleCacheWriter&) = delete;

  // `columns`: the bytes of the sample's entries in each column, or fewer where the rest have none.
  Status add(SampleView sample, std::span<const std::vector<std::byte>> columns, std::uint64_t row, std::uint64_t line,
             bool begins_group = true);
  // Makes the file durable and gives it its name.
  Status finish(const RowCounts& counts);

 private:
  struct State;
  explicit SampleCacheWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Held by the process that makes `target`; others wait in acquire(). Ends with its holder, killed or not.
class CacheLock {
 public:
  static Result<CacheLock> acquire(const std::filesystem::path& target);
  ~CacheLock();
  CacheLock(CacheLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  CacheLock& operator=(CacheLock&&) = delete;

 private:
  explicit CacheLock(int fd) : fd_(fd) {}
  int fd_;
};

// $TERN_CACHE_DIR/datasets, else $XDG_CACHE_HOME/tern/datasets, else ~/.cache/tern/datasets.
[[nodiscard]] std::filesystem::path default_cache_directory();

}  // namespace tern::data
