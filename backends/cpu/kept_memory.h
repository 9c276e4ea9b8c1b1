// Vectors of a launch whose memory the thread keeps for the next one: a launch that is like an earlier one allocates
// nothing.
#pragma once

#include <cstddef>
#include <vector>

namespace tern::cpu {

// At least `bytes`, aligned for every fundamental type, from what this thread gave back before, or from the heap.
[[nodiscard]] void* take_kept(std::size_t bytes);
// Back to this thread, which need not be the one that took it.
void give_kept(void* memory, std::size_t bytes) noexcept;

template <typename T>
struct KeptAllocator {
  using value_type = T;
  KeptAllocator() = default;
  template <typename U>
  KeptAllocator(const KeptAllocator<U>&) {}
  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(take_kept(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { give_kept(memory, count * sizeof(T)); }
  friend bool operator==(const KeptAllocator&, const KeptAllocator&) { return true; }
};

template <typename T>
using Kept = std::vector<T, KeptAllocator<T>>;

}  // namespace tern::cpu
