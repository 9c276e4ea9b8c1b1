#include "engine/swap_tier.h"

#include <algorithm>
#include <utility>

namespace tern::engine {

SwapTier::SwapTier(std::int64_t most, std::function<bool()> make_place, SwapStore* store)
    : most_(most), make_place_(std::move(make_place)), store_(store) {}

bool SwapTier::has(const BlockHash& hash) const {
  return entries_.contains(hash) || (store_ != nullptr && store_->has(hash));
}

std::optional<std::int32_t> SwapTier::take_place() {
  if (free_places_.empty() && static_cast<std::int64_t>(pins_.size()) < most_) {
    if (make_place_()) {
      free_places_.push_back(static_cast<std::int32_t>(pins_.size()));
      pins_.push_back(0);
      is_left_.push_back(false);
    } else {
      most_ = static_cast<std::int64_t>(pins_.size());
    }
  }
  if (free_places_.empty()) {
    const auto oldest = std::find_if(by_use_.rbegin(), by_use_.rend(), [this](const Entry& entry) {
      return !entry.is_held && pins_[static_cast<std::size_t>(entry.place)] == 0;
    });
    if (oldest == by_use_.rend()) return {};
    drop(BlockHash(oldest->hash));
  }
  const std::int32_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

SwapTier::Entry& SwapTier::enter(const BlockHash& hash, std::int32_t place) {
  by_use_.push_front({hash, place, false});
  entries_.emplace(hash, by_use_.begin());
  return by_use_.front();
}

void SwapTier::keep(const BlockHash& hash, std::int32_t block) {
  if (const auto found = entries_.find(hash); found != entries_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return;
  }
  const std::optional<std::int32_t> place = take_place();
  if (!place) return;
  enter(hash, *place);
  copies_.push_back({false, block, *place, hash});
}

void SwapTier::will_hold(std::span<const BlockHash> hashes) {
  if (store_ != nullptr) store_->will_load(hashes);
}

bool SwapTier::hold(const BlockHash& hash) {
  if (const auto found = entries_.find(hash); found != entries_.end()) {
    found->second->is_held = true;
    return true;
  }
  if (store_ == nullptr) return false;
  const std::optional<std::int32_t> place = take_place();
  if (!place) return false;
  if (!store_->load(hash, *place)) {
    free_places_.push_back(*place);
    return false;
  }
  enter(hash, *place).is_held = true;
  return true;
}

void SwapTier::fetch(const BlockHash& hash, std::int32_t block) {
  const auto entry = entries_.at(hash);
  entry->is_held = false;
  by_use_.splice(by_use_.begin(), by_use_, entry);
  copies_.push_back({true, block, entry->place, hash});
  if (store_ != nullptr) store_->use(hash);
}

void SwapTier::drop(const BlockHash& hash) {
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return;
  const std::int32_t place = found->second->place;
  if (pins_[static_cast<std::size_t>(place)] > 0) {
    is_left_[static_cast<std::size_t>(place)] = true;
  } else {
    free_places_.push_back(place);
  }
  by_use_.erase(found->second);
  entries_.erase(found);
}

void SwapTier::forget(const BlockHash& hash) {
  drop(hash);
  if (store_ != nullptr) store_->forget(hash);
}

void SwapTier::forget_all() {
  while (!by_use_.empty()) drop(BlockHash(by_use_.front().hash));
  if (store_ != nullptr) store_->forget_all();
}

std::optional<std::int32_t> SwapTier::place_of(const BlockHash& hash) const {
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return {};
  return found->second->place;
}

void SwapTier::unpin(std::int32_t place) {
  const auto at = static_cast<std::size_t>(place);
  if (--pins_[at] > 0 || !is_left_[at]) return;
  is_left_[at] = false;
  free_places_.push_back(place);
}

}  // namespace tern::engine
