#include "server/deadlines.h"

namespace tern::server {

Deadlines::Deadlines() : thread_([this] { serve(); }) {}

Deadlines::~Deadlines() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Deadlines::Ticket Deadlines::add(Clock::time_point when, std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  const Ticket ticket{when, next_++};
  const bool first = calls_.empty() || ticket < calls_.begin()->first;
  calls_.emplace(ticket, std::move(call));
  if (first) wake_.notify_one();
  return ticket;
}

void Deadlines::take_back(const Ticket& ticket) {
  std::function<void()> unused;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  const auto found = calls_.find(ticket);
  if (found == calls_.end()) return;
  unused.swap(found->second);
  calls_.erase(found);
}

void Deadlines::serve() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (calls_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto first = calls_.begin()->first.first;
    if (Clock::now() < first) {
      wake_.wait_until(lock, first);
      continue;
    }
    const std::function<void()> call = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    lock.unlock();
    call();
    lock.lock();
  }
}

}  // namespace tern::server
