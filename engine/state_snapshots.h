// Copies of the states that layers keep of all tokens so far: which there are, by the hash of the block behind which
// they were taken, and which are to be made or put back. A pure state machine beside the scheduler: it decides, and the
// engine copies (CacheEngine::copy_states). SGLang's cache of Mamba's states and Marconi (Pan et al., 2024) keep them
// at the same places: where a prompt ends, and where two of them part.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/prefix_hash.h"

namespace tern::engine {

// Between a seat and a place where states are kept.
struct StateCopy {
  bool to_seat = false;
  std::int32_t seat = 0;
  std::int32_t place = 0;
};

// The one that was used longest ago makes room.
class StateSnapshots {
 public:
  // At most so many.
  explicit StateSnapshots(std::int64_t most);

  [[nodiscard]] bool has(const BlockHash& hash) const { return entries_.contains(hash); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  // The seat's states are those behind this block: they're copied, unless that has been done.
  void keep(const BlockHash& hash, std::int32_t seat);
  // Puts those that there are behind this block at the seat.
  void restore(const BlockHash& hash, std::int32_t seat);
  void forget(const BlockHash& hash);
  void forget_all();

  // To be made in this order, one after the other, before the device computes anything.
  [[nodiscard]] std::span<const StateCopy> copies() const { return copies_; }
  void copied() { copies_.clear(); }

 private:
  struct Entry {
    BlockHash hash{};
    std::int32_t place = 0;
  };
  using Entries = std::list<Entry>;

  Entries by_use_;  // the one that was used last is first
  std::unordered_map<BlockHash, Entries::iterator, FirstBits> entries_;
  std::vector<std::int32_t> free_places_;
  std::vector<StateCopy> copies_;
};

}  // namespace tern::engine
