#include <algorithm>
#include <limits>
#include <vector>

#include "backends/opencl/interface.h"
#include "backends/opencl/runtime.h"

namespace tern::opencl {
namespace {

std::uint64_t time_of(cl_event event, cl_profiling_info what) {
  cl_ulong time = 0;
  check(cl().GetEventProfilingInfo(event, what, sizeof time, &time, nullptr), "asking for the time of work");
  return time;
}

bool is_finished(cl_event event) {
  cl_int status = CL_COMPLETE;
  const cl_int code = cl().GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return code != CL_SUCCESS || status <= CL_COMPLETE;
}

// What lies between the device's clock and the host's: OpenCL 1.2 tells no more than when a command was queued, which
// the host's clock encloses. The narrowest of some tries is taken.
std::int64_t measure_offset(cl_command_queue queue) {
  std::int64_t offset = 0;
  std::uint64_t narrowest = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 8; ++i) {
    cl_event raw = nullptr;
    const std::uint64_t before = tern_plugin::monotonic_now();
    check(cl().EnqueueMarkerWithWaitList(queue, 0, nullptr, &raw), "comparing clocks");
    const std::uint64_t after = tern_plugin::monotonic_now();
    const OwnedEvent mark(raw);
    check(cl().Finish(queue), "comparing clocks");
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    const std::uint64_t middle = before + (after - before) / 2;
    offset = static_cast<std::int64_t>(middle - time_of(mark.get(), CL_PROFILING_COMMAND_QUEUED));
  }
  return offset;
}

}  // namespace

tern_status Profile::start(cl_command_queue queue) {
  if (!recording_.is_on()) clock_offset_ = measure_offset(queue);
  return recording_.start();
}

void Profile::queued(const tern_profile_record& record, OwnedEvent event) {
  const std::lock_guard lock(mutex_);
  pending_.push_back({record, std::move(event)});
}

// A stream's work finishes in its order, so what is finished here comes in each stream's order.
void Profile::take_finished() {
  std::deque<Pending> left;
  std::vector<std::uint64_t> waiting;  // streams with something unfinished
  for (Pending& pending : pending_) {
    const bool behind = std::find(waiting.begin(), waiting.end(), pending.record.stream) != waiting.end();
    if (behind || !is_finished(pending.event.get())) {
      if (!behind) waiting.push_back(pending.record.stream);
      left.push_back(std::move(pending));
      continue;
    }
    tern_profile_record& record = pending.record;
    const auto offset = static_cast<std::uint64_t>(clock_offset_.load());
    record.begin_ns = time_of(pending.event.get(), CL_PROFILING_COMMAND_START) + offset;
    record.end_ns = time_of(pending.event.get(), CL_PROFILING_COMMAND_END) + offset;
    recording_.add(record);
  }
  pending_ = std::move(left);
}

tern_status Profile::collect(tern_profile_record* records, std::uint64_t capacity, std::uint64_t* count) {
  {
    const std::lock_guard lock(mutex_);
    take_finished();
  }
  return recording_.collect(records, capacity, count);
}

tern_status profile_start(tern_device device) {
  return guarded([&]() -> tern_status {
    DeviceState& state = require_present(device);
    return state.profile.start(state.own_queue.get());
  });
}

tern_status profile_stop(tern_device device) {
  return guarded([&]() -> tern_status { return require_present(device).profile.recording().stop(); });
}

tern_status profile_collect(tern_device device, tern_profile_record* records, uint64_t capacity, uint64_t* count) {
  return guarded([&]() -> tern_status { return require_present(device).profile.collect(records, capacity, count); });
}

}  // namespace tern::opencl
