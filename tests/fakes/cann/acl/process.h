// All that the fake's runtime holds for this process, and what the fake's other libraries build on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "backends/npu/cann/errors.h"
#include "backends/npu/cann/types.h"
#include "tests/fakes/cann/acl/errors.h"
#include "tests/fakes/cann/acl/memory.h"
#include "tests/fakes/cann/acl/settings.h"
#include "tests/fakes/cann/acl/stream.h"

namespace fake {

class Graph;

struct Device {
  Device(int number, int physical, const Settings& settings)
      : number(number), physical(physical), memory(settings.memory, settings.taken) {}
  const int number;    // of this process
  const int physical;  // the driver's
  DeviceMemory memory;
  std::unique_ptr<Stream> default_stream;
  std::atomic<int> error{0};            // of the first task that failed: it stays until the device is reset
  std::map<int, std::int64_t> options;  // aclrtCtxSetSysParamOpt
  std::set<int> peers;                  // whose memory it may reach
};

// aclrtMallocPhysical: a place in a device's memory.
struct Physical {
  DeviceMemory* memory;
  std::uint64_t place;
};

struct Process {
  std::mutex mutex;  // of the tables here and of captures
  Settings settings;
  bool initialized = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<int, std::int64_t> options;  // aclrtSetSysParamOpt
  std::map<void*, std::unique_ptr<Stream>> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  std::map<void*, std::unique_ptr<Physical>> physical;
  std::map<void*, std::unique_ptr<Graph>> graphs;
  std::map<std::byte*, std::size_t> pinned;  // aclrtMallocHost
  std::map<std::byte*, std::pair<std::byte*, std::size_t>>
      mapped;                                 // aclrtHostRegister: the device's address, the host's
  std::map<std::string, std::int64_t> calls;  // for TERN_FAKE_CANN_FAULT
  std::uint32_t streams_made = 0;
  std::mutex events_mutex;
  std::condition_variable events_changed;
  std::atomic<std::uint64_t> random_state{1};
};

[[nodiscard]] Process& process();

// Of the calling thread. Refuses with 107002 where none is set.
[[nodiscard]] Device& current_device();
[[nodiscard]] bool has_device();
void set_current_device(int number);  // -1: none
[[nodiscard]] int current_device_number();

// The stream behind a handle, null being the current device's own. Refuses what is none.
[[nodiscard]] Stream& stream_of(aclrtStream handle);
[[nodiscard]] std::shared_ptr<Event> event_of(aclrtEvent handle);

// Adds a task to a stream's work, to the graph that it's captured into, or to the update of a group's tasks.
void launch(Stream& stream, Task task);

[[nodiscard]] Device* device_holding(const void* address);  // null: no device's memory
// Where the host may touch it. Refuses with 507015 where it isn't wholly in memory that is allocated, as a kernel would
// find.
[[nodiscard]] std::byte* device_view(const void* address, std::size_t bytes);
[[nodiscard]] bool is_pinned(const void* address, std::size_t bytes);

// What the device is free to choose, from TERN_FAKE_CANN_SEED: [0, below).
[[nodiscard]] std::uint64_t chance(std::uint64_t below);
// The value of a setting of the current context or else of the process; 0 where none is made.
[[nodiscard]] std::int64_t option(int which);
[[nodiscard]] bool deterministic();
[[nodiscard]] const Chip& chip();
// Whether the fake is of this version or newer.
[[nodiscard]] bool at_least(int major, int minor);

// Refuses what may not be done while a stream is captured, and ends the capture: "mode" rules for what waits or can't
// be captured.
void forbid_in_capture(const char* what, int code = ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);

}  // namespace fake
