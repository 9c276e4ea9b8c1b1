// Which blocks of the paged key-value cache are free, and who holds the others (Kwon et al., "Efficient Memory
// Management for Large Language Model Serving with PagedAttention", 2023).
#pragma once

#include <cstdint>
#include <vector>

namespace tern::engine {

class BlockPool {
 public:
  // Gives out blocks 1 to `num_blocks`: block 0 takes rows of padding (ops/kv_write.h).
  BlockPool(std::int64_t num_blocks, std::int64_t block_size);

  [[nodiscard]] std::int64_t block_size() const { return block_size_; }
  [[nodiscard]] std::int64_t num_blocks() const { return num_blocks_; }  // that sequences can hold
  [[nodiscard]] std::int64_t num_free() const { return static_cast<std::int64_t>(free_.size()); }
  [[nodiscard]] std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }

  // Grows `blocks` until it holds `tokens`; false, and nothing changed, where too few are free.
  [[nodiscard]] bool grow(std::vector<std::int32_t>& blocks, std::int64_t tokens);
  // Gives the last `count` of them back, which grow() then gives out again in the same order.
  void shrink(std::vector<std::int32_t>& blocks, std::int64_t count);
  // Gives all of them back.
  void release(std::vector<std::int32_t>& blocks) { shrink(blocks, static_cast<std::int64_t>(blocks.size())); }

 private:
  std::int64_t num_blocks_;
  std::int64_t block_size_;
  std::vector<std::int32_t> free_;  // taken from the end
};

}  // namespace tern::engine
