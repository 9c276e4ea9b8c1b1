// A program before it has memory: each op bound and planned, tasks ordered over lanes, every byte placed. Made from a
// graph and a device, present or only described; Program::realise takes memory for it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accel/choice_cache.h"
#include "accel/recipe_cache.h"
#include "accel/trace.h"
#include "comm/communicator.h"
#include "graph/bind.h"
#include "graph/memory_plan.h"
#include "graph/node_probe.h"
#include "graph/pack_choice.h"
#include "graph/profile.h"
#include "graph/tensor_store.h"

namespace tern::graph {

struct ProgramOptions {
  BindOptions bind;
  bool capture = false;                 // record the launches once and replay them, where the device can
  Packing packing = Packing::measured;  // of weights, into the device's private layout
  Counts typical_counts{};              // of most runs, by slot; 0: unknown. Kernels are chosen for them
  // The inputs of the next run can be written while a run is under way: their staging memory is there twice.
  bool prepare_ahead = false;
  std::shared_ptr<Profile> profile;  // filled where given: every step is then waited for, and nothing is captured
  // Where given, and while it is on: told of every step, and nothing is captured.
  std::shared_ptr<accel::Trace> trace;
  // Sees every op alone where given: nothing is captured, and a device that compiles graphs compiles one an op.
  std::shared_ptr<NodeProbe> probe;
  // The groups of ranks that collectives of the graph name.
  std::vector<std::shared_ptr<const comm::Communicator>> groups;
  // For tests: the wait between lanes, counted over the steps, that is left out.
  std::int32_t drop_wait = -1;
};

// Bytes, by what takes them.
struct MemoryReport {
  std::uint64_t weights = 0;    // constants that the program reads as they are stored; other programs may share them
  std::uint64_t packs = 0;      // constants that it reads in a private layout; others may share them
  std::uint64_t resources = 0;  // states that it reads and writes; others may share them
  std::uint64_t arenas = 0;     // intermediates, inputs, workspaces; programs of one Arena share them
  std::uint64_t workspace = 0;  // of the arenas: kernels' own, where the most is needed at once
  std::uint64_t live_peak = 0;  // of the arenas: floor under any plan
  std::uint64_t library = 0;    // taken by the vendor's library
  std::uint64_t context = 0;    // taken by the device itself once it's open; all programs share it
  // Of the host:
  std::uint64_t host_scratch = 0;
  std::uint64_t staging = 0;         // pinned copies of inputs and outputs
  std::uint64_t host_resources = 0;  // states that are copied to the device when they are needed; others may share them
};

// What one task of the schedule does.
enum class StepKind {
  upload,
  launch,
  recipe,
  host,     // a kernel of the host in place of one of the device
  program,  // an op of ops/program_ops.h
  download,
};

// An input or output within a transfer.
struct Field {
  std::string name;
  TensorDesc desc;
  Padding padding = Padding::zero;
  std::uint64_t offset = 0;       // bytes from the transfer's begin, on the host and on the device
  std::uint64_t bytes = 0;        // at capacity
  std::uint64_t entry_bytes = 0;  // of one entry of a dynamic first dimension; 0: the size is fixed
};

// One copy between the host and the device. All small inputs travel in one, and all small outputs.
struct Transfer {
  bool to_device = true;
  std::vector<Field> fields;
  std::uint64_t bytes = 0;
};

// What launches are told of a run's counts and lengths; steps that are told the same share one.
struct LaunchArgs {
  // A length argument: an i32 input of the program.
  struct Lengths {
    std::int32_t input = 0;        // of ProgramPlan::inputs
    std::int32_t count_slot = -1;  // whose count cuts it; -1: it has its whole capacity
    std::int64_t capacity = 0;     // entries
    friend bool operator==(const Lengths&, const Lengths&) = default;
  };
  std::vector<Lengths> lengths;  // in the order of the step's nodes
  bool dynamic = false;          // some argument has a dimension whose size is known at launch only
  friend bool operator==(const LaunchArgs&, const LaunchArgs&) = default;
};

struct PlannedStep {
  StepKind kind = StepKind::launch;
  Lane lane = Lane::compute;
  std::vector<std::int32_t> nodes;      // launch, host: one; recipe: several
  std::int32_t transfer = -1;           // upload, download: of ProgramPlan::transfers
  std::int32_t args = -1;               // launch, recipe, host: of ProgramPlan::launch_args
  const accel::Plan* kernel = nullptr;  // launch, host: of ProgramPlan::kernels or host_kernels
  accel::CompiledGraph compiled;        // recipe
  tern_plan_info info{};                // of the device's memory: all 0 for host
  std::vector<std::int32_t> waits;      // steps of other lanes
  bool records = false;                 // another step waits for it
};

// Where a field lies: the transfer and its place there.
struct FieldPlace {
  std::int32_t transfer = -1;
  std::int32_t field = -1;
};

struct ProgramPlan {
  accel::DevicePtr device;
  accel::DevicePtr host;  // runs fallbacks
  ProgramOptions options;
  BoundGraph bound;
  std::map<std::string, accel::Plan> kernels;       // by OpDesc::key: equal calls share one
  std::map<std::string, accel::Plan> host_kernels;  // the same on the host
  std::vector<PackedArg> packed_args;
  std::map<std::string, std::uint32_t> packs;  // weights read in a private layout, and for which uses
  std::vector<Transfer> transfers;
  std::vector<FieldPlace> inputs;
  std::vector<FieldPlace> outputs;
  FieldPlace counts;  // of dynamic dimensions, uploaded like an input; absent where there are none
  std::vector<LaunchArgs> launch_args;
  Counts capacities{};       // of each slot: the least of the dimensions that it cuts
  bool sets_counts = false;  // some counts are known only during a run
  std::vector<PlannedStep> steps;
  std::int32_t num_waits = 0;  // between lanes
  MemoryPlan memory;
  MemoryReport report;

  [[nodiscard]] const Graph& graph() const { return bound.graph; }
  [[nodiscard]] const Field& field(FieldPlace at) const {
    return transfers[static_cast<std::size_t>(at.transfer)].fields[static_cast<std::size_t>(at.field)];
  }
  // Items of the memory plan.
  [[nodiscard]] const MemoryPlace& place_of_storage(std::int32_t storage) const;  // intermediates of their own
  [[nodiscard]] const MemoryPlace& place_of_workspace(std::size_t step) const;
  [[nodiscard]] const MemoryPlace& place_of_transfer(std::int32_t transfer) const;
  // The transfer that a storage lies in, and its field there; absent where it has memory of its own.
  std::vector<FieldPlace> field_of_storage;
};

// Takes no memory of the device but what measuring a kernel or a pack needs for a while; on a described device nothing
// is measured. `store`, where given, is where the weights will be: what other programs hold there decides what can be
// packed. Throws Failure (device) where an op cannot be bound or a tensor is larger than the device allocates;
// std::logic_error where the store lacks a name or holds another shape.
[[nodiscard]] ProgramPlan plan_program(const Graph& graph, const accel::DevicePtr& device, accel::ChoiceCache& choices,
                                       const ProgramOptions& options, const accel::DevicePtr& host = nullptr,
                                       const TensorStore* store = nullptr);

}  // namespace tern::graph
