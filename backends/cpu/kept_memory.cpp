#include "backends/cpu/kept_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <utility>

namespace tern::cpu {
namespace {

constexpr std::size_t kSmallest = 64;

// Blocks by the power of two of their size, each with the address of the next one in it.
struct Shelf {
  std::array<void*, 64> first{};
  Shelf() = default;
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;
  ~Shelf() {
    for (void*& block : first) {
      while (block != nullptr) ::operator delete(std::exchange(block, *static_cast<void**>(block)));
    }
  }
};
thread_local Shelf shelf;

std::size_t size_class(std::size_t bytes) {
  return static_cast<std::size_t>(std::bit_width(std::max(bytes, kSmallest) - 1));
}

}  // namespace

void* take_kept(std::size_t bytes) {
  void*& first = shelf.first[size_class(bytes)];
  if (first == nullptr) return ::operator new (std::size_t{1} << size_class(bytes));
  return std::exchange(first, *static_cast<void**>(first));
}

void give_kept(void* memory, std::size_t bytes) noexcept {
  void*& first = shelf.first[size_class(bytes)];
  *static_cast<void**>(memory) = std::exchange(first, memory);
}

}  // namespace tern::cpu
