// The objects behind the C interface's handles.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backends/cpu/kernel.h"
#include "base/status.h"
#include "tern/accel.h"
#include "tern/plugin.h"

namespace tern::cpu {

using tern_plugin::fail;
using tern_plugin::give_info;
using tern_plugin::HostArgs;
using tern_plugin::put_text;
using tern_plugin::require;

// What tern_backend_entry was given; set once, before anything else runs.
struct Host {
  int num_threads = 0;
  void (*log)(std::int32_t level, const char* line) = nullptr;
};
[[nodiscard]] Host& host();

// Runs the body of an interface function: nothing thrown crosses the C border. A kernel's Failure is the caller's
// mistake.
template <typename Body>
tern_status guarded(Body&& body) noexcept {
  return tern_plugin::guarded([&]() -> tern_status {
    try {
      return body();
    } catch (const Failure& failure) {
      return fail(TERN_INVALID_ARGUMENT, failure.what());
    }
  });
}

// Bytes held by this process through this backend.
struct Memory {
  std::mutex mutex;
  std::uint64_t in_use = 0;
  std::uint64_t peak = 0;
  void add(std::uint64_t bytes);
  void remove(std::uint64_t bytes);
};
[[nodiscard]] Memory& memory();

struct Device {
  Target target = Target::baseline;
  bool described = false;                      // a description alone: nothing runs
  std::shared_ptr<tern_plugin_memory> budget;  // what the buffers of this handle may take, and took
  std::shared_ptr<ThreadPool> pool;            // shared by all open handles of the process
  std::mutex mutex;
  std::vector<void*> host_blocks;  // from host_alloc
};

// Throws where there is no device, or a description alone.
void require_present(const Device* device);

// What runs here; one device, so one for all handles.
[[nodiscard]] tern_plugin::Recording& recording();

struct Buffer {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t reserved = 0;  // bytes allocated; 0: imported or adopted, somebody else's
  bool reclaimable = false;    // in pages of its own
  bool evicted = false;        // those pages hold nothing and can't be touched
  std::shared_ptr<tern_plugin_memory> budget;
};

struct Plan {
  Device* device = nullptr;
  const tern_op_signature* signature = nullptr;
  tern_plugin::OpDesc desc;
  const KernelEntry* kernel = nullptr;
  std::shared_ptr<void> state;
  std::uint64_t workspace_bytes = 0;
};

struct Bound {
  std::shared_ptr<const Plan> plan;
  std::vector<TensorView> args;
  std::byte* workspace = nullptr;
};

struct EventTime {
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

// A captured graph: a list run in order. Copies keep the addresses they were given, as a device's graph does.
struct Capture {
  struct Launch {
    std::shared_ptr<const Bound> bound;
    HostArgs host_args;
  };
  struct Copy {
    void* dst;
    const void* src;
    std::uint64_t bytes;
  };
  struct Fill {
    void* dst;
    std::uint8_t byte;
    std::uint64_t bytes;
  };
  struct Record {
    std::shared_ptr<EventTime> event;
  };
  struct Pack {  // of a weight into a private layout, or back
    TensorView packed, weight;
    std::uint32_t uses;
    bool back;
    const Device* device;
  };
  using Node = std::variant<Launch, Copy, Fill, Record, Pack>;
  std::mutex mutex;  // launches and updates of one capture exclude each other
  std::vector<Node> nodes;
  bool ended = false;
};

// Work runs on the thread that gives it, before the call returns: a stream is only where captures are recorded.
struct Stream {
  Device* device = nullptr;
  bool origin = false;  // capture_begin was called on this stream; others join by waiting for a recorded event
  [[nodiscard]] Capture* recording() {
    if (capture && capture->ended) capture.reset();
    return capture.get();
  }
  std::shared_ptr<Capture> capture;
};

struct Event {
  bool timing = false;
  std::shared_ptr<EventTime> state = std::make_shared<EventTime>();
  std::weak_ptr<Capture> capture;  // of the stream that recorded it last, if that was recording
};

// Checks and copies a launch's host_args; throws tern_plugin::Error with what is wrong. Where none are given, a launch
// takes the capacities for the counts, and lengths from their tensors.
[[nodiscard]] HostArgs copy_host_args(const Plan& plan, const tern_host_args* host_args);
void run_bound(const Bound& bound, const HostArgs& host_args);
void run_node(const Capture::Node& node);
// The same, told to the profile if one is being recorded.
void run_recorded(const Stream& stream, const Capture::Node& node);
// The text that names a kernel where it computes for the target.
[[nodiscard]] std::string choice_of(const KernelEntry& kernel, Target target);
// Appends to the stream's capture, or runs at once. `node_id`, if given, takes the place in the capture.
void submit(Stream& stream, Capture::Node node, std::uint64_t* node_id = nullptr);
// The address of a plane, its range checked against the buffer; throws Failure.
[[nodiscard]] std::byte* plane_data(const tern_plane& plane, std::uint64_t bytes, const char* what);
// A tensor with its planes resolved and checked; throws Failure. `what` names it.
[[nodiscard]] TensorView view_tensor(const tern_tensor& tensor, Target target, const std::string& what);

}  // namespace tern::cpu

struct tern_device_s : tern::cpu::Device {};
struct tern_buffer_s : tern::cpu::Buffer {};
struct tern_stream_s : tern::cpu::Stream {};
struct tern_event_s : tern::cpu::Event {};
struct tern_capture_s {
  std::shared_ptr<tern::cpu::Capture> capture;
};
struct tern_plan_s {
  std::shared_ptr<const tern::cpu::Plan> plan;
};
struct tern_bound_s {
  std::shared_ptr<const tern::cpu::Bound> bound;
};
