#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tern {
namespace {

// Counts the forks that this process descends from, so that a pool can tell that its workers stayed behind.
std::atomic<std::uint32_t> fork_generation{0};

void watch_forks() {
  static std::once_flag once;
  std::call_once(
      once, [] { pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); }); });
}

thread_local bool inside_loop = false;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// About 100 us on current cores: longer than the gap between two kernels of a step, shorter than a scheduler's slice.
constexpr int kSpins = 4000;

// Waits until `value` differs from `old`: spins, then sleeps.
std::uint32_t wait_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    relax();
  }
  for (;;) {
    value.wait(old, std::memory_order_acquire);
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
  }
}

// "max 100000" or "150000 100000": the quota in CPUs, 0 where there is none.
double read_cpu_max(const std::string& folder) {
  std::ifstream in(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double read_cfs_quota(const std::string& folder) {
  std::ifstream quota_in(folder + "/cpu.cfs_quota_us"), period_in(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_in >> quota) || !(period_in >> period) || quota <= 0 || period <= 0) return 0;
  return quota / period;
}

// The tightest quota of this process's cgroup and the ones above it; 0: none.
double cgroup_cpus() {
  double least = 0;
  auto take = [&least](double cpus) {
    if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
  };
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/a/b" or "4:cpu,cpuacct:/a/b"
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const bool v2 = controllers.empty();
    const bool cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!v2 && !cpu) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    for (;;) {
      if (path == "/") path.clear();
      take(v2 ? read_cpu_max(root + path) : read_cfs_quota(root + path));
      if (path.empty()) break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

}  // namespace

int usable_threads() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  for (int size = 1024; size <= 1 << 16; size *= 4) {  // machines with more CPUs than cpu_set_t has bits
    cpu_set_t* set = CPU_ALLOC(size);
    if (set == nullptr) break;
    const auto bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, set);
    const bool got = sched_getaffinity(0, bytes, set) == 0;
    if (got) cpus = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (got) break;
  }
  const double quota = cgroup_cpus();
  if (quota > 0) cpus = std::min(cpus, static_cast<int>(std::ceil(quota)));
#endif
  return std::max(cpus, 1);
}

namespace {

// Where the threads of a pool run. A kernel that wakes a worker may put it on its caller's cpu, where it waits until
// that one sleeps, and leave the two there for long though another cpu has nothing to do: a loop then takes twice as
// long, and what its caller spins. So a worker that finds itself there moves.
class Places {
 public:
  explicit Places(int threads) : cpus_(static_cast<std::size_t>(threads)) {
    for (auto& cpu : cpus_) cpu.store(-1, std::memory_order_relaxed);
#if defined(__linux__)
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    moves_ = sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) >= threads;
#endif
  }

  // The calling thread is number `thread`: 0 begins a loop, the others take part in it.
  void settle(int thread) {
#if defined(__linux__)
    if (!moves_) return;
    int here = sched_getcpu();
    if (thread > 0 && is_taken(here, thread)) here = leave(thread);
    auto& mine = cpus_[static_cast<std::size_t>(thread)];
    if (mine.load(std::memory_order_relaxed) != here) mine.store(here, std::memory_order_relaxed);
#endif
  }

 private:
#if defined(__linux__)
  // By one of the threads before this one, which stay.
  [[nodiscard]] bool is_taken(int cpu, int thread) const {
    return std::any_of(cpus_.begin(), cpus_.begin() + thread,
                       [cpu](const auto& other) { return other.load(std::memory_order_relaxed) == cpu; });
  }

  int leave(int thread) {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return sched_getcpu();
    cpu_set_t free = mine;
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      const int cpu = cpus_[i].load(std::memory_order_relaxed);
      if (i != static_cast<std::size_t>(thread) && cpu >= 0) CPU_CLR(cpu, &free);
    }
    if (CPU_COUNT(&free) > 0 && sched_setaffinity(0, sizeof free, &free) == 0) {
      (void)sched_setaffinity(0, sizeof mine, &mine);  // where it is it may be moved from
    }
    return sched_getcpu();
  }

  bool moves_ = false;
#endif
  std::vector<std::atomic<int>> cpus_;
};

}  // namespace

struct ThreadPool::Shared {
  // One a worker, on its own cache line: a bump of `ticket` hands it the job.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> ticket{0};
    std::thread thread;
  };

  explicit Shared(int workers) : slots(static_cast<std::size_t>(workers)), places(workers + 1) {}

  std::mutex busy;  // held by the caller whose loop the workers run
  Body body = nullptr;
  void* context = nullptr;
  bool stop = false;
  alignas(64) std::atomic<std::uint32_t> pending{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::vector<Slot> slots;
  Places places;
  std::uint32_t generation = fork_generation.load(std::memory_order_relaxed);

  [[nodiscard]] bool forked() const { return generation != fork_generation.load(std::memory_order_relaxed); }

  void call(int range) {
    inside_loop = true;
    try {
      body(context, range);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
    inside_loop = false;
  }

  void work(int worker) {
    auto& slot = slots[static_cast<std::size_t>(worker)];
    for (std::uint32_t seen = 0;;) {
      seen = wait_change(slot.ticket, seen);
      if (stop) return;
      places.settle(worker + 1);
      call(worker + 1);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads > 0 ? num_threads : usable_threads()) {
  watch_forks();
  shared_ = std::make_unique<Shared>(num_threads_ - 1);
  for (int i = 0; i + 1 < num_threads_; ++i) {
    auto& slot = shared_->slots[static_cast<std::size_t>(i)];
    try {
      slot.thread = std::thread([shared = shared_.get(), i] { shared->work(i); });
    } catch (const std::system_error&) {  // the process may not have more threads: make do with these
      num_threads_ = i + 1;
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  if (shared_->forked()) {
    for (auto& slot : shared_->slots) {
      if (slot.thread.joinable()) slot.thread.detach();
    }
    return;
  }
  shared_->stop = true;
  for (auto& slot : shared_->slots) {
    if (!slot.thread.joinable()) continue;
    slot.ticket.fetch_add(1, std::memory_order_release);
    slot.ticket.notify_one();
    slot.thread.join();
  }
}

void ThreadPool::run(int width, void* context, Body body) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.busy, std::defer_lock);
  if (inside_loop || shared.forked() || !lock.try_lock()) {
    for (int range = 0; range < width; ++range) body(context, range);
    return;
  }
  shared.body = body;
  shared.context = context;
  shared.places.settle(0);
  shared.pending.store(static_cast<std::uint32_t>(width - 1), std::memory_order_relaxed);
  for (int i = 0; i + 1 < width; ++i) {
    auto& ticket = shared.slots[static_cast<std::size_t>(i)].ticket;
    ticket.fetch_add(1, std::memory_order_release);
    ticket.notify_one();  // a look at a counter when nobody sleeps
  }
  shared.call(0);
  for (std::uint32_t left = shared.pending.load(std::memory_order_acquire); left != 0;) {
    left = wait_change(shared.pending, left);
  }
  if (shared.failure) std::rethrow_exception(std::exchange(shared.failure, nullptr));
}

}  // namespace tern
