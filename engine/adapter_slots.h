// Which adapter sits in which slot of the device: pure bookkeeping beside the scheduler's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "models/adapter_pairs.h"

namespace tern::engine {

// An adapter that requests can choose.
struct ServedAdapter {
  std::int64_t id = 0;  // of this reading of its files: another has another
  std::string name;
  std::filesystem::path path;
  models::AdapterPairs pairs;
  std::string digest;  // of the pairs: others share nothing in the prefix cache
};
using AdapterRef = std::shared_ptr<const ServedAdapter>;

class AdapterSlots {
 public:
  explicit AdapterSlots(std::int64_t slots) : slots_(static_cast<std::size_t>(slots)) {}

  [[nodiscard]] std::int32_t num_slots() const { return static_cast<std::int32_t>(slots_.size()); }
  // Whether a slot has the adapter or is held by nobody.
  [[nodiscard]] bool has_room_for(const ServedAdapter& adapter) const { return best_for(adapter) >= 0; }
  // A slot for the adapter, which it keeps until all who took it have given it back and another needs it: of those that
  // nobody holds, the one that was given back longest ago goes first. There must be room.
  [[nodiscard]] std::int32_t take(const AdapterRef& adapter);
  void give_back(std::int32_t slot);
  [[nodiscard]] std::int64_t num_held() const;

  // Calls `fill` for each slot that got an adapter since the last call.
  template <typename Fill>
  void fill_new(Fill&& fill) {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (!slots_[slot].is_new) continue;
      fill(static_cast<std::int32_t>(slot), *slots_[slot].adapter);
      slots_[slot].is_new = false;
    }
  }

 private:
  struct Slot {
    AdapterRef adapter;
    std::int64_t holders = 0;
    std::int64_t given_back = 0;  // when
    bool is_new = false;
  };
  [[nodiscard]] std::int32_t best_for(const ServedAdapter& adapter) const;  // -1: none

  std::vector<Slot> slots_;
  std::int64_t times_ = 0;
};

}  // namespace tern::engine
