// Device memory that is kept for the next request instead of being given back: vendors' allocations are slow and some
// synchronise the device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "accel/device.h"

namespace tern::accel {

// Bytes, since the allocator was made or its peaks were reset.
struct AllocatorStatistics {
  std::uint64_t in_use = 0;    // held by blocks
  std::uint64_t reserved = 0;  // held from the device: in use and cached
  std::uint64_t peak_in_use = 0;
  std::uint64_t peak_reserved = 0;
  std::uint64_t hits = 0;  // requests served from the cache
  std::uint64_t misses = 0;
  std::uint64_t retries = 0;  // requests that succeeded only after the cache was emptied
};

// Where blocks come from. Of `none` they have sizes and no memory: what a run would take is counted by the code that
// takes it.
enum class Backing { device, none };

class CachingAllocator : public std::enable_shared_from_this<CachingAllocator> {
 public:
  static std::shared_ptr<CachingAllocator> create(DevicePtr device, Backing backing = Backing::device);

  // A piece of device memory; goes back to the cache with its owner.
  class Block {
   public:
    Block() = default;
    Block(std::shared_ptr<CachingAllocator> owner, Buffer buffer, std::uint32_t flags)
        : owner_(std::move(owner)), buffer_(std::move(buffer)), flags_(flags) {}
    Block(Block&&) noexcept = default;
    Block& operator=(Block&& other) noexcept;
    ~Block();
    [[nodiscard]] tern_plane plane(std::uint64_t offset = 0) const { return buffer_.plane(offset); }
    [[nodiscard]] std::uint64_t bytes() const { return buffer_.bytes(); }
    explicit operator bool() const { return owner_ != nullptr; }

   private:
    void give_back() noexcept;
    std::shared_ptr<CachingAllocator> owner_;
    Buffer buffer_;
    std::uint32_t flags_ = 0;
  };

  // At least `bytes`, uninitialised. Out of memory empties the cache and asks once more; then Failure (device) with
  // what was asked for, in use and free. `flags` as of Device::allocate. The caller sees to it that no work queued
  // before still uses what a block gave back.
  [[nodiscard]] Block allocate(std::uint64_t bytes, const std::string& what, std::uint32_t flags = 0);
  // Gives everything cached back to the device.
  void empty_cache();
  [[nodiscard]] AllocatorStatistics statistics() const;
  void reset_peaks();
  [[nodiscard]] const DevicePtr& device() const { return device_; }
  [[nodiscard]] bool only_counts() const { return backing_ == Backing::none; }

 private:
  CachingAllocator(DevicePtr device, Backing backing) : device_(std::move(device)), backing_(backing) {}
  [[nodiscard]] Buffer reserve(std::uint64_t bytes, const std::string& what, std::uint32_t flags);
  void take_back(Buffer buffer, std::uint32_t flags) noexcept;
  bool drop_cache();  // whether there was anything

  DevicePtr device_;
  Backing backing_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::multimap<std::uint64_t, Buffer>> cached_;  // by flags and size
  AllocatorStatistics statistics_;
};

}  // namespace tern::accel
