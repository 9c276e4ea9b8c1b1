// The places of a batch and what is computed in each, as people's tools ask for it. They are given out in the order in
// which answers were asked for, as the engine's are but for priorities and for those who make room.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tern::server {

// Of an answer that is on its way.
struct SlotTask {
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = 0;
  std::uint64_t seed = 0;
  float temperature = 0, top_p = 1, min_p = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::int32_t top_k = 0;  // 0: off
};

struct SlotState {
  std::int64_t id_task = 0;  // counted from 1; 0: the slot is free
  SlotTask task;
  std::int64_t decoded = 0;  // tokens of the answer
};

// Any thread.
class Slots {
 public:
  explicit Slots(std::int64_t count) : slots_(static_cast<std::size_t>(count)) {}

  // While one has it, its answer is on its way.
  class Seat {
   public:
    Seat(Slots& slots, SlotTask task);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    void count_token() { ++decoded_; }

   private:
    friend class Slots;
    Slots& slots_;
    const SlotTask task_;
    std::atomic<std::int64_t> decoded_{0};
    std::int64_t id_task_;  // last: from then on others read it
  };

  [[nodiscard]] std::vector<SlotState> states() const;

 private:
  std::int64_t enter(const Seat& seat);
  void leave(std::int64_t id_task);

  mutable std::mutex mutex_;
  std::vector<std::int64_t> slots_;                      // the task in each; 0: none
  std::map<std::int64_t, const Seat*> tasks_, waiting_;  // all, and those without a slot
  std::int64_t last_ = 0;
};

}  // namespace tern::server
