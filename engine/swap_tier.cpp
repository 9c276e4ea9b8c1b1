#include "engine/swap_tier.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tern::engine {

SwapTier::SwapTier(std::int64_t most, std::function<bool()> make_place)
    : most_(most), make_place_(std::move(make_place)) {}

std::size_t SwapTier::FirstBits::operator()(const BlockHash& hash) const noexcept {
  std::size_t bits = 0;
  std::memcpy(&bits, hash.data(), sizeof bits);
  return bits;
}

bool SwapTier::free_a_place() {
  if (!free_places_.empty()) return true;
  if (places_ < most_) {
    if (make_place_()) {
      free_places_.push_back(places_++);
      return true;
    }
    most_ = places_;
  }
  const auto oldest = std::find_if(by_use_.rbegin(), by_use_.rend(), [](const Entry& entry) { return !entry.is_held; });
  if (oldest == by_use_.rend()) return false;
  forget(BlockHash(oldest->hash));
  return true;
}

void SwapTier::keep(const BlockHash& hash, std::int32_t block) {
  if (const auto found = entries_.find(hash); found != entries_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return;
  }
  if (!free_a_place()) return;
  by_use_.push_front({hash, free_places_.back(), false});
  free_places_.pop_back();
  entries_.emplace(hash, by_use_.begin());
  copies_.push_back({false, block, by_use_.front().place});
}

void SwapTier::fetch(const BlockHash& hash, std::int32_t block) {
  const auto entry = entries_.at(hash);
  entry->is_held = false;
  by_use_.splice(by_use_.begin(), by_use_, entry);
  copies_.push_back({true, block, entry->place});
}

void SwapTier::forget(const BlockHash& hash) {
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return;
  free_places_.push_back(found->second->place);
  by_use_.erase(found->second);
  entries_.erase(found);
}

void SwapTier::forget_all() {
  while (!by_use_.empty()) forget(BlockHash(by_use_.front().hash));
}

}  // namespace tern::engine
