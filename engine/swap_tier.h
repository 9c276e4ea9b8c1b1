// Blocks of the key-value cache that the device needed for other tokens: which of them lie in the host's memory, by the
// hashes of what is in them, and which copies are to be made. A pure state machine beside the scheduler: it decides,
// and the engine copies (swap_space.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/prefix_hash.h"

namespace tern::engine {

// Between a block of the device and a place of the host.
struct BlockCopy {
  bool to_device = false;
  std::int32_t block = 0;
  std::int32_t place = 0;
};

// What is kept stays until its place is needed: that of the block which was used longest ago goes first. A block that
// was fetched stays too, as what is in it doesn't change.
class SwapTier {
 public:
  // At most so many blocks. `make_place` is asked before the next place is used for the first time; where it has no
  // memory for it, the tier makes do with those that it has.
  SwapTier(std::int64_t most, std::function<bool()> make_place);

  [[nodiscard]] bool has(const BlockHash& hash) const { return entries_.contains(hash); }
  [[nodiscard]] std::int64_t num_blocks() const { return static_cast<std::int64_t>(entries_.size()); }
  // Has the block copied to the host, unless its content is there. Where every place is held, it's let go.
  void keep(const BlockHash& hash, std::int32_t block);
  // Nothing takes the place of a block that is there until it has been fetched.
  void hold(const BlockHash& hash) { entries_.at(hash)->is_held = true; }
  // Has a block that is held copied to one of the device.
  void fetch(const BlockHash& hash, std::int32_t block);
  void forget(const BlockHash& hash);
  void forget_all();

  // To be made in this order, one after the other, before the device computes anything: a later one may read what an
  // earlier one wrote, and write where an earlier one read.
  [[nodiscard]] std::span<const BlockCopy> copies() const { return copies_; }
  void copied() { copies_.clear(); }

 private:
  struct Entry {
    BlockHash hash{};
    std::int32_t place = 0;
    bool is_held = false;
  };
  using Entries = std::list<Entry>;
  struct FirstBits {  // of SHA-256: as good as any
    std::size_t operator()(const BlockHash& hash) const noexcept;
  };
  [[nodiscard]] bool free_a_place();

  std::int64_t most_;
  std::function<bool()> make_place_;
  Entries by_use_;  // the one that was used last is first
  std::unordered_map<BlockHash, Entries::iterator, FirstBits> entries_;
  std::int32_t places_ = 0;  // that there are
  std::vector<std::int32_t> free_places_;
  std::vector<BlockCopy> copies_;
};

}  // namespace tern::engine
