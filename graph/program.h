// A graph made ready to run on one device: bound, planned, placed in memory, ordered over lanes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accel/device.h"
#include "graph/arena.h"
#include "graph/program_plan.h"
#include "graph/tensor_store.h"

namespace tern::graph {

// What the host gives for one run. Inputs may hold fewer entries of their dynamic dimension than planned: the rest is
// padded as the input's Padding says. Names that the graph has no input of are passed over.
struct RunInputs {
  std::map<std::string, std::span<const std::byte>> inputs;
  Counts counts{};
};

class Program {
 public:
  // Plans and realises. `arena`: shared with the programs that it never runs beside; null: one of its own. Throws as
  // plan_program and realise do.
  static std::unique_ptr<Program> build(const Graph& graph, const std::shared_ptr<TensorStore>& store,
                                        accel::ChoiceCache& choices, const ProgramOptions& options,
                                        const accel::DevicePtr& host = nullptr, std::shared_ptr<Arena> arena = nullptr);
  // Takes memory for what was planned for the store's device, and binds its kernels. Over a store that only counts it
  // counts that memory and binds nothing: such a program can't run. Throws Failure (device) where memory does not
  // suffice.
  static std::unique_ptr<Program> realise(ProgramPlan plan, const std::shared_ptr<TensorStore>& store,
                                          std::shared_ptr<Arena> arena = nullptr);
  ~Program();

  // Runs once and waits. Errors of the device are thrown as Failure.
  void run(const RunInputs& inputs);

  // The same in steps, without a search or an allocation: for those who run often. -1: no such input or output.
  [[nodiscard]] std::int32_t input_id(std::string_view name) const;
  [[nodiscard]] std::int32_t output_id(std::string_view name) const;
  // Where the host writes what the next launch reads, from the first entry on; every input, before each launch. Its
  // size is the capacity. While a run is under way this is only for programs that prepare ahead.
  [[nodiscard]] std::span<std::byte> input(std::int32_t id);
  // Queues a run of what the inputs hold, of which `counts` says how much. Throws std::logic_error where an input was
  // not asked for, a count exceeds its capacity, or a run is under way.
  void launch(const Counts& counts);
  // Until the run is over. Errors of the device are thrown as Failure.
  void wait();
  // An output of the last run, cut to its actual count.
  [[nodiscard]] std::span<const std::byte> output(std::int32_t id) const;
  [[nodiscard]] std::span<const std::byte> output(std::string_view name) const;

  [[nodiscard]] const ProgramPlan& plan() const;
  [[nodiscard]] std::int32_t num_captures() const;  // captured graphs that a run replays
  [[nodiscard]] const MemoryReport& memory() const { return plan().report; }
  [[nodiscard]] const std::vector<BindingRow>& bindings() const { return plan().bound.table; }
  [[nodiscard]] const Graph& graph() const { return plan().graph(); }

  struct Impl;

 private:
  explicit Program(std::unique_ptr<Impl> impl);
  void fail_run();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::graph
