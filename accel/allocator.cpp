#include "accel/allocator.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/strings.h"

namespace tern::accel {
namespace {

constexpr std::uint64_t kSmallest = 512;

// Up to a sixteenth of its magnitude, so that requests of about one size find each other's memory and no weight takes
// much more than it holds.
std::uint64_t rounded(std::uint64_t bytes, std::uint64_t limit) {
  const std::uint64_t granule = std::max(kSmallest, std::bit_floor(bytes) / 16);
  const std::uint64_t size = (std::max<std::uint64_t>(bytes, 1) + granule - 1) / granule * granule;
  return std::max(bytes, std::min(size, limit));  // rounding never makes a request too large for the device
}

}  // namespace

std::shared_ptr<CachingAllocator> CachingAllocator::create(DevicePtr device, Backing backing) {
  return std::shared_ptr<CachingAllocator>(new CachingAllocator(std::move(device), backing));
}

CachingAllocator::Block& CachingAllocator::Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    give_back();
    owner_ = std::move(other.owner_);
    buffer_ = std::move(other.buffer_);
    flags_ = other.flags_;
  }
  return *this;
}

CachingAllocator::Block::~Block() { give_back(); }

void CachingAllocator::Block::give_back() noexcept {
  if (owner_) owner_->take_back(std::move(buffer_), flags_);
  owner_.reset();
}

CachingAllocator::Block CachingAllocator::allocate(std::uint64_t bytes, const std::string& what, std::uint32_t flags) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t size = rounded(bytes, device_->info().largest_allocation_bytes);
  Buffer buffer;
  // A cached block may be an eighth larger than asked: more would waste what another request needs.
  auto& cached = cached_[flags];
  if (const auto found = cached.lower_bound(size); found != cached.end() && found->first <= size + size / 8) {
    buffer = std::move(found->second);
    cached.erase(found);
    ++statistics_.hits;
  } else {
    buffer = reserve(size, what, flags);
    ++statistics_.misses;
  }
  statistics_.in_use += buffer.bytes();
  statistics_.peak_in_use = std::max(statistics_.peak_in_use, statistics_.in_use);
  return {shared_from_this(), std::move(buffer), flags};
}

Buffer CachingAllocator::reserve(std::uint64_t bytes, const std::string& what, std::uint32_t flags) {
  const auto attempt = [&]() -> std::optional<Buffer> {
    if (only_counts()) return Buffer(device_, nullptr, bytes);
    tern_buffer raw = nullptr;
    const tern_status status =
        device_->api().buffer_create(device_->raw(), std::max<std::uint64_t>(bytes, 1), flags, &raw);
    if (status == TERN_OUT_OF_MEMORY) return std::nullopt;
    check(status, device_->backend(), cat(device_->name(), ": allocating ", human_bytes(bytes), " for ", what));
    return Buffer(device_, raw, bytes);
  };
  std::optional<Buffer> buffer = attempt();
  if (!buffer && drop_cache()) {
    buffer = attempt();
    if (buffer) ++statistics_.retries;
  }
  if (!buffer) {
    throw Failure(
        device_error(cat(device_->name(), " cannot allocate ", human_bytes(bytes), " for ", what, ": this run uses ",
                         human_bytes(statistics_.in_use), ", and ", human_bytes(device_->memory().free), " are free"),
                     kUseLess));
  }
  statistics_.reserved += bytes;
  statistics_.peak_reserved = std::max(statistics_.peak_reserved, statistics_.reserved);
  return std::move(*buffer);
}

void CachingAllocator::take_back(Buffer buffer, std::uint32_t flags) noexcept {
  const std::lock_guard lock(mutex_);
  statistics_.in_use -= buffer.bytes();
  const std::uint64_t size = buffer.bytes();
  cached_[flags].emplace(size, std::move(buffer));
}

bool CachingAllocator::drop_cache() {
  bool any = false;
  for (const auto& [flags, blocks] : cached_) {
    for (const auto& [size, buffer] : blocks) statistics_.reserved -= size;
    any = any || !blocks.empty();
  }
  cached_.clear();
  return any;
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  (void)drop_cache();
}

AllocatorStatistics CachingAllocator::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void CachingAllocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  statistics_.peak_in_use = statistics_.in_use;
  statistics_.peak_reserved = statistics_.reserved;
}

}  // namespace tern::accel
