// What those who watch a run are told of its steps: the profile (graph/profile.h) and the trace (accel/trace.h).
#pragma once

#include "graph/program_impl.h"

namespace tern::graph {

// The trace that is told of a run; null: none is, or not now.
[[nodiscard]] accel::Trace* tracing(const Program::Impl& program);

// What the work of a step is called: `rms_norm`, `matmul and 3 more ops`, `upload ids`.
[[nodiscard]] std::string step_name(const ProgramPlan& plan, const PlannedStep& step);

// What a trace adds to the name, as members of a JSON object: shapes, of a compiled graph its ops, of a copy its bytes.
[[nodiscard]] std::string trace_arguments(const ProgramPlan& plan, const PlannedStep& step, const Counts& counts);

// Adds a step to the profile, which is there. A compiled graph counts as its first op.
void count_step(const Program::Impl& program, std::size_t step, double seconds);

}  // namespace tern::graph
