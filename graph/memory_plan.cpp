#include "graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "base/strings.h"

namespace tern::graph {
namespace {

// The last task of each lane that touches an item, and the one that defines it.
struct Lifetime {
  std::int32_t first = -1;
  LaneClock last;
};

Lifetime lifetime_of(const MemoryItem& item, std::span<const Task> tasks) {
  Lifetime life;
  life.last.fill(-1);
  if (!item.tasks.empty()) life.first = item.tasks.front();
  for (std::int32_t task : item.tasks) {
    auto& last = life.last[static_cast<std::size_t>(tasks[static_cast<std::size_t>(task)].lane)];
    last = std::max(last, task);
  }
  return life;
}

bool is_over_before(const Lifetime& earlier, const Lifetime& later, const Schedule& schedule) {
  const LaneClock& known = schedule.clocks[static_cast<std::size_t>(later.first)];
  for (std::size_t lane = 0; lane < known.size(); ++lane) {
    if (earlier.last[lane] > known[lane]) return false;
  }
  return true;
}

struct Placed {
  std::size_t item;
  std::uint64_t begin;
  std::uint64_t end;
};

// Sets both of what is needed at once.
void find_peak(std::span<const MemoryItem> items, std::size_t num_tasks, MemoryPlan& plan) {
  std::vector<std::int64_t> change(num_tasks + 1, 0);
  for (const MemoryItem& item : items) {
    if (item.tasks.empty()) continue;
    change[static_cast<std::size_t>(item.tasks.front())] += static_cast<std::int64_t>(item.bytes);
    change[static_cast<std::size_t>(item.tasks.back()) + 1] -= static_cast<std::int64_t>(item.bytes);
  }
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (std::size_t task = 0; task < num_tasks; ++task) {
    now += change[task];
    if (now > peak) plan.fullest_task = static_cast<std::int32_t>(task);
    peak = std::max(peak, now);
  }
  plan.live_peak = static_cast<std::uint64_t>(peak);
}

}  // namespace

std::uint64_t MemoryPlan::total_bytes() const {
  return std::accumulate(arena_bytes.begin(), arena_bytes.end(), std::uint64_t{0});
}

MemoryPlan plan_memory(std::span<const MemoryItem> items, std::span<const Task> tasks, const Schedule& schedule,
                       std::uint64_t alignment, std::uint64_t largest_allocation) {
  MemoryPlan plan;
  plan.places.resize(items.size());
  find_peak(items, tasks.size(), plan);
  std::vector<Lifetime> lives;
  lives.reserve(items.size());
  for (const MemoryItem& item : items) lives.push_back(lifetime_of(item, tasks));
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].bytes > items[b].bytes; });

  std::vector<std::vector<Placed>> arenas;  // each sorted by begin
  for (std::size_t item : order) {
    if (items[item].bytes == 0 || items[item].tasks.empty()) continue;
    const std::uint64_t bytes = (items[item].bytes + alignment - 1) / alignment * alignment;
    if (bytes > largest_allocation) {
      throw Failure(device_error(cat("one tensor needs ", human_bytes(bytes), ", and the device allocates at most ",
                                     human_bytes(largest_allocation), " at a time"),
                                 "use shorter sequences or a smaller batch"));
    }
    for (std::size_t a = 0; plan.places[item].arena < 0; ++a) {
      if (a == arenas.size()) {
        arenas.emplace_back();
        plan.arena_bytes.push_back(0);
      }
      std::uint64_t at = 0;
      for (const Placed& other : arenas[a]) {
        if (other.end <= at) continue;
        if (other.begin >= at + bytes) break;
        if (is_over_before(lives[other.item], lives[item], schedule) ||
            is_over_before(lives[item], lives[other.item], schedule)) {
          continue;
        }
        at = other.end;
      }
      if (at + bytes > largest_allocation) continue;
      plan.places[item] = {static_cast<std::int32_t>(a), at};
      plan.arena_bytes[a] = std::max(plan.arena_bytes[a], at + bytes);
      const Placed placed{item, at, at + bytes};
      arenas[a].insert(std::upper_bound(arenas[a].begin(), arenas[a].end(), placed,
                                        [](const Placed& x, const Placed& y) { return x.begin < y.begin; }),
                       placed);
    }
  }
  return plan;
}

}  // namespace tern::graph
