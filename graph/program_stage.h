// What the host gives a run.
#pragma once

#include "graph/program_impl.h"

namespace tern::graph {

// Bytes of the entries that count. Throws std::logic_error where they are more than the capacity.
[[nodiscard]] std::uint64_t actual_bytes(const Field& field, const Counts& counts);

// Makes the inputs of the coming launch ready, and says what each launch is told. Throws std::logic_error where an
// input was not given or exceeds its capacity; nothing has changed then.
void stage_inputs(Program::Impl& program, const Counts& counts);

}  // namespace tern::graph
