#include "server/slots.h"

#include <algorithm>

namespace tern::server {

Slots::Seat::Seat(Slots& slots, SlotTask task) : slots_(slots), task_(task), id_task_(slots.enter(*this)) {}
Slots::Seat::~Seat() { slots_.leave(id_task_); }

std::int64_t Slots::enter(const Seat& seat) {
  const std::scoped_lock lock(mutex_);
  tasks_[++last_] = &seat;
  const auto free = std::ranges::find(slots_, 0);
  if (free == slots_.end()) {
    waiting_[last_] = &seat;
  } else {
    *free = last_;
  }
  return last_;
}

void Slots::leave(std::int64_t id_task) {
  const std::scoped_lock lock(mutex_);
  tasks_.erase(id_task);
  waiting_.erase(id_task);
  const auto slot = std::ranges::find(slots_, id_task);
  if (slot == slots_.end()) return;
  *slot = waiting_.empty() ? 0 : waiting_.begin()->first;
  if (!waiting_.empty()) waiting_.erase(waiting_.begin());
}

std::vector<SlotState> Slots::states() const {
  const std::scoped_lock lock(mutex_);
  std::vector<SlotState> out;
  for (const std::int64_t id_task : slots_) {
    SlotState& state = out.emplace_back();
    if (id_task == 0) continue;
    const Seat& seat = *tasks_.at(id_task);
    state.id_task = id_task;
    state.task = seat.task_;
    state.decoded = seat.decoded_;
  }
  return out;
}

}  // namespace tern::server
