#include "engine/block_pool.h"

namespace tern::engine {

BlockPool::BlockPool(std::int64_t num_blocks, std::int64_t block_size)
    : num_blocks_(num_blocks), block_size_(block_size) {
  free_.reserve(static_cast<std::size_t>(num_blocks));
  for (std::int64_t b = num_blocks; b > 0; --b) free_.push_back(static_cast<std::int32_t>(b));
}

bool BlockPool::grow(std::vector<std::int32_t>& blocks, std::int64_t tokens) {
  const std::int64_t missing = blocks_for(tokens) - static_cast<std::int64_t>(blocks.size());
  if (missing > num_free()) return false;
  for (std::int64_t i = 0; i < missing; ++i) {
    blocks.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void BlockPool::shrink(std::vector<std::int32_t>& blocks, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    free_.push_back(blocks.back());
    blocks.pop_back();
  }
}

}  // namespace tern::engine
