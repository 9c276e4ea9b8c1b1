// Everything that the handles stand for, and the order in which queued work runs. One world a process: devices meet in
// peer copies and collectives. One lock guards it all.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/sim/config.h"
#include "backends/sim/handles.h"
#include "ops/tensor_desc.h"
#include "tern/accel.h"

namespace tern::sim {

// What device memory is taken for.
enum class Use { buffers, context, library, comm };

struct Device {
  int ordinal = 0;
  Config config;
  tern_device_info info{};
  bool lost = false;
  std::string hung;                     // what never ended, once a wait for it has: nothing runs here any more
  std::array<std::uint64_t, 4> held{};  // bytes, by Use
  std::uint64_t peak = 0;
  tern_plugin::Recording recording;
  struct Pinned {  // from host_alloc
    std::byte* data;
    std::uint64_t bytes;
  };
  std::vector<Pinned> pinned;

  [[nodiscard]] bool can(std::uint32_t capability) const { return (info.capabilities & capability) != 0; }
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::uint64_t in_use() const;
  // A device that is only described holds nothing.
  void take(Use use, std::uint64_t bytes);
  void give(Use use, std::uint64_t bytes);
};

// One handle of a device, with options of its own.
struct Opened {
  std::shared_ptr<Device> device;
  std::vector<Fault> faults;
  // What has been done so far that faults strike at.
  struct Counted {
    std::uint64_t allocations = 0;
    std::uint64_t host_allocations = 0;
    std::uint64_t launches = 0;
    std::uint64_t updates = 0;  // of captured graphs
    std::uint64_t collectives = 0;
  };
  Counted counted;
  std::uint64_t graph_nodes = UINT64_MAX;  // that a graph compiled through it may have
  std::uint64_t limit = UINT64_MAX;        // bytes that its buffers may take
  std::uint64_t taken = 0;
  // Whether the fault strikes at the `count`th event of its kind.
  [[nodiscard]] bool struck(Fault::Kind kind, std::uint64_t count) const;
  // Bytes that it may still take.
  [[nodiscard]] std::uint64_t left() const;
};

// Device memory between red zones; imported: somebody else's pages; adopted: a part of another buffer.
struct Buffer {
  std::shared_ptr<Device> device;
  std::shared_ptr<Opened> owner;  // that memory was taken for; null: imported or adopted
  std::vector<std::byte> memory;  // zone, content, zone
  std::byte* imported = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t flags = 0;
  bool evicted = false;
  std::uint64_t address = 0;  // for the vendor's other libraries; never followed
  bool adopted = false;
  std::weak_ptr<Buffer> whole;  // that it's a part of
  std::uint64_t begin = 0;      // in it
  // Why its memory can't be used now, or "".
  [[nodiscard]] std::string trouble() const;
  // Memory of its own, poisoned; throws TERN_OUT_OF_MEMORY where there isn't enough.
  void take_memory();
  void give_memory();  // if it has any
  [[nodiscard]] std::span<std::byte> content();
  [[nodiscard]] bool zones_intact() const;
};

// One record of an event.
struct Ticket {
  bool done = false;
  bool failed = false;  // the work before it did not succeed
  std::chrono::steady_clock::time_point time;
};

// How many arrays of lengths come with a launch.
struct LengthArrays {
  std::size_t expected = 0;
  bool or_more = false;  // a newer host has arguments with lengths that are not known here
};

// A launch's lengths and counts, copied: nothing of the caller's is read later.
struct HostArgs {
  bool given = false;
  std::vector<std::vector<std::int32_t>> arrays;
  std::array<std::int64_t, TERN_MAX_COUNTS> counts{};
  bool captured = false;  // of a captured graph's launch
};

// One entry of a stream's queue.
struct Work {
  std::string what;                               // "matmul", in messages
  std::function<void(const HostArgs& args)> run;  // null: nothing to do but be reached; throws where it fails
  std::function<bool()> ready;                    // null: always
  std::function<HostArgs(const tern_host_args*)> check_args;  // launches: checks and copies new lengths
  HostArgs args;
  std::shared_ptr<Ticket> ticket;  // done once this is reached
  bool is_launch = false;
  std::optional<std::uint32_t> kind;          // TERN_PROFILE_*, of what profiles tell; of launches it's always a kernel
  std::uint64_t bytes = 0;                    // that it moves
  std::optional<tern_profile_record> record;  // made as it is queued
  std::optional<Fault::Kind> fault;           // strikes when this is reached
  // Of what never ends by itself: told once a wait for it has lasted too long, it sees to an end.
  std::function<void(std::chrono::milliseconds waited)> expire;
  std::chrono::steady_clock::time_point queued;
  const void* meets = nullptr;  // what entries of other streams must be reached together with this
};

struct Stream;

struct Recording {  // of a stream, or of several that joined
  struct Node {
    Work work;
    std::size_t lane = 0;              // of `members`
    bool is_event = false;             // recorded here
    std::optional<std::size_t> waits;  // for the event of that node
  };
  std::vector<Node> nodes;
  std::vector<const Stream*> members;  // the first is the origin's
  // In replays the origin's nodes run on the stream of the launch, each other member's on one of these: nothing but the
  // events orders them.
  std::vector<std::shared_ptr<Stream>> lanes;
  std::string spoiled;  // the first failed call, or ""
  bool ended = false;

  [[nodiscard]] std::size_t lane_of(const Stream& stream);
  // The place of a member that has done something the origin doesn't wait for, or none.
  [[nodiscard]] std::optional<std::size_t> unjoined() const;

 private:
  [[nodiscard]] bool only_events_after(std::size_t lane, std::size_t count) const;
};

struct Stream {
  std::shared_ptr<Device> device;
  std::shared_ptr<Opened> opened;
  tern_stream own = nullptr;  // the handle of whoever made it; others have adopted it
  bool gone = false;          // destroyed by its maker
  std::deque<Work> queue;
  std::uint64_t priority = 0;  // among streams, redrawn at random
  tern_status status = TERN_OK;
  std::string error;
  std::shared_ptr<Recording> recording;
  bool origin = false;  // capture_begin was called on this one
  [[nodiscard]] Recording* open_recording();
};

struct Event {
  std::shared_ptr<Device> device;
  tern_event own = nullptr;  // as a stream's
  bool gone = false;
  bool timing = false;
  std::shared_ptr<Ticket> ticket;      // of the last record; null: never recorded
  std::weak_ptr<Recording> recording;  // that the last record went into
  std::size_t node = 0;                // there
};

struct Plan {
  std::shared_ptr<Device> device;
  std::uint32_t op = 0;
  std::vector<tern_tensor_desc> args;
  LengthArrays arrays;
  std::vector<std::byte> attrs;
  std::uint32_t needs = 0;
  std::uint32_t accumulate = 0;
  std::vector<std::int8_t> alias;  // empty: nothing shares memory
  std::uint64_t workspace_bytes = 0;
  std::uint64_t host_scratch_bytes = 0;
  std::uint64_t library_bytes = 0;
  ~Plan() { device->give(Use::library, library_bytes); }
};

struct Bound {
  std::shared_ptr<const Plan> plan;
  std::vector<tern_tensor> args;
  tern_plane workspace{};
  tern_plane counts{};
  std::byte* host_scratch = nullptr;
};

struct Recipe;  // recipe.cpp
struct Comm;    // comm.cpp

struct World {
  std::mutex mutex;
  std::condition_variable changed;  // work was queued or done
  Handles<Opened, tern_device> opened{"device"};
  Handles<Buffer, tern_buffer> buffers{"buffer"};
  Handles<Stream, tern_stream> streams{"stream"};
  Handles<Event, tern_event> events{"event"};
  Handles<Recording, tern_capture> captures{"captured graph"};
  Handles<Plan, tern_plan> plans{"plan"};
  Handles<Bound, tern_bound> bounds{"binding"};
  Handles<Recipe, tern_recipe> recipes{"recipe"};
  Handles<Comm, tern_comm> comms{"communicator"};

  bool finalized = false;
  std::vector<std::weak_ptr<Device>> open;
  std::map<std::uint64_t, std::weak_ptr<Buffer>> addresses;  // of buffers that were shown
  std::vector<std::shared_ptr<Stream>> queues;               // in order of creation
  std::mt19937_64 random;
  double redraw = 0.5;  // how often priorities change
  double early = 0.0;   // how often work runs before somebody waits

  // The device of a handle, and one that must be there: a description alone is refused.
  [[nodiscard]] const std::shared_ptr<Device>& device(tern_device handle) const { return opened.at(handle)->device; }
  [[nodiscard]] const std::shared_ptr<Opened>& present(tern_device handle) const;
  void seed(std::uint64_t seed);
  // Runs one ready entry of a queue; false where none is ready.
  bool step();
  // Steps until done() holds, waiting for other threads where nothing is ready. Throws TERN_TIMEOUT.
  void drive(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout, const std::function<bool()>& done);

  // Ends what never would by itself and was queued at least `age` ago, as somebody has waited; false where nothing
  // hangs.
  bool expire_hanging(std::chrono::milliseconds waited, std::chrono::milliseconds age);

  // A plane's bytes; throws where its buffer is gone, or too small. `what` names it.
  [[nodiscard]] std::span<std::byte> plane(const tern_plane& plane, std::uint64_t bytes, const std::string& what) const;

 private:
  void run_front(Stream& stream);
};
[[nodiscard]] World& world();

// Appends to the stream's recording or queue. `node` takes the place in the recording. Throws where the stream or its
// device has failed for good.
void submit(Stream& stream, Work work, std::uint64_t* node = nullptr);
// Runs `body` on the stream of a handle; where it fails, a capture under way is spoiled.
template <typename Body>
void on_stream(tern_stream handle, Body&& body) {
  const std::shared_ptr<Stream> stream = world().streams.at(handle);
  try {
    body(stream);
  } catch (const SimError& error) {
    Recording* recording = stream->open_recording();
    if (recording != nullptr && recording->spoiled.empty()) recording->spoiled = error.what();
    throw;
  }
}

// Throws TERN_DEVICE_LOST where it is, and TERN_TIMEOUT where it hangs.
void require_alive(const Device& device);
// Throws TERN_UNSUPPORTED where it's a description alone.
void require_present(const Device& device);

// Runs the body of an interface function under the world's lock: nothing thrown crosses the C border.
template <typename Body>
tern_status guarded(Body&& body) noexcept {
  try {
    std::unique_lock lock(world().mutex);
    require(!world().finalized, "finalized: nothing but last_error may be called");
    body(lock);
    return TERN_OK;
  } catch (const Failure& failure) {
    return tern_plugin::fail(TERN_INVALID_ARGUMENT, failure.what());
  } catch (...) {
    return tern_plugin::caught();
  }
}

}  // namespace tern::sim
