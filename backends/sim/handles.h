// Handles that are no addresses: what dereferences one crashes, and what uses a destroyed one is told so.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "backends/sim/error.h"
#include "base/strings.h"

namespace tern::sim {

template <typename Object, typename Raw>
class Handles {
 public:
  // `what`: "buffer", in messages.
  explicit Handles(const char* what) : what_(what) {}

  Raw add(std::shared_ptr<Object> object) {
    // Above the addresses that x86-64 and Arm give to programs, and never used twice.
    const std::uintptr_t value = kFirst + (next_++ << 4);
    objects_.emplace(value, std::move(object));
    return reinterpret_cast<Raw>(value);  // NOLINT(performance-no-int-to-ptr): a handle, never followed
  }
  // Throws where the handle was never given or has been destroyed.
  [[nodiscard]] const std::shared_ptr<Object>& at(Raw raw) const {
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(raw));
    if (found == objects_.end()) refuse(raw);
    return found->second;
  }
  [[nodiscard]] bool contains(Raw raw) const { return objects_.count(reinterpret_cast<std::uintptr_t>(raw)) != 0; }
  std::shared_ptr<Object> remove(Raw raw) {
    auto object = at(raw);
    objects_.erase(reinterpret_cast<std::uintptr_t>(raw));
    return object;
  }
  [[nodiscard]] bool empty() const { return objects_.empty(); }
  template <typename Visit>
  void each(Visit&& visit) const {
    for (const auto& [value, object] : objects_) visit(*object);
  }

 private:
  static constexpr std::uintptr_t kFirst = std::uintptr_t{0xde50} << 48;
  [[noreturn]] void refuse(Raw raw) const {
    if (raw == nullptr) fail(TERN_INVALID_ARGUMENT, cat("no ", what_, " was given"));
    const std::uintptr_t value = reinterpret_cast<std::uintptr_t>(raw) - kFirst;
    const bool destroyed = value >> 4 < next_ && (value & 15) == 0;
    fail(TERN_INVALID_ARGUMENT, destroyed ? cat("the ", what_, " was used after it was destroyed")
                                          : cat("no ", what_, " of this device has this handle"));
  }
  const char* what_;
  std::uintptr_t next_ = 1;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace tern::sim
