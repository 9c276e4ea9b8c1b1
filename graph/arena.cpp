#include "graph/arena.h"

#include <algorithm>
#include <stdexcept>

namespace tern::graph {

std::vector<Arena::Block> Arena::take(std::span<const std::uint64_t> sizes) {
  std::erase_if(blocks_, [](const auto& block) { return block.expired(); });
  std::vector<Block> free;
  for (const auto& block : blocks_) free.push_back(block.lock());
  std::sort(free.begin(), free.end(), [](const Block& a, const Block& b) { return a->bytes() < b->bytes(); });
  std::vector<Block> taken;
  for (const std::uint64_t size : sizes) {
    const auto fits =
        std::find_if(free.begin(), free.end(), [&](const Block& block) { return block->bytes() >= size; });
    if (fits != free.end()) {
      taken.push_back(*fits);
      free.erase(fits);
      continue;
    }
    taken.push_back(
        std::make_shared<accel::CachingAllocator::Block>(allocator_->allocate(size, "intermediate values")));
    blocks_.push_back(taken.back());
  }
  return taken;
}

const accel::Stream& Arena::stream(Lane lane) {
  auto& stream = streams_[static_cast<std::size_t>(lane)];
  if (!stream) stream = allocator_->device()->make_stream();
  return *stream;
}

std::uint64_t Arena::bytes() const {
  std::uint64_t total = 0;
  for (const auto& block : blocks_) {
    if (const auto held = block.lock()) total += held->bytes();
  }
  return total;
}

void Arena::begin_run(const void* program) {
  if (running_ != nullptr) throw std::logic_error("program: another one that shares its arena is running");
  running_ = program;
}

}  // namespace tern::graph
