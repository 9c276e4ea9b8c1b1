// The inside of Program, shared by its building and its running.
#pragma once

#include <optional>

#include "accel/recipe_cache.h"
#include "graph/pack_choice.h"
#include "graph/program.h"

namespace tern::graph {

// What one task of the schedule does.
enum class StepKind { upload, launch, recipe, host, download };

// A kernel of the host run in place of one of the device: its arguments are copied there and back.
struct HostCall {
  accel::Plan plan;  // outlives what was bound from it
  accel::Bound bound;
  std::vector<accel::Buffer> memory;       // per argument, on the host's device
  std::vector<accel::HostBuffer> staging;  // per argument
  accel::Buffer workspace;
  accel::Buffer counts;
  std::vector<std::byte> scratch;
};

struct Step {
  StepKind kind = StepKind::launch;
  Lane lane = Lane::compute;
  std::vector<std::int32_t> nodes;   // launch, host: one; recipe: several
  std::int32_t transfer = -1;        // upload, download: which of Impl::transfers
  std::vector<tern_tensor> tensors;  // of the node's arguments, or of the recipe's
  std::vector<tern_tensor> stored;   // with a probe: of the node's arguments, weights as stored
  std::unique_ptr<bool[]> packed;    // with a probe: per argument
  accel::Bound bound;
  accel::Recipe recipe;
  accel::BindMemory memory;        // of a recipe
  std::vector<std::byte> scratch;  // host memory the kernel asked for
  std::unique_ptr<HostCall> host;
  std::vector<std::int32_t> waits;    // steps
  std::optional<accel::Event> event;  // recorded after it where another step waits
  // Captured launches: a step that begins a captured segment holds it.
  std::int32_t captured_until = -1;  // one past the last step of the segment
  std::optional<accel::Capture> capture;
  std::uint64_t captured_node = 0;
};

// What an update of a captured launch holds; kept from run to run, so that none is allocated.
struct Update {
  std::vector<tern_host_array> arrays;
  tern_host_args args{};
};

// A host copy of an input or an output at its planned capacity.
struct Transfer {
  std::string name;
  TensorDesc desc;
  tern_plane device{};
  accel::HostBuffer staging;
  Padding padding = Padding::zero;
  std::uint64_t actual_bytes = 0;  // of the last run
  bool changed = true;             // by the last run's inputs
};

struct Program::Impl {
  accel::DevicePtr device;
  accel::DevicePtr host;
  std::shared_ptr<TensorStore> store;
  ProgramOptions options;
  BoundGraph bound;
  std::map<std::string, accel::Plan> plans;  // by OpDesc::key: equal calls share one
  std::vector<accel::CachingAllocator::Block> arenas;
  std::vector<Transfer> transfers;
  std::map<std::string, std::size_t> uploads;    // by input name
  std::map<std::string, std::size_t> downloads;  // by output name
  std::int32_t counts = -1;                      // the transfer of the counts, where a dimension is dynamic
  std::map<std::string, std::uint32_t> packs;    // weights read in a private layout, and for which uses
  std::vector<TensorStore::Hold> holds;          // of what the steps are bound to
  std::array<std::optional<accel::Stream>, kNumLanes> streams;
  std::vector<std::string> written;  // resources that a run changes
  bool is_behind = false;  // captured launches may hold other numbers than those of the last run: it did not end
  std::vector<Update> updates;
  std::vector<tern_node_update> node_updates;
  // Steps are destroyed before what they are bound to.
  std::vector<Step> steps;
  std::int32_t num_waits = 0;
  MemoryReport report;

  [[nodiscard]] const Graph& graph() const { return bound.graph; }
  [[nodiscard]] const accel::Stream& stream(Lane lane) const { return *streams[static_cast<std::size_t>(lane)]; }
};

// Whether an argument of the node has a dimension whose size is known at launch only.
[[nodiscard]] bool is_dynamic(const Graph& graph, const Node& node);

// Lengths and counts of one run, as launches take them.
class HostArgs {
 public:
  HostArgs(const Program::Impl& program, const RunInputs& inputs) : program_(program), inputs_(inputs) {}
  // Valid until the next call.
  const tern_host_args& of(const Step& step);
  // Into memory of the caller's.
  void fill(const Step& step, std::vector<tern_host_array>& arrays, tern_host_args& args) const;
  // Whether a launch of the step would differ from the last run's.
  [[nodiscard]] bool changed(const Step& step) const;

 private:
  void append(const Node& node, std::vector<tern_host_array>& arrays) const;
  [[nodiscard]] const Transfer& lengths_of(const Node& node, std::size_t arg) const;
  const Program::Impl& program_;
  const RunInputs& inputs_;
  std::vector<tern_host_array> arrays_;
  tern_host_args args_{};
};

// The storages, in the recipe's order, that the tensors of a recipe of these nodes must be given for.
[[nodiscard]] std::vector<std::int32_t> recipe_arguments(const Graph& graph, std::span<const std::int32_t> nodes);
// Compiles the nodes of a step into one recipe (devices without single ops), or loads one that was kept. Its choice is
// remembered and replayed as a kernel's is.
[[nodiscard]] accel::CompiledGraph compile_segment(const Graph& graph, std::span<const std::int32_t> nodes,
                                                   const accel::DevicePtr& device, accel::ChoiceCache& choices);

}  // namespace tern::graph
