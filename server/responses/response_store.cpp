#include "server/responses/response_store.h"

#include <algorithm>

namespace tern::server::responses {

void ResponseStore::put(const std::string& id, StoredResponse one) {
  const std::size_t bytes = one.response.dump().size() + one.input.dump().size();
  Entry entry{std::make_shared<const StoredResponse>(std::move(one)), bytes};
  const std::lock_guard lock(mutex_);
  erase_locked(id);
  if (bytes > limits_.bytes || limits_.responses == 0) return;
  while (entries_.size() >= limits_.responses || bytes_ + bytes > limits_.bytes) {
    const std::string oldest = order_.front();
    erase_locked(oldest);
  }
  entries_.emplace(id, std::move(entry));
  order_.push_back(id);
  bytes_ += bytes;
}

std::shared_ptr<const StoredResponse> ResponseStore::get(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.value;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return erase_locked(id);
}

bool ResponseStore::erase_locked(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  bytes_ -= found->second.bytes;
  entries_.erase(found);
  order_.erase(std::find(order_.begin(), order_.end(), id));
  return true;
}

}  // namespace tern::server::responses
