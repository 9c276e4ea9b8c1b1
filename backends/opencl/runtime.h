// The objects behind the C interface's handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/opencl/cl.h"
#include "backends/opencl/error.h"
#include "backends/opencl/facts.h"
#include "backends/opencl/kernel.h"
#include "backends/opencl/program.h"
#include "tern/accel.h"
#include "tern/plugin.h"

namespace tern::opencl {

// What tern_backend_entry was given; set once, before anything else runs.
struct Host {
  std::string cache_folder;  // "": none
  void (*log)(std::int32_t level, const char* line) = nullptr;
};
[[nodiscard]] Host& host();

// What ran on one device; shared by all of its handles.
class Profile {
 public:
  [[nodiscard]] tern_plugin::Recording& recording() { return recording_; }
  // Beginning to record: how the device's clock lies against the host's is measured on `queue`.
  tern_status start(cl_command_queue queue);
  // Work that has been queued with `event`.
  void queued(const tern_profile_record& record, OwnedEvent event);
  tern_status collect(tern_profile_record* records, std::uint64_t capacity, std::uint64_t* count);

 private:
  struct Pending {
    tern_profile_record record;
    OwnedEvent event;
  };
  void take_finished();
  tern_plugin::Recording recording_;
  std::mutex mutex_;
  std::deque<Pending> pending_;
  std::atomic<std::int64_t> clock_offset_{0};  // nanoseconds from the device's clock to the host's
};

// A present device while any handle of it is open.
struct DeviceState {
  DeviceState(const Present& present, std::int32_t ordinal);
  std::int32_t ordinal;
  const Facts& facts;
  cl_device_id id;
  OwnedContext context;
  OwnedQueue own_queue;  // for what the backend itself needs: mapping, measuring
  Programs programs;
  Profile profile;
  tern_plugin_memory memory{};  // of the whole process
  std::mutex mutex;
  std::unordered_map<void*, std::pair<OwnedMemory, std::uint64_t>> host_blocks;  // from host_alloc, mapped
};

struct Device {
  std::shared_ptr<DeviceState> state;          // null: a description alone
  std::shared_ptr<tern_plugin_memory> budget;  // what the buffers of this handle may take, and took
  const Facts* facts = nullptr;
};

// The state; throws where there is no device, or a description alone.
[[nodiscard]] DeviceState& require_present(const Device* device);

struct Buffer {
  std::shared_ptr<DeviceState> state;
  std::shared_ptr<tern_plugin_memory> budget;
  OwnedMemory memory;       // none: empty, or evicted
  std::uint64_t begin = 0;  // bytes of `memory` before the buffer's first: imported pages begin earlier
  std::uint64_t bytes = 0;
  std::uint64_t counted = 0;  // bytes of device memory taken; 0: imported or adopted
  bool reclaimable = false;
  bool evicted = false;
};

struct Stream {
  std::shared_ptr<DeviceState> state;
  OwnedQueue queue;
  bool failed = false;  // what was queued earlier failed: final
  unsigned unflushed = 0;
};

struct Event {
  bool timing = false;
  std::mutex mutex;
  std::shared_ptr<DeviceState> state;  // of the stream that recorded it
  OwnedEvent mark;                     // none: never recorded
};

struct Plan {
  Device* device = nullptr;
  tern_plugin::OpDesc desc;
  const KernelEntry* kernel = nullptr;
  std::vector<std::pair<cl_program, const char*>> functions;  // the device's programs, and the kernels in them
  std::uint64_t workspace_bytes = 0;
};

struct Bound {
  std::shared_ptr<const Plan> plan;
  std::vector<tern_tensor> args;
  tern_plane workspace{};
  std::vector<OwnedKernel> kernels;  // one at a time sets their arguments
};

// Queues one command on a stream: `enqueue(cl_event*)` gives OpenCL's code; the event is wanted where a profile is
// being recorded. Throws Error.
template <typename Enqueue>
void submit(Stream& stream, std::uint32_t kind, std::string_view name, std::uint64_t bytes, Enqueue&& enqueue) {
  constexpr unsigned kFlushEvery = 16;  // so that the device begins while the host still queues
  if (stream.failed) throw Error(TERN_ASYNC_ERROR, "work that was queued earlier on this stream failed");
  Profile& profile = stream.state->profile;
  if (profile.recording().is_on()) {
    cl_event event = nullptr;
    const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&stream));
    const auto record = tern_plugin::make_record(kind, name, bytes, id);
    check(enqueue(&event), name);
    profile.queued(record, OwnedEvent(event));
  } else {
    check(enqueue(nullptr), name);
  }
  if (++stream.unflushed >= kFlushEvery) {
    (void)cl().Flush(stream.queue.get());
    stream.unflushed = 0;
  }
}

// Sets bytes of a buffer.
void fill_bytes(Stream& stream, const Place& to, std::uint8_t byte, std::uint64_t bytes);
// A queue in order, which measures times.
[[nodiscard]] OwnedQueue make_queue(const DeviceState& state);
// Where a plane lies, its range checked against the buffer; throws Error. `what` names it.
[[nodiscard]] Place find_place(const tern_plane& plane, std::uint64_t bytes, std::string_view what);
// A plan of one kernel, with its programs compiled unless the device is only described.
[[nodiscard]] std::shared_ptr<Plan> make_plan(Device& device, const tern_op_desc& desc, const KernelEntry& kernel);
[[nodiscard]] Bound make_bound(std::shared_ptr<const Plan> plan, const tern_tensor* args, tern_plane workspace);
void run_bound(const Bound& bound, const HostArgs& host_args, Stream& stream);

}  // namespace tern::opencl

struct tern_device_s : tern::opencl::Device {};
struct tern_buffer_s : tern::opencl::Buffer {};
struct tern_stream_s : tern::opencl::Stream {};
struct tern_event_s : tern::opencl::Event {};
struct tern_plan_s {
  std::shared_ptr<const tern::opencl::Plan> plan;
};
struct tern_bound_s : tern::opencl::Bound {};
