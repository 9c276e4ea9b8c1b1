// The memory of one device. Its addresses belong to the process, but whoever touches them there dies: the pages are
// seen through another mapping, which only the device's own work is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace fake {

class DeviceMemory {
 public:
  // `taken` bytes of it are another process's.
  DeviceMemory(std::uint64_t bytes, std::uint64_t taken);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Filled with what reads as NaN, so that nobody counts on zeros. Null: none is left.
  [[nodiscard]] void* allocate(std::size_t bytes);
  [[nodiscard]] bool release(void* address);  // false: no allocation begins there

  // Where the host may touch what lies there; null unless all of it is in one allocation or is mapped.
  [[nodiscard]] std::byte* view(const void* address, std::size_t bytes);
  [[nodiscard]] bool holds(const void* address) const;  // whether the address is this device's at all
  [[nodiscard]] std::uint64_t total() const { return bytes_; }
  [[nodiscard]] std::uint64_t free_bytes();
  [[nodiscard]] std::size_t allocations();

  // Addresses apart from what is behind them. A handle is the place of memory in the device; 0: none is left.
  [[nodiscard]] void* reserve(std::size_t bytes);
  [[nodiscard]] bool unreserve(void* address);  // false: none begins there, or something is mapped
  [[nodiscard]] std::uint64_t allocate_physical(std::size_t bytes);
  [[nodiscard]] bool free_physical(std::uint64_t handle);
  [[nodiscard]] bool map(void* address, std::size_t bytes, std::uint64_t handle);
  [[nodiscard]] bool unmap(void* address);

 private:
  struct Mapping {
    std::size_t bytes;
    std::uint64_t handle;
  };
  [[nodiscard]] std::uint64_t take(std::map<std::uint64_t, std::uint64_t>& free, std::uint64_t bytes,
                                   std::uint64_t align);
  void give(std::map<std::uint64_t, std::uint64_t>& free, std::uint64_t at, std::uint64_t bytes);
  void discard(std::uint64_t at, std::uint64_t bytes);
  [[nodiscard]] std::byte* view_locked(std::uint64_t at, std::size_t bytes);

  std::mutex mutex_;
  std::uint64_t bytes_;
  int file_ = -1;
  std::byte* base_ = nullptr;   // what the program sees, which nobody may touch: [0, bytes), then as much for reserve
  std::byte* alias_ = nullptr;  // the same, readable and writable
  std::map<std::uint64_t, std::uint64_t> free_;    // of the memory
  std::map<std::uint64_t, std::uint64_t> open_;    // of the addresses for reserve
  std::map<std::uint64_t, std::uint64_t> blocks_;  // allocations: place, bytes
  std::map<std::uint64_t, std::uint64_t> ranges_;  // reserved
  std::map<std::uint64_t, std::uint64_t> physical_;
  std::map<std::uint64_t, Mapping> mapped_;
};

}  // namespace fake
