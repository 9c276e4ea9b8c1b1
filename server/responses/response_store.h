// Answers that clients may ask for again, or go on from by previous_response_id.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "io/json.h"

namespace tern::server::responses {

struct StoredResponse {
  io::Json response;
  io::Json input;  // an array: all items that the model was asked, those of the responses before it too
};

// The newest that fit. Any thread.
class ResponseStore {
 public:
  struct Limits {
    std::size_t responses = 1000;
    std::size_t bytes = 64U << 20;  // of their JSON text
  };
  ResponseStore() = default;
  explicit ResponseStore(Limits limits) : limits_(limits) {}

  void put(const std::string& id, StoredResponse one);  // the oldest go; one that is larger than all isn't kept
  [[nodiscard]] std::shared_ptr<const StoredResponse> get(const std::string& id) const;  // null: none
  bool erase(const std::string& id);                                                     // false: none

 private:
  struct Entry {
    std::shared_ptr<const StoredResponse> value;
    std::size_t bytes = 0;
  };
  bool erase_locked(const std::string& id);

  Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::deque<std::string> order_;  // the oldest first
  std::size_t bytes_ = 0;
};

}  // namespace tern::server::responses
