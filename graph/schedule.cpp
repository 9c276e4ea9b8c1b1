#include "graph/schedule.h"

#include <algorithm>
#include <unordered_map>

namespace tern::graph {
namespace {

// The accesses to one memory that a later task may have to wait for.
struct History {
  std::int32_t last_write = -1;
  std::vector<std::int32_t> reads;  // since that write
};

std::size_t lane_index(const Task& task) { return static_cast<std::size_t>(task.lane); }

}  // namespace

Schedule make_schedule(std::span<const Task> tasks) {
  Schedule out;
  out.waits.resize(tasks.size());
  out.records.assign(tasks.size(), false);
  out.clocks.resize(tasks.size());
  std::unordered_map<std::int32_t, History> histories;
  std::array<std::int32_t, kNumLanes> lane_last;
  lane_last.fill(-1);

  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const Task& task = tasks[t];
    const std::size_t lane = lane_index(task);
    LaneClock clock;
    clock.fill(-1);
    if (lane_last[lane] >= 0) clock = out.clocks[static_cast<std::size_t>(lane_last[lane])];
    clock[lane] = lane_last[lane];

    std::vector<std::int32_t> needed;
    for (const Access& access : task.accesses) {
      const History& history = histories[access.memory];
      if (history.last_write >= 0) needed.push_back(history.last_write);
      if (access.writes) needed.insert(needed.end(), history.reads.begin(), history.reads.end());
    }
    // Latest first: waiting for it often implies the others.
    std::sort(needed.begin(), needed.end(), std::greater<>());
    for (std::int32_t other : needed) {
      const std::size_t other_lane = lane_index(tasks[static_cast<std::size_t>(other)]);
      if (other <= clock[other_lane]) continue;
      out.waits[t].push_back(other);
      out.records[static_cast<std::size_t>(other)] = true;
      const LaneClock& theirs = out.clocks[static_cast<std::size_t>(other)];
      for (std::size_t l = 0; l < clock.size(); ++l) clock[l] = std::max(clock[l], theirs[l]);
      clock[other_lane] = std::max(clock[other_lane], other);
    }
    out.clocks[t] = clock;
    lane_last[lane] = static_cast<std::int32_t>(t);
    for (const Access& access : task.accesses) {
      History& history = histories[access.memory];
      if (access.writes) {
        history.last_write = static_cast<std::int32_t>(t);
        history.reads.clear();
      } else {
        history.reads.push_back(static_cast<std::int32_t>(t));
      }
    }
  }
  return out;
}

}  // namespace tern::graph
