// A timeline of some steps of a run: what the host does, and what ran on the device. Perfetto and chrome://tracing open
// it: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "accel/device_profile.h"

namespace tern::accel {

struct TraceOptions {
  std::int64_t first = 1;  // of the steps that are recorded, counted from 1
  std::int64_t last = 1;
  std::size_t max_events = 500'000;  // a recording that has so many ends; about 150 bytes of the file each
};

// Off but for the steps that are recorded: asking `is_on` is all that it costs then. Any number of threads.
class Trace {
 public:
  // `on_end`: recording is over, once in a trace's life; nothing was recorded where no step came.
  Trace(DevicePtr device, const TraceOptions& options, std::function<void(const Trace&)> on_end);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  [[nodiscard]] bool is_on() const { return on_.load(std::memory_order_relaxed); }
  // Whether the device says when its work ran (TERN_CAP_PROFILE). Else each op is to be waited for, and its time is
  // what the host sees: launch and wait included, with nothing beside it.
  [[nodiscard]] bool reads_device() const { return reads_device_; }

  void begin_step();
  void end_step(std::string_view name, std::uint64_t begin_ns) noexcept;
  // Takes what the device has recorded so far: work that was waited for is whole.
  void collect();
  // Ends what records, and tells `on_end`. A device that fails at it is warned of.
  void end() noexcept;

  // The place of an op among those that have names; `arguments`: members of a JSON object, `"shapes":"2x3"`.
  [[nodiscard]] std::uint32_t intern(std::string_view name, std::string_view arguments);
  // On the calling thread's row.
  void add_host(std::uint32_t what, const char* category, std::uint64_t begin_ns);
  // On a row of the device, where the host timed it.
  void add_timed(std::uint32_t what, const char* category, std::uint32_t lane, std::uint64_t begin_ns);

  [[nodiscard]] std::int64_t steps() const { return recorded_; }  // that were recorded
  [[nodiscard]] std::int64_t first() const { return options_.first; }
  [[nodiscard]] std::size_t events() const { return events_.size(); }
  [[nodiscard]] bool is_cut() const { return cut_; }  // it ended at max_events
  // The trace as JSON, in pieces. Microseconds from the first event.
  void write(const std::function<void(std::string_view)>& put) const;

 private:
  struct Event {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    const char* category = "";
    std::uint32_t what = 0;    // of names_
    std::uint32_t kernel = 0;  // of names_; 0: none
    std::uint64_t bytes = 0;   // of a copy, fill or collective
    std::uint32_t row = 0;     // of host_rows_ or device_rows_
    bool of_device = false;
  };
  void add(const Event& event);
  [[nodiscard]] Event event_of(const tern_profile_record& record);
  [[nodiscard]] std::string event_text(const Event& event, std::uint64_t origin) const;
  [[nodiscard]] std::string head() const;

  DevicePtr device_;
  TraceOptions options_;
  std::function<void(const Trace&)> on_end_;
  bool reads_device_;
  std::atomic<bool> on_{false};
  bool ended_ = false;
  bool cut_ = false;
  std::int64_t begun_ = 0;     // steps
  std::int64_t recorded_ = 0;  // of them
  std::optional<DeviceProfile> recording_;
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::vector<std::pair<std::string, std::string>> names_;  // with their arguments
  std::map<std::string, std::uint32_t> places_;             // of names_
  std::map<std::thread::id, std::uint32_t> host_rows_;
  std::map<std::uint64_t, std::uint32_t> device_rows_;  // by stream, or by lane where the host times
};

// One step of the run; null: none is traced.
class TraceStep {
 public:
  TraceStep(Trace* trace, std::int64_t number);
  TraceStep(const TraceStep&) = delete;
  TraceStep& operator=(const TraceStep&) = delete;
  ~TraceStep();

 private:
  Trace* trace_;
  std::int64_t number_;
  std::uint64_t begin_ns_ = 0;
};

// What this thread does while it lives; null: nothing is traced.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, std::string_view name, const char* category = "host");
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan();

 private:
  Trace* trace_;  // null: off when it began
  const char* category_;
  std::uint32_t what_ = 0;
  std::uint64_t begin_ns_ = 0;
};

// The work of one op while it is queued, of a trace that is on. Where the trace doesn't read the device, the caller
// waits for the work before this ends.
class TraceOp {
 public:
  struct Place {
    const char* category = "op";  // "op" or "copy"
    std::uint32_t lane = 0;
  };
  TraceOp(Trace& trace, const Device& device, std::uint32_t what, std::string_view name, Place place);
  TraceOp(const TraceOp&) = delete;
  TraceOp& operator=(const TraceOp&) = delete;
  ~TraceOp();

 private:
  Trace& trace_;
  std::uint32_t what_;
  Place place_;
  std::uint64_t begin_ns_;
  ProfileRange range_;
};

// "text" as a JSON string; what is no plain character becomes a question mark.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace tern::accel
