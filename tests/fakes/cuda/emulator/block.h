// Blocks of a kernel on the host: each thread of a block is a fiber, and a block runs wholly on one thread of the system. A
// thread that never waits for others costs no switch: one fiber runs such threads one after another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::cuda::emulated {

struct Dim {
  unsigned x, y, z;
};

struct Block;

// What lanes of a warp meet in. All lanes must be in the same kind of meeting.
enum class Meet : int { syncwarp, shfl, shfl_up, shfl_down, shfl_xor, ballot, any, all, mma_bf16, mma_f16, ldmatrix, ldmatrix_trans };

// What lanes gave to a meeting, and what the last to come made of it.
struct Exchange {
  alignas(64) unsigned char given[32][32];
  alignas(64) unsigned char made[512];
  unsigned present;  // lanes that came
};

// cp.async: 16 bytes, zeros where `from` is null.
struct AsyncCopy {
  void* to;
  const void* from;
};

// A fiber's own, at the foot of its stack, which is where a thread finds it.
struct Thread {
  Dim index;
  Dim block_index;
  Dim block_dim;
  Dim grid_dim;
  unsigned linear;
  unsigned lane;
  Block* block;
  bool waited;  // for what was queued before
  void* stack_pointer;
  // Copies that have begun, the oldest first; `committed` of them in groups of group_sizes.
  static constexpr unsigned kMostCopies = 512;
  unsigned copies, committed, groups;
  std::uint16_t group_sizes[kMostCopies];
  AsyncCopy copy[kMostCopies];
};

inline constexpr std::size_t kStackBytes = std::size_t{1} << 17;

inline Thread& thread() {
  return *reinterpret_cast<Thread*>(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & ~(kStackBytes - 1));
}

// The barrier of the block: threads that have returned count as arrived.
void sync_block();
// Waits for the lanes of `mask` that haven't returned, and shows what each gave: `bytes`, at most 32.
const Exchange& meet(Meet kind, unsigned mask, const void* gift, unsigned bytes);
// The launch fails, with a text that names the kernel, the block and the thread.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[nodiscard]] void* dynamic_shared();
void begin_copy(void* to, const void* from);
void commit_copies();
void wait_for_copies(unsigned groups);

}  // namespace tern::cuda::emulated
