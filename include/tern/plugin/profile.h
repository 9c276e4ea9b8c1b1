/* Names of ranges in each thread, and in C++ the recording of what ran on a device. See tern/plugin.h. */
#ifndef TERN_PLUGIN_PROFILE_H
#define TERN_PLUGIN_PROFILE_H

#include "tern/plugin/error.h"
#ifdef __cplusplus
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string_view>
#include <vector>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_PLUGIN_RANGE_BYTES 64u
#define TERN_PLUGIN_RANGE_DEPTH 16u

/* The names of one thread's open ranges, for all sources of a plugin. Deeper ones are counted, and not named. */
typedef struct tern_plugin_ranges {
  uint32_t depth;
  char names[TERN_PLUGIN_RANGE_DEPTH][TERN_PLUGIN_RANGE_BYTES];
} tern_plugin_ranges;
__attribute__((weak, visibility("hidden"))) __thread tern_plugin_ranges tern_plugin_open_ranges;

/* tern_backend.range_push and range_pop. */
static inline void tern_plugin_range_push(const char* name) {
  tern_plugin_ranges* ranges = &tern_plugin_open_ranges;
  if (ranges->depth < TERN_PLUGIN_RANGE_DEPTH) {
    const tern_text text = {ranges->names[ranges->depth], TERN_PLUGIN_RANGE_BYTES};
    tern_plugin_put_text(text, name != NULL ? name : "");
  }
  ++ranges->depth;
}
static inline void tern_plugin_range_pop(void) {
  if (tern_plugin_open_ranges.depth > 0) --tern_plugin_open_ranges.depth;
}

/* The name of the calling thread's innermost range, or "". Valid until the thread's next push. */
static inline const char* tern_plugin_range(void) {
  const tern_plugin_ranges* ranges = &tern_plugin_open_ranges;
  const uint32_t named = ranges->depth < TERN_PLUGIN_RANGE_DEPTH ? ranges->depth : TERN_PLUGIN_RANGE_DEPTH;
  return named > 0 ? ranges->names[named - 1] : "";
}

#ifdef __cplusplus
}

namespace tern_plugin {

// The clock of a record's times: Linux's CLOCK_MONOTONIC.
inline std::uint64_t monotonic_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// A record of work that the calling thread queues now; its times come once it has run.
inline tern_profile_record make_record(std::uint32_t kind, std::string_view name, std::uint64_t bytes,
                                       std::uint64_t stream) {
  tern_profile_record record{};
  tern_plugin_put({record.name, sizeof record.name}, name.data(), name.size());
  tern_plugin_put_text({record.range, sizeof record.range}, tern_plugin_range());
  record.kind = kind;
  record.bytes = bytes;
  record.stream = stream;
  return record;
}

// What runs on one device, from profile_start to profile_stop; shared by all of its handles. Any number of threads.
class Recording {
 public:
  // Whether work that is queued now is recorded.
  [[nodiscard]] bool is_on() const noexcept { return on_.load(std::memory_order_relaxed); }

  tern_status start() {
    if (on_.exchange(true)) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "profile_start: it has been started");
    return TERN_OK;
  }
  tern_status stop() {
    if (!on_.exchange(false)) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "profile_stop: it wasn't started");
    return TERN_OK;
  }
  // Finished work; in each stream's order.
  void add(const tern_profile_record& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  tern_status collect(tern_profile_record* records, std::uint64_t capacity, std::uint64_t* count) {
    if (count == nullptr || (records == nullptr && capacity > 0)) {
      return tern_plugin_fail(TERN_INVALID_ARGUMENT, "profile_collect: no place for the records or their number");
    }
    const std::lock_guard lock(mutex_);
    *count = records_.size();
    if (records == nullptr) return TERN_OK;
    *count = std::min<std::uint64_t>(capacity, records_.size());
    const auto end = records_.begin() + static_cast<std::ptrdiff_t>(*count);
    std::copy(records_.begin(), end, records);
    records_.erase(records_.begin(), end);
    return TERN_OK;
  }

 private:
  std::atomic<bool> on_{false};
  std::mutex mutex_;
  std::vector<tern_profile_record> records_;
};

}  // namespace tern_plugin
#endif
#endif
