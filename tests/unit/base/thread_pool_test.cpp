#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tern {
namespace {

// Broken if a range is lost, doubled or handed to a thread index that scratch memory is not sized for.
TEST(ThreadPool, EveryElementOnceWhateverTheSizes) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (std::int64_t count : {0, 1, 2, 7, 8, 9, 1000}) {
      for (std::int64_t grain : {0, 1, 3, 100000}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_LT(thread, threads);
          EXPECT_LT(begin, end);
          for (auto i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        for (const auto& hit : hits) ASSERT_EQ(hit, 1) << threads << " " << count << " " << grain;
        pool.parallel_tasks(count, [&](std::int64_t i, int) { ++hits[static_cast<std::size_t>(i)]; });
        for (const auto& hit : hits) ASSERT_EQ(hit, 2);
      }
    }
  }
}

// Broken if the workers' writes are not visible after the loop (run under the thread sanitizer too).
TEST(ThreadPool, WritesAreSeenAfterEachOfManyLoops) {
  ThreadPool pool(4);
  std::vector<int> data(64, 0);
  for (int step = 0; step < 5000; ++step) {
    pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = begin; i < end; ++i) ++data[static_cast<std::size_t>(i)];
    });
  }
  EXPECT_EQ(std::accumulate(data.begin(), data.end(), 0), 64 * 5000);
}

#if defined(__linux__)
// Broken if a worker that was put on its caller's cpu stays there, while another has nothing to do.
TEST(ThreadPool, ThreadsThatMeetOnACpuPartAgain) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one cpu";
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    int cpus[2] = {-1, -1};
    const int meet = sched_getcpu();
    const auto meeting = [&](std::int64_t, std::int64_t, int thread) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(meet, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
      cpus[thread] = sched_getcpu();
      if (thread == 1) {
        ASSERT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
      }
    };
    pool.parallel_for(2, 1, meeting);
    ASSERT_EQ(cpus[0], meet);
    ASSERT_EQ(cpus[1], meet);
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int thread) { cpus[thread] = sched_getcpu(); });
    EXPECT_EQ(cpus[0], meet);
    EXPECT_NE(cpus[1], meet);
    ASSERT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  }
}
#endif

TEST(ThreadPool, NestedLoopsRunOnTheirCaller) {
  ThreadPool pool(3);
  std::atomic<int> sum{0};
  pool.parallel_for(3, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = begin; i < end; ++i) {
      const auto me = std::this_thread::get_id();
      pool.parallel_for(10, 1, [&](std::int64_t b, std::int64_t e, int) {
        EXPECT_EQ(std::this_thread::get_id(), me);
        sum += static_cast<int>(e - b);
      });
    }
  });
  EXPECT_EQ(sum, 30);
}

TEST(ThreadPool, CallersOnTwoThreadsBothFinish) {
  ThreadPool pool(2);
  std::atomic<std::int64_t> sum{0};
  auto loops = [&] {
    for (int i = 0; i < 2000; ++i) {
      pool.parallel_for(16, 1, [&](std::int64_t b, std::int64_t e, int) { sum += e - b; });
    }
  };
  std::thread other(loops);
  loops();
  other.join();
  EXPECT_EQ(sum, 2 * 2000 * 16);
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolLives) {
  ThreadPool pool(2);
  for (int where : {0, 1}) {
    EXPECT_THROW(pool.parallel_for(2, 1,
                                   [&](std::int64_t, std::int64_t, int thread) {
                                     if (thread == where) throw std::runtime_error("x");
                                   }),
                 std::runtime_error);
  }
  int ran = 0;
  pool.parallel_for(1, 1, [&](std::int64_t, std::int64_t, int) { ++ran; });
  EXPECT_EQ(ran, 1);
}

TEST(ThreadPool, SleepingWorkersWake) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    pool.parallel_for(2, 1, [&](std::int64_t b, std::int64_t e, int) { sum += static_cast<int>(e - b); });
  }
  EXPECT_EQ(sum, 10);
}

// Broken if the child waits for workers that exist only in its parent.
TEST(ThreadPool, AForkedChildRunsAlone) {
  ThreadPool pool(2);
  const pid_t child = fork();
  if (child == 0) {
    int sum = 0;
    pool.parallel_for(10, 1, [&](std::int64_t b, std::int64_t e, int) { sum += static_cast<int>(e - b); });
    _exit(sum == 10 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(UsableThreads, ObeysTheAffinityMask) {
  std::thread([] {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(usable_threads(), 1);
  }).join();
  EXPECT_GE(usable_threads(), 1);
}

}  // namespace
}  // namespace tern
