#include "engine/block_pool.h"

#include <bit>

namespace tern::engine {

BlockPool::BlockPool(std::int64_t num_blocks, std::int64_t block_size)
    : num_blocks_(num_blocks),
      block_size_(block_size),
      blocks_(static_cast<std::size_t>(num_blocks + 1)),
      slots_(std::bit_ceil(static_cast<std::size_t>(num_blocks + 1)), 0) {
  for (std::int64_t b = 1; b <= num_blocks; ++b) put_behind(static_cast<std::int32_t>(b), at(0).before);
}

bool BlockPool::grow(std::vector<std::int32_t>& blocks, std::int64_t tokens) {
  const std::int64_t missing = blocks_for(tokens) - static_cast<std::int64_t>(blocks.size());
  if (missing > num_free_) return false;
  for (std::int64_t i = 0; i < missing; ++i) {
    const std::int32_t block = at(0).after;
    take_out(block);
    if (at(block).is_indexed) {
      strike(block);
      if (lists_given_out_) given_out_.push_back({block, at(block).hash});
    }
    at(block).references = 1;
    blocks.push_back(block);
  }
  return true;
}

void BlockPool::undo_grow(std::vector<std::int32_t>& blocks, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t block = blocks.back();
    blocks.pop_back();
    at(block).references = 0;
    if (at(block).is_hashed) enter(block);
    put_behind(block, 0);
    if (!given_out_.empty() && given_out_.back().block == block) given_out_.pop_back();
  }
}

void BlockPool::list_given_out() {
  lists_given_out_ = true;
  given_out_.reserve(static_cast<std::size_t>(num_blocks_));
}

void BlockPool::release(std::vector<std::int32_t>& blocks) {
  for (; !blocks.empty(); blocks.pop_back()) {
    const std::int32_t block = blocks.back();
    Block& released = at(block);
    if (--released.references > 0) continue;
    released.is_hashed = released.is_indexed;
    if (released.is_indexed) {
      put_behind(block, at(0).before);
    } else {
      put_behind(block, 0);
    }
  }
}

void BlockPool::publish(std::int32_t block, const BlockHash& hash) {
  Block& published = at(block);
  if (published.is_indexed) strike(block);
  published.hash = hash;
  published.is_hashed = true;
  enter(block);
}

void BlockPool::forget(std::span<const std::int32_t> blocks) {
  for (const std::int32_t block : blocks) {
    Block& forgotten = at(block);
    if (forgotten.is_indexed) {
      strike(block);
      if (forgotten.references == 0) --num_cached_;
    }
    forgotten.is_hashed = false;
  }
}

void BlockPool::forget_all() {
  for (std::int64_t b = 1; b <= num_blocks_; ++b) {
    const auto block = static_cast<std::int32_t>(b);
    forget({&block, 1});
  }
}

std::int32_t BlockPool::find(const BlockHash& hash) const {
  std::int32_t found = 0;
  for (std::int32_t block = slots_[slot_of(hash)]; block > 0; block = at(block).same_slot) {
    if (at(block).hash == hash && (found == 0 || block < found)) found = block;
  }
  return found;
}

void BlockPool::share(std::int32_t block) {
  if (at(block).references++ == 0) take_out(block);
}

std::size_t BlockPool::slot_of(const BlockHash& hash) const { return FirstBits{}(hash) & (slots_.size() - 1); }

void BlockPool::put_behind(std::int32_t block, std::int32_t before) {
  Block& put = at(block);
  put.before = before;
  put.after = at(before).after;
  at(put.after).before = block;
  at(before).after = block;
  ++num_free_;
  num_cached_ += put.is_indexed ? 1 : 0;
}

void BlockPool::take_out(std::int32_t block) {
  Block& taken = at(block);
  at(taken.before).after = taken.after;
  at(taken.after).before = taken.before;
  --num_free_;
  num_cached_ -= taken.is_indexed ? 1 : 0;
}

void BlockPool::enter(std::int32_t block) {
  Block& entered = at(block);
  std::int32_t& slot = slots_[slot_of(entered.hash)];
  entered.same_slot = slot;
  entered.is_indexed = true;
  slot = block;
}

void BlockPool::strike(std::int32_t block) {
  std::int32_t* at_slot = &slots_[slot_of(at(block).hash)];
  while (*at_slot != block) at_slot = &at(*at_slot).same_slot;
  *at_slot = at(block).same_slot;
  at(block).same_slot = 0;
  at(block).is_indexed = false;
}

}  // namespace tern::engine
