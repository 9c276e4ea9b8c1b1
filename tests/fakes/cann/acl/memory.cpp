#include "tests/fakes/cann/acl/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace fake {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::uint64_t kAlignment = 512;                    // where aclrtMalloc's memory begins
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;  // what physical memory comes in
constexpr std::uint64_t kPoisoned = std::uint64_t{16} << 20;

std::uint64_t up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

// aclrtMalloc rounds up to 32 bytes and adds 32, which kernels do read.
std::uint64_t padded(std::uint64_t bytes) { return up(bytes, 32) + 32; }
std::uint64_t place_of(std::uint64_t bytes) { return up(padded(bytes), kAlignment); }

}  // namespace

DeviceMemory::DeviceMemory(std::uint64_t bytes, std::uint64_t taken) : bytes_(up(bytes, kHugePage)) {
  file_ = memfd_create("fake-cann-device", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes_)) != 0)
    throw std::runtime_error("no memory for the fake");
  const auto area = static_cast<std::size_t>(2 * bytes_);
  void* base = mmap(nullptr, area, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* alias = mmap(nullptr, area, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || alias == MAP_FAILED) throw std::runtime_error("no addresses for the fake");
  base_ = static_cast<std::byte*>(base);
  alias_ = static_cast<std::byte*>(alias);
  (void)mmap(alias_, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             file_, 0);
  taken = std::min(up(taken, kHugePage), bytes_);
  if (taken < bytes_) free_[taken] = bytes_ - taken;
  open_[bytes_] = bytes_;
}

DeviceMemory::~DeviceMemory() {
  munmap(base_, static_cast<std::size_t>(2 * bytes_));
  munmap(alias_, static_cast<std::size_t>(2 * bytes_));
  close(file_);
}

std::uint64_t DeviceMemory::take(std::map<std::uint64_t, std::uint64_t>& free, std::uint64_t bytes,
                                 std::uint64_t align) {
  for (auto it = free.begin(); it != free.end(); ++it) {
    const std::uint64_t at = up(it->first, align);
    const std::uint64_t end = it->first + it->second;
    if (at + bytes > end) continue;
    const std::uint64_t before = at - it->first;
    const std::uint64_t start = it->first;
    free.erase(it);
    if (before > 0) free[start] = before;
    if (at + bytes < end) free[at + bytes] = end - at - bytes;
    return at;
  }
  return kNone;
}

void DeviceMemory::give(std::map<std::uint64_t, std::uint64_t>& free, std::uint64_t at, std::uint64_t bytes) {
  auto next = free.lower_bound(at);
  if (next != free.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  free[at] = bytes;
}

void DeviceMemory::discard(std::uint64_t at, std::uint64_t bytes) {
  const std::uint64_t start = up(at, kPage);
  const std::uint64_t end = (at + bytes) / kPage * kPage;
  if (end <= start || end - start < (std::uint64_t{1} << 20)) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start),
            static_cast<off_t>(end - start));
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = take(free_, place_of(bytes), kAlignment);
  if (at == kNone) return nullptr;
  blocks_[at] = bytes;
  // Large ones at both ends alone: a model's memory would be touched twice.
  const std::uint64_t ends = std::min<std::uint64_t>(bytes, kPoisoned / 2);
  std::memset(alias_ + at, 0xFF, ends);
  std::memset(alias_ + at + bytes - ends, 0xFF, ends);
  return base_ + at;
}

bool DeviceMemory::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<std::uint64_t>(static_cast<std::byte*>(address) - base_));
  if (found == blocks_.end()) return false;
  discard(found->first, found->second);
  give(free_, found->first, place_of(found->second));
  blocks_.erase(found);
  return true;
}

bool DeviceMemory::holds(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= base_ && at < base_ + 2 * bytes_;
}

std::byte* DeviceMemory::view(const void* address, std::size_t bytes) {
  if (!holds(address)) return nullptr;
  const std::lock_guard lock(mutex_);
  return view_locked(static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - base_), bytes);
}

std::byte* DeviceMemory::view_locked(std::uint64_t at, std::size_t bytes) {
  if (at < bytes_) {
    auto block = blocks_.upper_bound(at);
    if (block == blocks_.begin()) return nullptr;
    --block;
    return at + bytes <= block->first + padded(block->second) ? alias_ + at : nullptr;
  }
  auto mapping = mapped_.upper_bound(at);
  if (mapping == mapped_.begin()) return nullptr;
  --mapping;
  // What is mapped side by side is one range.
  std::uint64_t covered = mapping->first + mapping->second.bytes;
  if (at >= covered) return nullptr;
  for (++mapping; covered < at + bytes && mapping != mapped_.end() && mapping->first == covered; ++mapping) {
    covered += mapping->second.bytes;
  }
  return at + bytes <= covered ? alias_ + at : nullptr;
}

std::uint64_t DeviceMemory::free_bytes() {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [at, bytes] : free_) sum += bytes;
  return sum;
}

std::size_t DeviceMemory::allocations() {
  const std::lock_guard lock(mutex_);
  return blocks_.size() + physical_.size();
}

void* DeviceMemory::reserve(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = take(open_, up(bytes, kHugePage), kHugePage);
  if (at == kNone) return nullptr;
  ranges_[at] = up(bytes, kHugePage);
  return base_ + at;
}

bool DeviceMemory::unreserve(void* address) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::uint64_t>(static_cast<std::byte*>(address) - base_);
  const auto range = ranges_.find(at);
  if (range == ranges_.end()) return false;
  const auto mapping = mapped_.lower_bound(at);
  if (mapping != mapped_.end() && mapping->first < at + range->second) return false;
  give(open_, at, range->second);
  ranges_.erase(range);
  return true;
}

std::uint64_t DeviceMemory::allocate_physical(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = take(free_, up(bytes, kHugePage), kHugePage);
  if (at == kNone) return 0;
  physical_[at] = up(bytes, kHugePage);
  return at + 1;  // so that no handle is 0
}

bool DeviceMemory::free_physical(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(handle - 1);
  if (found == physical_.end()) return false;
  for (const auto& [at, mapping] : mapped_) {
    if (mapping.handle == handle) return false;
  }
  discard(found->first, found->second);
  give(free_, found->first, found->second);
  physical_.erase(found);
  return true;
}

bool DeviceMemory::map(void* address, std::size_t bytes, std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::uint64_t>(static_cast<std::byte*>(address) - base_);
  auto range = ranges_.upper_bound(at);
  const auto physical = physical_.find(handle - 1);
  if (range == ranges_.begin() || physical == physical_.end() || physical->second != bytes) return false;
  --range;
  if (at + bytes > range->first + range->second) return false;
  const auto next = mapped_.lower_bound(at);
  if (next != mapped_.end() && next->first < at + bytes) return false;
  if (next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at) return false;
  (void)mmap(alias_ + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_,
             static_cast<off_t>(physical->first));
  mapped_[at] = {bytes, handle};
  return true;
}

bool DeviceMemory::unmap(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = mapped_.find(static_cast<std::uint64_t>(static_cast<std::byte*>(address) - base_));
  if (found == mapped_.end()) return false;
  (void)mmap(alias_ + found->first, found->second.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  mapped_.erase(found);
  return true;
}

}  // namespace fake
