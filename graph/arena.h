// What programs of one owner take turns with: memory for intermediates, and the streams of the lanes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "accel/allocator.h"
#include "graph/graph.h"

namespace tern::graph {

// Nothing in it outlives a run, so programs that never run at once lie in the same bytes: those of all buckets, of
// training and of evaluation. The largest is best built first; a later one that needs more takes more.
class Arena {
 public:
  using Block = std::shared_ptr<const accel::CachingAllocator::Block>;

  explicit Arena(std::shared_ptr<accel::CachingAllocator> allocator) : allocator_(std::move(allocator)) {}

  // A block for each size, the smallest that fit of those that other programs hold; new ones where none does. It goes
  // when the last program that holds it does. Throws Failure (device) where memory does not suffice.
  [[nodiscard]] std::vector<Block> take(std::span<const std::uint64_t> sizes);
  [[nodiscard]] const accel::Stream& stream(Lane lane);
  [[nodiscard]] std::uint64_t bytes() const;  // that programs hold

  // Between these a program runs. Another one's run at the same time is a std::logic_error.
  void begin_run(const void* program);
  void end_run() noexcept { running_ = nullptr; }

 private:
  std::shared_ptr<accel::CachingAllocator> allocator_;
  std::vector<std::weak_ptr<const accel::CachingAllocator::Block>> blocks_;
  std::array<std::optional<accel::Stream>, kNumLanes> streams_;
  const void* running_ = nullptr;
};

}  // namespace tern::graph
