// A block that runs: its fibers, its barrier, and the meetings of its warps. One for each thread of the system.
#pragma once

#include "tests/fakes/cuda/emulator/block.h"
#include "tests/fakes/cuda/emulator/kernel.h"

namespace tern::cuda::emulated {

// In which threads start, and go on after a barrier. Each finds races that others don't.
enum class Order { forwards, backwards, random };

struct Block {
 public:
  Block();
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  [[nodiscard]] bool run(const Kernel& kernel, const Grid& grid, void* const* params, Dim index);
  void order(Order order) { order_ = order; }

  // For the threads of the kernel.
  void fiber_loop();
  void sync(Thread& self);
  const Exchange& meet(Thread& self, Meet kind, unsigned mask, const void* gift, unsigned bytes);
  [[noreturn]] void give_up(const char* text);
  [[nodiscard]] void* shared() { return shared_; }

 private:
  static constexpr unsigned kMostMeetings = 16;  // masks that a warp uses
  static constexpr unsigned kThreads = 1024;
  static constexpr unsigned kQueue = 2048;
  // Lanes are at most one meeting apart, so two exchanges do.
  struct Meeting {
    unsigned mask;
    unsigned arrived;
    unsigned parity;
    Meet kind;
    Exchange exchange[2];
  };
  struct Warp {
    unsigned gone;  // lanes that have returned or never were
    unsigned meetings;
    Meeting meeting[kMostMeetings];
  };

  Thread* make_fiber();
  Thread* take_fiber();
  Thread* take_queued();
  [[nodiscard]] unsigned random();
  void begin_thread(Thread& self);
  void end_thread(Thread& self);
  void wait(Thread& self);
  void end_barrier();
  void end_meeting(unsigned warp, Meeting& meeting, const Thread* self);
  [[noreturn]] void fail_by_deadlock();

  void* region_ = nullptr;
  char* stacks_ = nullptr;
  char* shared_end_ = nullptr;
  char* shared_ = nullptr;
  unsigned fibers_ = 0;  // made; the first of stacks_
  unsigned mapped_ = 0;
  Order order_ = Order::forwards;
  std::uint32_t random_ = 1;
  unsigned step_ = 1;  // of a random order of threads

  const Kernel* kernel_ = nullptr;
  const Grid* grid_ = nullptr;
  void* const* params_ = nullptr;
  Dim index_{};
  void* main_ = nullptr;
  bool failed_ = false;
  unsigned threads_ = 0, started_ = 0, exited_ = 0, waiting_ = 0;
  unsigned queue_begin_ = 0, queue_end_ = 0, free_count_ = 0;
  Thread* queue_[kQueue] = {};
  Thread* at_barrier_[kThreads] = {};
  Thread* free_[kThreads] = {};
  Thread* fiber_of_[kThreads] = {};
  Warp warps_[kThreads / 32] = {};
};

}  // namespace tern::cuda::emulated
