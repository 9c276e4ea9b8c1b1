#include "engine/state_snapshots.h"

namespace tern::engine {

StateSnapshots::StateSnapshots(std::int64_t most) {
  for (std::int64_t place = most; place > 0; --place) free_places_.push_back(static_cast<std::int32_t>(place - 1));
}

void StateSnapshots::keep(const BlockHash& hash, std::int32_t seat) {
  if (const auto found = entries_.find(hash); found != entries_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return;
  }
  if (free_places_.empty()) {
    if (by_use_.empty()) return;
    forget(BlockHash(by_use_.back().hash));
  }
  const std::int32_t place = free_places_.back();
  free_places_.pop_back();
  by_use_.push_front({hash, place});
  entries_.emplace(hash, by_use_.begin());
  copies_.push_back({false, seat, place});
}

void StateSnapshots::restore(const BlockHash& hash, std::int32_t seat) {
  const auto entry = entries_.at(hash);
  by_use_.splice(by_use_.begin(), by_use_, entry);
  copies_.push_back({true, seat, entry->place});
}

void StateSnapshots::forget(const BlockHash& hash) {
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return;
  free_places_.push_back(found->second->place);
  by_use_.erase(found->second);
  entries_.erase(found);
}

void StateSnapshots::forget_all() {
  while (!by_use_.empty()) forget(BlockHash(by_use_.front().hash));
}

}  // namespace tern::engine
