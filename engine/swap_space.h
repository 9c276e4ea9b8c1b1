// What is behind an engine's key-value cache: host memory, and a folder of files behind that. What its SwapTier decides
// is copied here and back. Memory is taken as it's needed, pinned, so that devices copy at their full rate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accel/device.h"
#include "engine/cache_engine.h"
#include "engine/swap_files.h"
#include "engine/swap_tier.h"

namespace tern::engine {

struct SwapOptions {
  std::uint64_t bytes = 0;      // of the host's memory; 0: none is kept
  std::filesystem::path dir;    // ""; or a folder where blocks outlive the server
  std::uint64_t dir_bytes = 0;  // of its files
  // All that blocks hang on beside tokens, but for how the cache is made (swap_about.h).
  std::string about;
};

class SwapSpace : private SwapStore {
 public:
  // `cache` outlives it. Throws Failure: (usage) where the bytes hold no block, or are more than the machine has; what
  // SwapFiles::open says.
  SwapSpace(CacheEngine& cache, const SwapOptions& options);
  // Waits for files that are being written.
  ~SwapSpace() override = default;

  [[nodiscard]] SwapTier& tier() { return tier_; }
  [[nodiscard]] const SwapTier& tier() const { return tier_; }
  [[nodiscard]] SwapFiles* files() const { return files_.get(); }  // null: there is no folder
  // Makes the copies that the tier asks for, while no step runs, and waits for them.
  void copy();
  // Frees places whose files have been written.
  void tidy();

 private:
  [[nodiscard]] bool has(const BlockHash& hash) const override { return files_->has(hash); }
  void will_load(std::span<const BlockHash> hashes) override;
  [[nodiscard]] bool load(const BlockHash& hash, std::int32_t place) override;
  void use(const BlockHash& hash) override { files_->use(hash); }
  void forget(const BlockHash& hash) override { files_->forget(hash); }
  void forget_all() override { files_->forget_all(); }
  [[nodiscard]] bool make_place();
  [[nodiscard]] std::span<std::byte> at(std::int32_t place) const;
  void write_files();

  CacheEngine& cache_;
  std::uint64_t block_bytes_;
  std::int64_t most_;
  std::int64_t places_ = 0;     // that have memory
  std::int64_t per_chunk_ = 0;  // places of each of them
  std::vector<accel::HostBuffer> chunks_;
  std::unique_ptr<SwapFiles> files_;  // goes before the memory that it writes from
  SwapTier tier_;
};

// Null where nothing is to be kept.
[[nodiscard]] std::unique_ptr<SwapSpace> make_swap_space(CacheEngine& cache, const SwapOptions& options);

}  // namespace tern::engine
