// The order of tasks over lanes: which tasks must wait for which, from the memory that they touch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace tern::graph {

struct Access {
  std::int32_t memory;  // whatever the tasks share: storages of a graph
  bool writes;
};

struct Task {
  Lane lane = Lane::compute;
  std::vector<Access> accesses;
};

// What is known to be over, per lane, before a task begins: tasks with an index at or below are.
using LaneClock = std::array<std::int32_t, kNumLanes>;

struct Schedule {
  std::vector<std::vector<std::int32_t>> waits;  // per task: tasks of other lanes whose events it waits for
  std::vector<bool> records;                     // per task: some other task waits for its event
  std::vector<LaneClock> clocks;                 // per task, its own lane's earlier tasks included

  [[nodiscard]] bool happens_before(std::int32_t earlier, Lane lane, std::int32_t later) const {
    return earlier <= clocks[static_cast<std::size_t>(later)][static_cast<std::size_t>(lane)];
  }
};

// Tasks of one lane run in the given order; lanes run side by side. Every read after a write, write after a read and
// write after a write of the same memory is ordered by a wait, unless another wait already implies it.
[[nodiscard]] Schedule make_schedule(std::span<const Task> tasks);

}  // namespace tern::graph
