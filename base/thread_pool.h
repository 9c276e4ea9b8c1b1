// A pool of threads for data-parallel loops. Hand-off is a store and a spin while the pool is hot; idle workers sleep.
// Where every thread can have a cpu for itself, those that meet on one part again.
//
// Any thread may call; one loop runs on the workers at a time. A loop started inside a loop, or while another thread's
// loop holds the workers, runs on its caller alone, with the same split of the range, so results cannot depend on which
// it was.
//
// fork(): the child has no workers. A pool that crossed a fork runs everything on its caller and is safe to destroy.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tern {

// Threads that this process may keep busy: the affinity mask, cut by the cgroup's CPU quota (v1 and v2), at least 1.
[[nodiscard]] int usable_threads();

class ThreadPool {
 public:
  // num_threads counts the caller; 0: usable_threads().
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const { return num_threads_; }

  // Splits [0, count) into at most num_threads() contiguous ranges of at least `grain` (but the last), and calls
  // fn(begin, end, thread) for each, thread < num_threads(). The split depends on count, grain and num_threads() alone.
  // The first exception thrown by fn is rethrown here after all have ended.
  template <typename Fn>
  void parallel_for(std::int64_t count, std::int64_t grain, Fn&& fn) {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    const std::int64_t ranges = std::min<std::int64_t>(num_threads_, (count + grain - 1) / grain);
    if (ranges == 1) {
      fn(std::int64_t{0}, count, 0);
      return;
    }
    struct Job {
      std::remove_reference_t<Fn>* fn;
      std::int64_t count, ranges;
    } job{&fn, count, ranges};
    run(static_cast<int>(ranges), &job, [](void* context, int range) {
      const auto& j = *static_cast<Job*>(context);
      (*j.fn)(j.count * range / j.ranges, j.count * (range + 1) / j.ranges, range);
    });
  }

  // Calls fn(task, thread) for each task in [0, count). Threads take the next task as they become free, so use it for
  // uneven work whose result does not depend on who does it.
  template <typename Fn>
  void parallel_tasks(std::int64_t count, Fn&& fn) {
    if (count <= 0) return;
    const auto width = static_cast<int>(std::min<std::int64_t>(num_threads_, count));
    if (width == 1) {
      for (std::int64_t task = 0; task < count; ++task) fn(task, 0);
      return;
    }
    struct Job {
      std::remove_reference_t<Fn>* fn;
      std::int64_t count;
      std::atomic<std::int64_t> next{0};
    } job{&fn, count};
    run(width, &job, [](void* context, int thread) {
      auto& j = *static_cast<Job*>(context);
      for (;;) {
        const std::int64_t task = j.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= j.count) return;
        (*j.fn)(task, thread);
      }
    });
  }

 private:
  using Body = void (*)(void* context, int range);
  // Runs body(context, i) for i in [0, width), width <= num_threads(): range 0 here, the others on workers.
  void run(int width, void* context, Body body);

  struct Shared;
  int num_threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace tern
