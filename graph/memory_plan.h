// Where intermediates lie: offsets in arenas, memory reused only where one use is over before the other begins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/schedule.h"

namespace tern::graph {

// Something that needs memory for part of a run: an intermediate, an input's copy, or a kernel's workspace.
struct MemoryItem {
  std::uint64_t bytes = 0;
  std::vector<std::int32_t> tasks;  // every task that touches it, rising; the first one defines it
};

struct MemoryPlace {
  std::int32_t arena = -1;  // -1: an empty item needs none
  std::uint64_t offset = 0;
};

struct MemoryPlan {
  std::vector<MemoryPlace> places;         // per item
  std::vector<std::uint64_t> arena_bytes;  // none above the largest allocation
  std::int32_t fullest_task = -1;          // the first that needs the most
  std::uint64_t live_peak = 0;             // the most bytes that any one task needs at once: no plan can do with less
  [[nodiscard]] std::uint64_t total_bytes() const;
};

// Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
// item first, into the lowest gap between the placed items that may be alive together with it. Throws Failure (device)
// where an item alone exceeds `largest_allocation`.
[[nodiscard]] MemoryPlan plan_memory(std::span<const MemoryItem> items, std::span<const Task> tasks,
                                     const Schedule& schedule, std::uint64_t alignment,
                                     std::uint64_t largest_allocation);

}  // namespace tern::graph
