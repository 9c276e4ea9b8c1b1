// What always travels together: the device, the host beside it, remembered kernel choices, and how programs are built.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "accel/choice_cache.h"
#include "accel/registry.h"
#include "accel/trace.h"
#include "graph/program.h"

namespace tern::session {

struct RuntimeOptions {
  std::string device = "auto";              // "cpu", "npu:0"
  accel::DeviceOptions device_options;      // settings of it, by the keys that its backend lists
  std::filesystem::path backend_file;       // a plugin outside of the search path
  int num_threads = 0;                      // of the host's pool; 0: one a core
  std::optional<graph::Fallback> fallback;  // none: forbid where the device was named, else warn
  bool reference_kernels = false;           // decompositions and oracle kernels only, to find a wrong native one
  std::filesystem::path trace_file;         // "": no step is traced
  accel::TraceOptions trace;                // of trace_file: which steps
};

struct Runtime {
  accel::DevicePtr device;
  accel::DevicePtr host;  // runs what the device cannot; null: nothing may
  accel::ChoiceCache choices;
  graph::ProgramOptions program;

  // Whom steps are told (accel::TraceStep, accel::TraceSpan); null: none is traced.
  [[nodiscard]] accel::Trace* trace() const { return program.trace.get(); }
  // A program over `store`'s tensors, in `arena` (graph/arena.h), or one of its own; `typical_counts` as of
  // graph::ProgramOptions. Throws what graph::Program::build throws.
  [[nodiscard]] std::unique_ptr<graph::Program> build(const graph::Graph& graph,
                                                      const std::shared_ptr<graph::TensorStore>& store,
                                                      std::shared_ptr<graph::Arena> arena = nullptr,
                                                      const graph::Counts& typical_counts = {});
};

// $TERN_HOME, else $HOME/.cache/tern: bundled models, kernel choices, verdicts of probes.
[[nodiscard]] std::filesystem::path tern_home();

// Tells the backends the number of threads (0: one a core) and where choices are kept. Before the first is loaded.
void set_up_host(int num_threads);

// Where probing remembers its verdicts.
[[nodiscard]] accel::ProbeOptions probe_options();

// The device of `options`, else of its variables, else the best that probing finds; the choice is told in a line.
// Errors: usage (a malformed name), device (absent).
[[nodiscard]] Result<accel::SelectedDevice> open_device(const RuntimeOptions& options);

// A device made ready for programs. With TERN_PROFILE in the environment the time of each op is taken, and told when
// the runtime goes (end_profile). The trace of `options` is written once its last step is over. Errors: as open_device;
// usage (a trace whose folder can't be made).
[[nodiscard]] Result<std::unique_ptr<Runtime>> open_runtime(const RuntimeOptions& options);

// The same for one who only plans: `device` may also be BACKEND:PROFILE, a device that its backend can describe; of a
// device that is here its description is taken where there is one, so that nothing is measured.
[[nodiscard]] Result<std::unique_ptr<Runtime>> describe_runtime(const RuntimeOptions& options);

// Tells where the time of the programs went, where it was taken, and ends a trace that still waits for steps.
void end_profile(const Runtime& runtime);

}  // namespace tern::session
