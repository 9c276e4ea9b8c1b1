// The objects behind the C interface's handles.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/error.h"
#include "backends/cuda/facts.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/modules.h"
#include "tern/accel.h"
#include "tern/plugin.h"

namespace tern::cuda {

// What tern_backend_entry was given; set once, before anything else runs.
struct Host {
  void (*log)(std::int32_t level, const char* line) = nullptr;
};
[[nodiscard]] Host& host();

// The context that every library of this process shares on a device.
class PrimaryContext {
 public:
  PrimaryContext(CUdevice device, const std::string& name);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  // Makes it the calling thread's.
  void use() const;
  [[nodiscard]] CUcontext get() const { return context_; }

 private:
  CUdevice device_;
  CUcontext context_ = nullptr;
};

// An owned stream or event of the driver; its context is current where it is destroyed.
struct DestroyStream {
  void operator()(CUstream stream) const { (void)driver().StreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(CUevent event) const { (void)driver().EventDestroy(event); }
};
using OwnedStream = std::unique_ptr<CUstream_st, DestroyStream>;
using OwnedEvent = std::unique_ptr<CUevent_st, DestroyEvent>;
[[nodiscard]] OwnedStream make_stream(std::int32_t priority);
[[nodiscard]] OwnedEvent make_event(unsigned flags);

// What ran on one device; shared by all of its handles. Its context is current at every call.
class Profile {
 public:
  [[nodiscard]] tern_plugin::Recording& recording() { return recording_; }
  // Beginning to record: `idle` is a stream with nothing queued, on which the host's clock and the device's meet.
  tern_status start(CUstream idle);
  // Queues a mark on a stream.
  [[nodiscard]] OwnedEvent mark(CUstream stream);
  // Work that was queued between two marks.
  void queued(const tern_profile_record& record, OwnedEvent begin, OwnedEvent end, CUstream idle);
  tern_status collect(tern_profile_record* records, std::uint64_t capacity, std::uint64_t* count);

 private:
  // A mark whose time the host's clock tells. Times are floats of milliseconds from one to another, so a new one is set
  // each second.
  struct Base {
    OwnedEvent event;
    std::shared_ptr<Base> before;  // null: `host_ns` is known
    std::uint64_t host_ns = 0;
    std::uint64_t set_ns = 0;  // when it was set, by the host's clock
  };
  struct Pending {
    tern_profile_record record;
    OwnedEvent begin;
    OwnedEvent end;
    std::shared_ptr<Base> base;
  };
  void take_finished();
  void renew_base(CUstream idle);
  static std::uint64_t time_of(Base& base);
  static std::uint64_t time_of(Base& base, CUevent event);
  tern_plugin::Recording recording_;
  std::mutex mutex_;
  std::shared_ptr<Base> base_;
  std::deque<Pending> pending_;
  std::map<std::uint64_t, std::uint64_t> ends_;  // of each stream's last record
};

// A present device while any handle of it is open.
struct DeviceState {
  DeviceState(const Present& present, std::int32_t ordinal);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
  std::int32_t ordinal;
  const Facts& facts;
  CUdevice id;
  PrimaryContext context;  // current from here on while the rest is made
  OwnedStream own_stream;  // for what the backend itself needs
  Modules modules;
  Profile profile;
  tern_plugin_memory memory{};               // of the whole process
  std::atomic<std::uint64_t> comm_bytes{0};  // of it, what communicators take
  std::mutex mutex;
  std::map<const std::byte*, std::uint64_t> host_blocks;  // from host_alloc, with their sizes

  void use() const { context.use(); }
};

struct Device {
  std::shared_ptr<DeviceState> state;          // null: a description alone
  std::shared_ptr<tern_plugin_memory> budget;  // what the buffers of this handle may take, and took
  const Facts* facts = nullptr;
};

// The state, whose context is then the calling thread's; throws where there is no device, or a description alone.
[[nodiscard]] DeviceState& require_present(const Device* device);

struct Buffer {
  std::shared_ptr<DeviceState> state;
  std::shared_ptr<tern_plugin_memory> budget;
  enum class Kind { allocated, reclaimable, imported, adopted, of_other_process } kind = Kind::allocated;
  CUdeviceptr address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t counted = 0;   // bytes of device memory taken
  std::uint64_t reserved = 0;  // of a reclaimable one: bytes of its address
  bool shareable = false;
  bool evicted = false;
  void* pages = nullptr;  // of an imported one: where they begin
};
// Counts `bytes` against the limit of the buffer's handle and as this process's, while `allocate()` succeeds. Throws.
template <typename Allocate>
void take_memory(Buffer& buffer, std::uint64_t bytes, Allocate&& allocate) {
  require(tern_plugin_take_memory(buffer.budget.get(), bytes));
  try {
    require(tern_plugin_take_memory(&buffer.state->memory, bytes));
    try {
      allocate();
    } catch (...) {
      tern_plugin_return_memory(&buffer.state->memory, bytes);
      throw;
    }
  } catch (...) {
    tern_plugin_return_memory(buffer.budget.get(), bytes);
    throw;
  }
  buffer.counted = bytes;
}
// virtual_memory.cpp: addresses and memory of reclaimable buffers.
void reserve_address(Buffer& buffer);
void map_memory(Buffer& buffer);
void unmap_memory(Buffer& buffer);
void free_address(Buffer& buffer);
[[nodiscard]] std::uint64_t mapped_bytes(const DeviceState& state, std::uint64_t bytes);

// One kernel that a captured launch queued, or what a library did in it.
struct Step {
  const Function* function = nullptr;  // null: a library's
  std::array<unsigned, 3> blocks{};
  std::array<unsigned, 3> threads{};
  std::size_t shared = 0;
  bool overlapped = false;      // Call::overlapped
  bool empty = false;           // no blocks: "nothing" stands in its place
  std::vector<std::byte> data;  // arguments; of a library's, what it depends on
  std::vector<std::size_t> begins;
  CUgraphNode node = nullptr;

  [[nodiscard]] bool same_place(const Step& other) const;  // whether this may come where the other is
  [[nodiscard]] bool operator==(const Step& other) const;  // but for the node
};

struct Bound;
// The launches of a capture, by the ids that they gave.
struct Recording {
  struct Launched {
    const Bound* bound;
    std::vector<Step> steps;
  };
  std::vector<Launched> launches;
  bool ended = false;
};

struct Capture {
  std::shared_ptr<DeviceState> state;
  std::shared_ptr<Recording> recording;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
};

struct Stream {
  std::shared_ptr<DeviceState> state;
  CUstream handle = nullptr;
  bool adopted = false;
  bool origin = false;  // capture_begin was called on this stream
  std::shared_ptr<Recording> capture;
  std::vector<Step>* steps = nullptr;  // where a launch writes what it queues, while it is recorded
  bool dry = false;                    // it writes alone, and queues nothing
  tern_status failed = TERN_OK;        // final for the stream
  std::string failure;
  std::vector<std::shared_ptr<std::atomic<bool>>> aborted;  // of the communicators that it has collectives of
  [[nodiscard]] Recording* recording() {
    if (capture && capture->ended) capture.reset();
    return capture.get();
  }
};
// Makes the stream's context the calling thread's; throws where the stream has failed.
const Driver& use(Stream* stream, const char* what);
// As check, and remembers a failure that is final for the stream.
void check_stream(Stream& stream, CUresult code, std::string_view what);

struct Event {
  std::shared_ptr<DeviceState> state;
  CUevent handle = nullptr;
  bool adopted = false;
  bool lent = false;  // its handle went out, so others may set marks
  bool timing = false;
  bool recorded = false;
  bool captured = false;             // the last mark lies in a capture
  std::weak_ptr<Recording> capture;  // which one
};

struct Plan {
  Device* device = nullptr;
  tern_plugin::OpDesc desc;
  const KernelEntry* kernel = nullptr;
  std::vector<const Function*> functions;
  std::uint64_t workspace_bytes = 0;
};

struct Bound {
  std::shared_ptr<const Plan> plan;
  std::vector<tern_tensor> args;
  tern_plane workspace{};
  HostArgs host_args;  // of the last launch
};

// Queues work on a stream: `enqueue()` gives the driver's code. It is timed where a profile is being recorded. Throws.
template <typename Enqueue>
void submit(Stream& stream, std::uint32_t kind, std::string_view name, std::uint64_t bytes, Enqueue&& enqueue) {
  Profile& profile = stream.state->profile;
  if (!profile.recording().is_on() || stream.recording() != nullptr) return check_stream(stream, enqueue(), name);
  const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(stream.handle));
  const auto record = tern_plugin::make_record(kind, name, bytes, id);
  OwnedEvent begin = profile.mark(stream.handle);
  check_stream(stream, enqueue(), name);
  profile.queued(record, std::move(begin), profile.mark(stream.handle), stream.state->own_stream.get());
}

// Where a plane lies, its range checked against the buffer; throws Error. `what` names it.
[[nodiscard]] Place find_place(const tern_plane& plane, std::uint64_t bytes, std::string_view what);
// A plan of one kernel, with its functions found unless the device is only described.
[[nodiscard]] std::shared_ptr<Plan> make_plan(Device& device, const tern_op_desc& desc, const KernelEntry& kernel);
void run_bound(const Bound& bound, const HostArgs& host_args, Stream& stream);

}  // namespace tern::cuda

struct tern_device_s : tern::cuda::Device {};
struct tern_buffer_s : tern::cuda::Buffer {};
struct tern_stream_s : tern::cuda::Stream {};
struct tern_event_s : tern::cuda::Event {};
struct tern_capture_s : tern::cuda::Capture {};
struct tern_plan_s {
  std::shared_ptr<const tern::cuda::Plan> plan;
};
struct tern_bound_s : tern::cuda::Bound {};
