// Which blocks of the paged key-value cache are free, who holds the others (Kwon et al., "Efficient Memory Management
// for Large Language Model Serving with PagedAttention", 2023), and which of them can be found by what is in them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/prefix_hash.h"

namespace tern::engine {

// Several sequences may hold one block: it's full then, and nobody writes to it. A block that nobody holds keeps what
// is in it, and can be found, until it's given out again: those that can't be found first, then the one that was given
// back longest ago.
class BlockPool {
 public:
  // Gives out blocks 1 to `num_blocks`: block 0 takes rows of padding (ops/kv_write.h).
  BlockPool(std::int64_t num_blocks, std::int64_t block_size);

  [[nodiscard]] std::int64_t block_size() const { return block_size_; }
  [[nodiscard]] std::int64_t num_blocks() const { return num_blocks_; }  // that sequences can hold
  [[nodiscard]] std::int64_t num_free() const { return num_free_; }      // those that can be found among them
  [[nodiscard]] std::int64_t num_cached() const { return num_cached_; }  // free, and can be found
  [[nodiscard]] std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  [[nodiscard]] std::int32_t references(std::int32_t block) const { return at(block).references; }

  // Grows `blocks` until it holds `tokens`; false, and nothing changed, where too few are free.
  [[nodiscard]] bool grow(std::vector<std::int32_t>& blocks, std::int64_t tokens);
  // Takes back what grow() did last, `count` blocks: all is as it was, and what could be found can be again. Nothing
  // may have been released since, and no list of given_out() taken.
  void undo_grow(std::vector<std::int32_t>& blocks, std::int64_t count);
  // Gives all of them back. The last ones are the first that are given out again.
  void release(std::vector<std::int32_t>& blocks);

  // From now on the block, which somebody holds, is found by this hash: it's full and computed.
  void publish(std::int32_t block, const BlockHash& hash);
  // Nobody finds these blocks any more.
  void forget(std::span<const std::int32_t> blocks);
  void forget_all();
  // A block of this hash; 0: none. Of several, always the one of the lowest number.
  [[nodiscard]] std::int32_t find(const BlockHash& hash) const;
  // A further holder of a block that was found.
  void share(std::int32_t block);

  // A block that could be found until grow() gave it out. What is in it stays until its new holder's step.
  struct GivenOut {
    std::int32_t block = 0;
    BlockHash hash{};
  };
  // From now on these are listed, in their order.
  void list_given_out();
  [[nodiscard]] std::span<const GivenOut> given_out() const { return given_out_; }
  void clear_given_out() { given_out_.clear(); }

 private:
  struct Block {
    BlockHash hash{};
    bool is_hashed = false;       // it has been published, and not been forgotten
    bool is_indexed = false;      // and it's found: nobody has taken it for other tokens
    std::int32_t references = 0;  // 0: free
    std::int32_t before = 0;      // among the free ones; 0: it's the first
    std::int32_t after = 0;       // 0: it's the last
    std::int32_t same_slot = 0;   // the next one that is found in the same slot; 0: none
  };
  [[nodiscard]] Block& at(std::int32_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] const Block& at(std::int32_t block) const { return blocks_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] std::size_t slot_of(const BlockHash& hash) const;
  void put_behind(std::int32_t block, std::int32_t before);  // in the free ones; behind 0 is first, before 0 last
  void take_out(std::int32_t block);                         // of the free ones
  void enter(std::int32_t block);                            // into the slots
  void strike(std::int32_t block);                           // from them

  std::int64_t num_blocks_;
  std::int64_t block_size_;
  std::int64_t num_free_ = 0;
  std::int64_t num_cached_ = 0;
  std::vector<Block> blocks_;        // [0] stands for both ends of the free ones
  std::vector<std::int32_t> slots_;  // by the first bits of a hash: a block that is found there; 0: none
  bool lists_given_out_ = false;
  std::vector<GivenOut> given_out_;
};

}  // namespace tern::engine
