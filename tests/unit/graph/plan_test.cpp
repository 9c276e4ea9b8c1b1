// Laws of the schedule and of the memory plan, over random tasks.
#include <gtest/gtest.h>

#include <random>

#include "base/status.h"
#include "graph/memory_plan.h"

namespace tern::graph {
namespace {

struct Tasks {
  std::vector<Task> tasks;
  std::vector<MemoryItem> items;  // one a memory, touched by the tasks that access it
};

Tasks random_work(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Tasks work;
  const std::size_t memories = 4 + below(12);
  work.items.resize(memories);
  for (MemoryItem& item : work.items) item.bytes = 1 + below(below(4) == 0 ? 3000 : 300);
  for (std::size_t t = 0, count = 5 + below(30); t < count; ++t) {
    Task task;
    task.lane = static_cast<Lane>(below(kNumLanes));
    for (std::size_t m = 0; m < memories; ++m) {
      if (below(memories) >= 2) continue;
      task.accesses.push_back({static_cast<std::int32_t>(m), below(3) == 0 || work.items[m].tasks.empty()});
      work.items[m].tasks.push_back(static_cast<std::int32_t>(t));
    }
    work.tasks.push_back(std::move(task));
  }
  return work;
}

// Which tasks are over before each begins, from lanes and waits alone.
std::vector<std::vector<bool>> reachability(const Tasks& work, const Schedule& schedule) {
  const std::size_t count = work.tasks.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (std::size_t t = 0; t < count; ++t) {
    const auto follow = [&](std::size_t other) {
      before[t][other] = true;
      for (std::size_t o = 0; o < count; ++o) {
        if (before[other][o]) before[t][o] = true;
      }
    };
    for (std::size_t other = 0; other < t; ++other) {
      if (work.tasks[other].lane == work.tasks[t].lane) follow(other);
    }
    for (std::int32_t other : schedule.waits[t]) follow(static_cast<std::size_t>(other));
  }
  return before;
}

bool conflict(const Task& a, const Task& b) {
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      if (x.memory == y.memory && (x.writes || y.writes)) return true;
    }
  }
  return false;
}

TEST(Schedule, OrdersWhatConflictsAndWaitsForNothingElse) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Tasks work = random_work(seed);
    const Schedule schedule = make_schedule(work.tasks);
    const auto before = reachability(work, schedule);
    for (std::size_t t = 0; t < work.tasks.size(); ++t) {
      for (std::size_t other = 0; other < t; ++other) {
        if (conflict(work.tasks[other], work.tasks[t])) {
          EXPECT_TRUE(before[t][other]) << "seed " << seed;
        }
        EXPECT_EQ(schedule.happens_before(static_cast<std::int32_t>(other), work.tasks[other].lane,
                                          static_cast<std::int32_t>(t)),
                  before[t][other])
            << "seed " << seed << ": task " << other << " before " << t;
      }
      for (std::int32_t other : schedule.waits[t]) {
        EXPECT_NE(work.tasks[static_cast<std::size_t>(other)].lane, work.tasks[t].lane);
        EXPECT_TRUE(schedule.records[static_cast<std::size_t>(other)]);
      }
    }
  }
}

// A schedule without one of its waits leaves a conflict unordered: none is there for nothing.
TEST(Schedule, NoWaitIsSpare) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Tasks work = random_work(seed);
    const Schedule schedule = make_schedule(work.tasks);
    for (std::size_t t = 0; t < work.tasks.size(); ++t) {
      for (std::size_t w = 0; w < schedule.waits[t].size(); ++w) {
        Schedule mutant = schedule;
        mutant.waits[t].erase(mutant.waits[t].begin() + static_cast<std::ptrdiff_t>(w));
        const auto before = reachability(work, mutant);
        bool broken = false;
        for (std::size_t a = 0; a < work.tasks.size(); ++a) {
          for (std::size_t b = 0; b < a; ++b) {
            broken = broken || (conflict(work.tasks[a], work.tasks[b]) && !before[a][b]);
          }
        }
        EXPECT_TRUE(broken) << "seed " << seed << ": task " << t << ", wait " << w;
      }
    }
  }
}

TEST(MemoryPlan, SharesMemoryOnlyInTime) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Tasks work = random_work(seed);
    const Schedule schedule = make_schedule(work.tasks);
    const auto before = reachability(work, schedule);
    constexpr std::uint64_t kAlignment = 32;
    constexpr std::uint64_t kLargest = 4096;
    const MemoryPlan plan = plan_memory(work.items, work.tasks, schedule, kAlignment, kLargest);
    const auto over_before = [&](const MemoryItem& earlier, const MemoryItem& later) {
      for (std::int32_t task : earlier.tasks) {
        if (!before[static_cast<std::size_t>(later.tasks.front())][static_cast<std::size_t>(task)]) return false;
      }
      return true;
    };
    for (std::uint64_t bytes : plan.arena_bytes) EXPECT_LE(bytes, kLargest);
    EXPECT_GE(plan.total_bytes(), plan.live_peak);
    for (std::size_t a = 0; a < work.items.size(); ++a) {
      const MemoryPlace& x = plan.places[a];
      if (work.items[a].tasks.empty()) continue;
      ASSERT_GE(x.arena, 0);
      EXPECT_EQ(x.offset % kAlignment, 0U);
      EXPECT_LE(x.offset + work.items[a].bytes, plan.arena_bytes[static_cast<std::size_t>(x.arena)]);
      for (std::size_t b = 0; b < a; ++b) {
        const MemoryPlace& y = plan.places[b];
        if (work.items[b].tasks.empty() || x.arena != y.arena) continue;
        const bool apart = x.offset + work.items[a].bytes <= y.offset || y.offset + work.items[b].bytes <= x.offset;
        EXPECT_TRUE(apart || over_before(work.items[a], work.items[b]) || over_before(work.items[b], work.items[a]))
            << "seed " << seed << ": items " << a << " and " << b;
      }
    }
  }
}

TEST(MemoryPlan, RefusesAnItemThatNoAllocationHolds) {
  Tasks work = random_work(1);
  work.items[0].bytes = 5000;
  work.items[0].tasks = {0};
  const Schedule schedule = make_schedule(work.tasks);
  EXPECT_THROW((void)plan_memory(work.items, work.tasks, schedule, 32, 4096), Failure);
}

}  // namespace
}  // namespace tern::graph
