// What the host gives a run.
#pragma once

#include "graph/program_impl.h"

namespace tern::graph {

// Bytes of the entries that count. Throws std::logic_error where they are more than the capacity.
[[nodiscard]] std::uint64_t actual_bytes(const Field& field, const Counts& counts);

// Makes the inputs of the coming launch ready, and says what each launch is told. Throws std::logic_error where an
// input was not given or exceeds its capacity; nothing has changed then.
void stage_inputs(Program::Impl& program, const Counts& counts);

// Takes a count that was learnt during the run: launches queued from here on are told it. Throws Failure where it is
// more than was planned for.
void set_staged_count(Program::Impl& program, std::int32_t slot, std::int64_t count);

}  // namespace tern::graph
