#include "tests/fakes/cuda/emulator/block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/fakes/cuda/emulator/executor.h"
#include "tests/fakes/cuda/emulator/matrix.h"

// Keeps the registers that a call must, and the stack pointer in *save; goes on where `to` was kept.
extern "C" void tern_fake_cuda_switch(void** save, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl tern_fake_cuda_switch
.hidden tern_fake_cuda_switch
.type tern_fake_cuda_switch, @function
tern_fake_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tern_fake_cuda_switch, . - tern_fake_cuda_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.globl tern_fake_cuda_switch
.hidden tern_fake_cuda_switch
.type tern_fake_cuda_switch, %function
tern_fake_cuda_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size tern_fake_cuda_switch, . - tern_fake_cuda_switch
)");
#else
#error "the emulation of CUDA's threads knows x86-64 and AArch64"
#endif

namespace tern::cuda::emulated {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeader = (sizeof(Thread) + kPage - 1) / kPage * kPage;
constexpr std::size_t kMostShared = std::size_t{256} << 10;
constexpr unsigned kMostThreads = 1024;

const char* name_of(Meet kind) {
  static constexpr const char* kNames[] = {"__syncwarp",      "__shfl_sync",   "__shfl_up_sync", "__shfl_down_sync",
                                           "__shfl_xor_sync", "__ballot_sync", "__any_sync",     "__all_sync",
                                           "mma_bf16",        "mma_f16",       "ldmatrix_x4",    "ldmatrix_x4_trans"};
  return kNames[static_cast<int>(kind)];
}

void fiber_main() { thread().block->fiber_loop(); }

}  // namespace

Block::Block() {
  region_ =
      mmap(nullptr, (kMostThreads + 1) * kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region_ == MAP_FAILED) std::abort();
  const auto begin = (reinterpret_cast<std::uintptr_t>(region_) + kStackBytes - 1) & ~(kStackBytes - 1);
  stacks_ = reinterpret_cast<char*>(begin);
  void* shared =
      mmap(nullptr, kMostShared + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shared == MAP_FAILED || mprotect(static_cast<char*>(shared) + kMostShared, kPage, PROT_NONE) != 0) std::abort();
  shared_end_ = static_cast<char*>(shared) + kMostShared;
}

Block::~Block() {
  munmap(region_, (kMostThreads + 1) * kStackBytes);
  munmap(shared_end_ - kMostShared, kMostShared + kPage);
}

// A fiber with a fresh stack. The header and the stack can be touched, the page between can't.
Thread* Block::make_fiber() {
  if (fibers_ == kMostThreads) std::abort();  // there are no more threads than that
  char* const base = stacks_ + kStackBytes * fibers_++;
  auto* fiber = reinterpret_cast<Thread*>(base);
  if (fibers_ > mapped_) {
    if (mprotect(base, kHeader, PROT_READ | PROT_WRITE) != 0) std::abort();
    const std::size_t stack = kHeader + kPage;
    if (mprotect(base + stack, kStackBytes - stack, PROT_READ | PROT_WRITE) != 0) std::abort();
    mapped_ = fibers_;
  }
  fiber->block = this;
#if defined(__x86_64__)
  auto** top = reinterpret_cast<void**>(base + kStackBytes) - 1;  // a function begins 8 bytes beyond a multiple of 16
  *--top = reinterpret_cast<void*>(&fiber_main);
  top -= 6;
#else
  auto** top = reinterpret_cast<void**>(base + kStackBytes) - 20;
  top[11] = reinterpret_cast<void*>(&fiber_main);
#endif
  fiber->stack_pointer = top;
  return fiber;
}

bool Block::run(const Kernel& kernel, const Grid& grid, void* const* params, Dim index) {
  kernel_ = &kernel;
  grid_ = &grid;
  params_ = params;
  index_ = index;
  threads_ = grid.threads.x * grid.threads.y * grid.threads.z;
  started_ = exited_ = waiting_ = 0;
  queue_begin_ = queue_end_ = 0;
  failed_ = false;
  const unsigned warps = (threads_ + 31) / 32;
  for (unsigned w = 0; w < warps; ++w) {
    const unsigned lanes = threads_ - w * 32 < 32 ? threads_ - w * 32 : 32;
    warps_[w].gone = lanes == 32 ? 0 : ~0U << lanes;
    for (unsigned m = 0; m < warps_[w].meetings; ++m) warps_[w].meeting[m].arrived = 0;
    warps_[w].meetings = 0;
  }
  // A prime beyond the threads visits each once.
  static constexpr unsigned kPrimes[] = {1031, 1049, 1153, 1301, 1511, 1777, 1999, 2237};
  step_ = kPrimes[random() % 8];
  shared_ = shared_end_ - (grid.shared_bytes + 127) / 128 * 128;
  std::memset(shared_, 0xff, static_cast<std::size_t>(shared_end_ - shared_));
  Thread* const first = take_fiber();
  tern_fake_cuda_switch(&main_, first->stack_pointer);
  if (failed_) {  // what waits will never go on
    fibers_ = 0;
    free_count_ = 0;
  }
  return !failed_;
}

unsigned Block::random() {  // xorshift, so a run can be repeated
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_;
}

Thread* Block::take_queued() {
  if (order_ != Order::forwards) {
    const unsigned count = queue_end_ - queue_begin_;
    const unsigned at = queue_begin_ + (order_ == Order::random ? random() % count : count - 1);
    std::swap(queue_[queue_begin_ % kQueue], queue_[at % kQueue]);
  }
  return queue_[queue_begin_++ % kQueue];
}

Thread* Block::take_fiber() { return free_count_ > 0 ? free_[--free_count_] : make_fiber(); }

void Block::begin_thread(Thread& self) {
  unsigned linear = started_++;
  if (order_ == Order::backwards) linear = threads_ - 1 - linear;
  if (order_ == Order::random) linear = static_cast<unsigned>((std::uint64_t{linear} * step_ + 7) % threads_);
  self.linear = linear;
  self.lane = linear % 32;
  self.index = {linear % grid_->threads.x, linear / grid_->threads.x % grid_->threads.y,
                linear / (grid_->threads.x * grid_->threads.y)};
  self.block_index = index_;
  self.block_dim = grid_->threads;
  self.grid_dim = grid_->blocks;
  self.copies = self.committed = self.groups = 0;
  self.waited = false;
  fiber_of_[linear] = &self;
}

void Block::fiber_loop() {
  Thread& self = thread();
  for (;;) {
    begin_thread(self);
    kernel_->invoke(*kernel_, params_);
    if (grid_->overlapped && !self.waited) fail("launched overlapped, it returns without wait_for_previous()");
    end_thread(self);
    if (queue_begin_ != queue_end_) {
      free_[free_count_++] = &self;
      Thread* const next = take_queued();
      tern_fake_cuda_switch(&self.stack_pointer, next->stack_pointer);
    } else if (started_ == threads_) {
      if (exited_ != threads_) fail_by_deadlock();
      free_[free_count_++] = &self;
      tern_fake_cuda_switch(&self.stack_pointer, main_);
    }
  }
}

void Block::end_thread(Thread& self) {
  ++exited_;
  Warp& warp = warps_[self.linear / 32];
  warp.gone |= 1U << self.lane;
  for (unsigned m = 0; m < warp.meetings; ++m) {
    Meeting& meeting = warp.meeting[m];
    if (meeting.arrived != 0 && ((meeting.arrived | warp.gone) & meeting.mask) == meeting.mask) {
      end_meeting(self.linear / 32, meeting, nullptr);
    }
  }
  if (waiting_ != 0 && waiting_ + exited_ == threads_) end_barrier();
}

// Lets others go on until somebody queues this thread again.
void Block::wait(Thread& self) {
  Thread* next = nullptr;
  if (queue_begin_ != queue_end_) {
    next = take_queued();
  } else if (started_ != threads_) {
    next = take_fiber();
  } else {
    fail_by_deadlock();
  }
  tern_fake_cuda_switch(&self.stack_pointer, next->stack_pointer);
}

void Block::end_barrier() {
  for (unsigned i = 0; i < waiting_; ++i) queue_[queue_end_++ % kQueue] = at_barrier_[i];
  waiting_ = 0;
}

void Block::sync(Thread& self) {
  if (waiting_ + 1 + exited_ == threads_) {
    end_barrier();
    return;
  }
  at_barrier_[waiting_++] = &self;
  wait(self);
}

void Block::end_meeting(unsigned warp, Meeting& meeting, const Thread* self) {
  Exchange& exchange = meeting.exchange[meeting.parity];
  exchange.present = meeting.arrived;
  if (meeting.kind >= Meet::mma_bf16) {
    if (exchange.present != ~0U)
      fail("%s needs all 32 lanes, and has the lanes %08x", name_of(meeting.kind), exchange.present);
    make_matrix(meeting.kind, exchange);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((meeting.arrived >> lane & 1U) == 0) continue;
    Thread* const fiber = fiber_of_[warp * 32 + lane];
    if (fiber != self) queue_[queue_end_++ % kQueue] = fiber;
  }
  meeting.arrived = 0;
  meeting.parity ^= 1U;
}

const Exchange& Block::meet(Thread& self, Meet kind, unsigned mask, const void* gift, unsigned bytes) {
  Warp& warp = warps_[self.linear / 32];
  if ((mask >> self.lane & 1U) == 0) fail("%s with the mask %08x, where the lane itself isn't", name_of(kind), mask);
  unsigned m = 0;
  while (m < warp.meetings && warp.meeting[m].mask != mask) ++m;
  if (m == warp.meetings) {
    if (m == kMostMeetings) fail("%s: more than %u masks of lanes", name_of(kind), kMostMeetings);
    warp.meeting[m].mask = mask;
    warp.meeting[m].arrived = warp.meeting[m].parity = 0;
    ++warp.meetings;
  }
  Meeting& meeting = warp.meeting[m];
  if (meeting.arrived != 0 && meeting.kind != kind) {
    fail("%s, while other lanes of the warp are in %s", name_of(kind), name_of(meeting.kind));
  }
  meeting.kind = kind;
  Exchange& exchange = meeting.exchange[meeting.parity];
  std::memcpy(exchange.given[self.lane], gift, bytes);
  meeting.arrived |= 1U << self.lane;
  if (((meeting.arrived | warp.gone) & mask) == mask) {
    end_meeting(self.linear / 32, meeting, &self);
  } else {
    wait(self);
  }
  return exchange;
}

void Block::fail_by_deadlock() {
  for (unsigned w = 0; w < (threads_ + 31) / 32; ++w) {
    for (unsigned m = 0; m < warps_[w].meetings; ++m) {
      const Meeting& meeting = warps_[w].meeting[m];
      if (meeting.arrived == 0) continue;
      fail(
          "deadlock: the lanes %08x of warp %u wait in %s for the lanes %08x, which wait elsewhere (%u threads are in "
          "__syncthreads)",
          meeting.arrived, w, name_of(meeting.kind), meeting.mask & ~meeting.arrived & ~warps_[w].gone, waiting_);
    }
  }
  fail("deadlock: %u of %u threads are in __syncthreads, %u have returned", waiting_, threads_, exited_);
}

void Block::give_up(const char* text) {
  if (!failed_) {
    std::fprintf(stderr, "fake CUDA: kernel %s, block (%u, %u, %u): %s\n", kernel_->name, index_.x, index_.y, index_.z,
                 text);
  }
  failed_ = true;
  void* unused = nullptr;
  tern_fake_cuda_switch(&unused, main_);
  std::abort();  // nobody comes back to it
}

void sync_block() {
  Thread& self = thread();
  self.block->sync(self);
}

const Exchange& meet(Meet kind, unsigned mask, const void* gift, unsigned bytes) {
  Thread& self = thread();
  return self.block->meet(self, kind, mask, gift, bytes);
}

void fail(const char* format, ...) {
  const Thread& self = thread();
  char text[1024];
  const int begin = std::snprintf(text, sizeof text, "thread (%u, %u, %u): ", self.index.x, self.index.y, self.index.z);
  std::va_list args;
  va_start(args, format);
  std::vsnprintf(text + begin, sizeof text - static_cast<std::size_t>(begin), format, args);
  va_end(args);
  self.block->give_up(text);
}

void* dynamic_shared() { return thread().block->shared(); }

void begin_copy(void* to, const void* from) {
  Thread& self = thread();
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    fail("copy_async from %p to %p: not aligned to 16 bytes", from, to);
  }
  if (self.copies == Thread::kMostCopies) fail("more than %u copies by copy_async are waited for", self.copies);
  self.copy[self.copies++] = {to, from};
}

void commit_copies() {
  Thread& self = thread();
  if (self.groups == Thread::kMostCopies) fail("more than %u groups of copies are waited for", self.groups);
  self.group_sizes[self.groups++] = static_cast<std::uint16_t>(self.copies - self.committed);
  self.committed = self.copies;
}

void wait_for_copies(unsigned groups) {
  Thread& self = thread();
  if (self.groups <= groups) return;
  const unsigned ended = self.groups - groups;
  unsigned copies = 0;
  for (unsigned g = 0; g < ended; ++g) copies += self.group_sizes[g];
  for (unsigned i = 0; i < copies; ++i) {
    if (self.copy[i].from != nullptr) {
      std::memcpy(self.copy[i].to, self.copy[i].from, 16);
    } else {
      std::memset(self.copy[i].to, 0, 16);
    }
  }
  std::memmove(self.copy, self.copy + copies, (self.copies - copies) * sizeof(AsyncCopy));
  std::memmove(self.group_sizes, self.group_sizes + ended, groups * sizeof self.group_sizes[0]);
  self.copies -= copies;
  self.committed -= copies;
  self.groups = groups;
}

}  // namespace tern::cuda::emulated
