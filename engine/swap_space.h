// The host's memory behind an engine's key-value cache: what its SwapTier decides is copied here and back. It's taken
// as it's needed, pinned, so that devices copy at their full rate.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accel/device.h"
#include "engine/cache_engine.h"
#include "engine/swap_tier.h"

namespace tern::engine {

class SwapSpace {
 public:
  // Of at most so many bytes. `cache` outlives it. Throws Failure (usage) where these hold no block, or are more than
  // the machine has.
  SwapSpace(CacheEngine& cache, std::uint64_t bytes);

  [[nodiscard]] SwapTier& tier() { return tier_; }
  [[nodiscard]] const SwapTier& tier() const { return tier_; }
  [[nodiscard]] std::int64_t most_blocks() const { return most_; }
  // Makes the copies that the tier asks for, while no step runs, and waits for them.
  void copy();

 private:
  [[nodiscard]] bool make_place();
  [[nodiscard]] std::span<std::byte> at(std::int32_t place) const;

  CacheEngine& cache_;
  std::uint64_t block_bytes_;
  std::int64_t most_;
  std::int64_t places_ = 0;     // that have memory
  std::int64_t per_chunk_ = 0;  // places of each of them
  std::vector<accel::HostBuffer> chunks_;
  SwapTier tier_;
};

// Null where `bytes` is 0.
[[nodiscard]] std::unique_ptr<SwapSpace> make_swap_space(CacheEngine& cache, std::uint64_t bytes);

}  // namespace tern::engine
