// A graph made ready to run on one device: bound, planned, placed in memory, ordered over lanes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accel/choice_cache.h"
#include "accel/device.h"
#include "graph/bind.h"
#include "graph/graph.h"
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
  std::shared_ptr<Profile> profile;     // filled where given: every step is then waited for, and nothing is captured
  // Sees every op alone where given: nothing is captured, and a device that compiles graphs compiles one an op.
  std::shared_ptr<NodeProbe> probe;
  // For tests: the wait between lanes, counted over the steps, that is left out.
  std::int32_t drop_wait = -1;
};

// What the host gives for one run. Inputs may hold fewer entries of their dynamic dimension than planned: the rest is
// padded as the input's Padding says.
struct RunInputs {
  std::map<std::string, std::span<const std::byte>> inputs;
  std::array<std::int64_t, TERN_MAX_COUNTS> counts{};
};

struct MemoryReport {
  std::uint64_t arenas = 0;     // intermediates, inputs, workspaces
  std::uint64_t live_peak = 0;  // floor under any plan
  std::uint64_t library = 0;    // taken by the vendor's library
  std::uint64_t context = 0;    // taken by the device itself once it's open; all programs share it
  std::uint64_t packs = 0;      // weights in a private layout that this program reads; others may share them
  std::uint64_t host_scratch = 0;
  std::uint64_t staging = 0;  // pinned host copies of inputs and outputs
};

class Program {
 public:
  // Throws Failure (device) where an op cannot be bound or memory does not suffice; std::logic_error where the store
  // lacks a name or holds another shape. `host` runs fallbacks.
  static std::unique_ptr<Program> build(const Graph& graph, const std::shared_ptr<TensorStore>& store,
                                        accel::ChoiceCache& choices, const ProgramOptions& options,
                                        const accel::DevicePtr& host = nullptr);
  ~Program();

  // Runs once and waits. Errors of the device are thrown as Failure.
  void run(const RunInputs& inputs);
  // An output of the last run, cut to its actual count.
  [[nodiscard]] std::span<const std::byte> output(const std::string& name) const;

  [[nodiscard]] const MemoryReport& memory() const;
  [[nodiscard]] const std::vector<BindingRow>& bindings() const;
  [[nodiscard]] const Graph& graph() const;
  [[nodiscard]] std::int32_t num_waits() const;  // between lanes, in one run

  struct Impl;

 private:
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::graph
