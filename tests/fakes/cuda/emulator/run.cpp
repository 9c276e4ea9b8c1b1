#include <link.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/fakes/cuda/emulator/executor.h"

namespace tern::cuda::emulated {
namespace {

// Never destroyed: workers outlive the end of main.
std::map<std::string, Kernel>& kernels() {
  static auto& map = *new std::map<std::string, Kernel>;
  return map;
}

struct Job {
  const Kernel& kernel;
  const Grid& grid;
  void* const* params;
  std::uint64_t blocks;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
};

// What kernels declare SHARED is thread_local, and nothing else of this library is: all of its memory of that kind, of
// this thread of the system. Empty in a program, which has other variables there.
struct SharedMemory {
  void* at = nullptr;
  std::size_t bytes = 0;
};

SharedMemory find_shared() {
  static thread_local char anchor = 0;
  SharedMemory found{.at = &anchor};  // and so the thread's copy is made
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& result = *static_cast<SharedMemory*>(data);
        const auto wanted = reinterpret_cast<std::uintptr_t>(result.at);
        const auto begin = reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
        for (int i = 0; i < info->dlpi_phnum && begin != 0; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_TLS || wanted - begin >= header.p_memsz) continue;
          result = {info->dlpi_tls_data, info->dlpi_name[0] == 0 ? 0 : header.p_memsz};
          return 1;
        }
        return 0;
      },
      &found);
  return found;
}

// What a thread of the system runs blocks with.
struct Runner {
  Block block;
  SharedMemory shared = find_shared();
};

Runner& runner() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, [](void* runner) { delete static_cast<Runner*>(runner); }) != 0) std::abort();
    return made;
  }();
  void* found = pthread_getspecific(key);
  if (found == nullptr) {
    found = std::make_unique<Runner>().release();
    pthread_setspecific(key, found);
  }
  return *static_cast<Runner*>(found);
}

Order order_of_threads() {
  static const char* const text = std::getenv("TERN_FAKE_CUDA_ORDER");
  if (text == nullptr) return Order::forwards;
  return std::strcmp(text, "backwards") == 0 ? Order::backwards
         : std::strcmp(text, "random") == 0  ? Order::random
                                             : Order::forwards;
}

void run_blocks(Job& job) {
  Runner& here = runner();
  Block* const block = &here.block;
  const bool backwards = order_of_threads() == Order::backwards;
  block->order(order_of_threads());
  std::memset(here.shared.at, 0xff, here.shared.bytes);
  const Dim blocks = job.grid.blocks;
  for (;;) {
    std::uint64_t i = job.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= job.blocks || job.failed.load(std::memory_order_relaxed)) return;
    if (backwards) i = job.blocks - 1 - i;
    const Dim index{static_cast<unsigned>(i % blocks.x), static_cast<unsigned>(i / blocks.x % blocks.y),
                    static_cast<unsigned>(i / (std::uint64_t{blocks.x} * blocks.y))};
    if (!block->run(job.kernel, job.grid, job.params, index)) job.failed = true;
  }
}

// The second thread. It helps one launch at a time.
class Helper {
 public:
  Helper() {
    std::thread([this] { loop(); }).detach();
  }
  // Whether it is free to help, and does so from now on.
  bool begin(Job& job) {
    const std::lock_guard lock(mutex_);
    if (job_ != nullptr) return false;
    job_ = &job;
    changed_.notify_all();
    return true;
  }
  void end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    job_ = nullptr;
    done_ = false;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return job_ != nullptr && !done_; });
      Job& job = *job_;
      lock.unlock();
      run_blocks(job);
      lock.lock();
      done_ = true;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  Job* job_ = nullptr;
  bool done_ = false;
};

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : &found->second;
}

void add_kernel(Kernel kernel) {
  const std::string name = kernel.name;
  if (!kernels().emplace(name, std::move(kernel)).second) {
    std::fprintf(stderr, "fake CUDA: two kernels are called %s\n", name.c_str());
    std::abort();
  }
}

bool run_kernel(const Kernel& kernel, const Grid& grid, void* const* params) {
  const std::uint64_t blocks = std::uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z;
  const std::uint64_t threads = blocks * grid.threads.x * grid.threads.y * grid.threads.z;
  Job job{.kernel = kernel, .grid = grid, .params = params, .blocks = blocks};
  static Helper& helper = *new Helper;
  const bool helped = blocks > 1 && threads > 4096 && helper.begin(job);
  run_blocks(job);
  if (helped) helper.end();
  return !job.failed;
}

}  // namespace tern::cuda::emulated
