// Blocks of the key-value cache that the device needed for other tokens: which of them lie in the host's memory, by the
// hashes of what is in them, and which copies are to be made. A pure state machine beside the scheduler: it decides,
// and the engine copies (swap_space.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
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
  BlockHash hash{};
};

// What is behind the tier, slower and larger: blocks are brought to places of the tier first.
class SwapStore {
 public:
  SwapStore() = default;
  SwapStore(const SwapStore&) = delete;
  SwapStore& operator=(const SwapStore&) = delete;
  virtual ~SwapStore() = default;
  [[nodiscard]] virtual bool has(const BlockHash& hash) const = 0;
  // These are about to be loaded.
  virtual void will_load(std::span<const BlockHash> hashes) = 0;
  // Brings a block to a place, once the copies that were asked for are made; false: it's damaged, and not there any
  // more.
  [[nodiscard]] virtual bool load(const BlockHash& hash, std::int32_t place) = 0;
  // The block was used, wherever it was.
  virtual void use(const BlockHash& hash) = 0;
  virtual void forget(const BlockHash& hash) = 0;
  virtual void forget_all() = 0;
};

// What is kept stays until its place is needed: that of the block which was used longest ago goes first. A block that
// was fetched stays too, as what is in it doesn't change.
class SwapTier {
 public:
  // At most so many blocks. `make_place` is asked before the next place is used for the first time; where it has no
  // memory for it, the tier makes do with those that it has. `store`, where there is one, outlives the tier.
  SwapTier(std::int64_t most, std::function<bool()> make_place, SwapStore* store = nullptr);

  // Here, or in what is behind.
  [[nodiscard]] bool has(const BlockHash& hash) const;
  [[nodiscard]] std::int64_t num_blocks() const { return static_cast<std::int64_t>(entries_.size()); }
  // Whether what ends is to be kept while it's still on the device: there is something behind that outlives both.
  [[nodiscard]] bool keeps_what_ends() const { return store_ != nullptr; }
  // Has the block copied to the host, unless its content is there. Where every place is held, it's let go.
  void keep(const BlockHash& hash, std::int32_t block);
  // Before these are held.
  void will_hold(std::span<const BlockHash> hashes);
  // Nothing takes the place of a block that is there until it has been fetched or let go. False: what is behind can't
  // bring it, or has no place to bring it to.
  [[nodiscard]] bool hold(const BlockHash& hash);
  void let_go(const BlockHash& hash) { entries_.at(hash)->is_held = false; }
  // Has a block that is held copied to one of the device.
  void fetch(const BlockHash& hash, std::int32_t block);
  void forget(const BlockHash& hash);
  void forget_all();

  // To be made in this order, one after the other, before the device computes anything: a later one may read what an
  // earlier one wrote, and write where an earlier one read.
  [[nodiscard]] std::span<const BlockCopy> copies() const { return copies_; }
  void copied() { copies_.clear(); }
  // The place of a block that is here.
  [[nodiscard]] std::optional<std::int32_t> place_of(const BlockHash& hash) const;
  // Somebody reads what lies at the place: it stays, forgotten or not, until as many have said that they have done.
  void pin(std::int32_t place) { ++pins_[static_cast<std::size_t>(place)]; }
  void unpin(std::int32_t place);

 private:
  struct Entry {
    BlockHash hash{};
    std::int32_t place = 0;
    bool is_held = false;
  };
  using Entries = std::list<Entry>;
  [[nodiscard]] std::optional<std::int32_t> take_place();  // none: every place is held
  void drop(const BlockHash& hash);
  Entry& enter(const BlockHash& hash, std::int32_t place);

  std::int64_t most_;
  std::function<bool()> make_place_;
  SwapStore* store_;
  Entries by_use_;  // the one that was used last is first
  std::unordered_map<BlockHash, Entries::iterator, FirstBits> entries_;
  std::vector<std::int32_t> pins_;  // by place, of those that there are
  std::vector<bool> is_left_;       // by place: nobody finds it, and it's free once nobody reads it
  std::vector<std::int32_t> free_places_;
  std::vector<BlockCopy> copies_;
};

}  // namespace tern::engine
