#include "engine/adapter_slots.h"

#include <algorithm>

namespace tern::engine {

std::int32_t AdapterSlots::best_for(const ServedAdapter& adapter) const {
  std::int32_t best = -1;
  for (std::int32_t at = 0; at < num_slots(); ++at) {
    const Slot& slot = slots_[static_cast<std::size_t>(at)];
    if (slot.adapter && slot.adapter->id == adapter.id) return at;
    if (slot.holders > 0) continue;
    if (best < 0 || slot.given_back < slots_[static_cast<std::size_t>(best)].given_back) best = at;
  }
  return best;
}

std::int32_t AdapterSlots::take(const AdapterRef& adapter) {
  const std::int32_t at = best_for(*adapter);
  Slot& slot = slots_.at(static_cast<std::size_t>(at));
  if (!slot.adapter || slot.adapter->id != adapter->id) {
    slot.adapter = adapter;
    slot.is_new = true;
  }
  ++slot.holders;
  return at;
}

void AdapterSlots::give_back(std::int32_t slot) {
  Slot& left = slots_.at(static_cast<std::size_t>(slot));
  --left.holders;
  left.given_back = ++times_;
}

std::int64_t AdapterSlots::num_held() const {
  return std::ranges::count_if(slots_, [](const Slot& slot) { return slot.holders > 0; });
}

}  // namespace tern::engine
