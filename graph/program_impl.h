// The inside of Program, shared by its building and its running.
#pragma once

#include <optional>

#include "graph/program.h"

namespace tern::graph {

// A kernel of the host run in place of one of the device: its arguments are copied there and back.
struct HostCall {
  accel::Bound bound;
  std::vector<accel::Buffer> memory;       // per plane of an argument, on the host's device
  std::vector<accel::HostBuffer> staging;  // the same, on the way
  accel::Buffer workspace;
  accel::Buffer counts;
  std::vector<std::byte> scratch;
};

// Launches next to each other, recorded once and replayed. It runs on the lane of its first step, the origin; steps of
// other lanes fork from it and join it within.
struct Segment {
  std::int32_t end = -1;  // one past the last step
  std::vector<Lane> others;
  accel::Event fork;                 // recorded in the capture
  std::vector<accel::Event> joins;   // the same, of each other lane
  std::vector<accel::Event> enters;  // before a replay, of each other lane: its earlier steps are over
  accel::Event leave;                // after it: the other lanes' later steps begin
  std::vector<accel::Event> inner;   // per step: recorded in the capture where another step of it waits
  accel::Capture capture;
};

// What runs of a planned step.
struct Step {
  std::vector<tern_tensor> tensors;  // of the node's arguments, or of the recipe's
  std::vector<tern_tensor> stored;   // with a probe: of the node's arguments, weights as stored
  std::unique_ptr<bool[]> packed;    // with a probe: per argument
  accel::Bound bound;
  accel::BindMemory memory;        // of a recipe
  std::vector<std::byte> scratch;  // host memory the kernel asked for
  std::unique_ptr<HostCall> host;
  std::byte* host_data = nullptr;     // of a copy between host and device: the host's side
  std::optional<accel::Event> event;  // recorded after it where another step waits
  std::unique_ptr<Segment> segment;   // of captured launches: their first step holds it
  std::uint64_t captured_node = 0;
};

// The memory of a transfer. Inputs that may be prepared while a run is under way have two turns on the host.
struct Copied {
  tern_plane device{};
  std::array<accel::HostBuffer, 2> staging;
};

// An input on its way.
struct InputState {
  bool given = false;                         // the host asked where to write it for the next launch
  std::array<std::uint64_t, 2> used_bytes{};  // by turn: what follows is padding
  std::vector<std::byte> launched;            // of lengths that captured launches are told: those of the last launch
  bool changed = true;                        // against them

  // Nothing is known to be padding in that turn's memory.
  void forget(int turn, std::uint64_t bytes) { used_bytes[static_cast<std::size_t>(turn)] = bytes; }
};

// What a set of launches is told in this run, and whether that differs from the run before.
struct LaunchState {
  std::vector<tern_host_array> arrays;
  tern_host_args args{};
  bool changed = true;
};

struct Program::Impl {
  ProgramPlan plan;  // outlives what was bound from its kernels
  std::shared_ptr<TensorStore> store;
  std::shared_ptr<Arena> arena;
  std::vector<Arena::Block> blocks;
  std::vector<Copied> copied;  // per transfer
  std::vector<InputState> inputs;
  std::vector<std::uint64_t> output_bytes;                // of the last run
  std::vector<LaunchState> launches;                      // per plan.launch_args
  std::vector<TensorStore::Hold> holds;                   // of what the steps are bound to
  std::vector<TensorStore::Entry*> written;               // resources that a run changes
  std::array<const accel::Stream*, kNumLanes> streams{};  // null: no step is on that lane
  Counts counts{};                                        // of the run
  bool counts_changed = true;
  int turn = 0;  // of the staging that the next launch reads
  bool is_running = false;
  bool is_eager = false;  // the run replays no captured launches
  bool is_behind =
      false;  // captured launches may hold other numbers than those of the last run: it was eager, or failed
  std::uint64_t pack_changes = 0;  // as the store counted them when this program last looked
  std::vector<tern_node_update> updates;
  // Steps are destroyed before what they are bound to.
  std::vector<Step> steps;

  ~Impl();
  [[nodiscard]] const accel::Device& device() const { return *plan.device; }
  [[nodiscard]] const accel::Stream& stream(Lane lane) const { return *streams[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] std::span<std::byte> staging(FieldPlace at, int in_turn) const {
    const Field& field = plan.field(at);
    const accel::HostBuffer& buffer =
        copied[static_cast<std::size_t>(at.transfer)].staging[static_cast<std::size_t>(in_turn)];
    return {buffer.data() + field.offset, field.bytes};
  }
  // Waits for everything queued, whatever went wrong.
  void drain() noexcept;
};

}  // namespace tern::graph
