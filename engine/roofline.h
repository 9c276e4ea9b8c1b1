// The roofline of a machine (Williams, Waterman and Patterson, 2009): what it computes at most by how many operations
// come of each byte, and where a model's phases lie below it.
#pragma once

#include <string>
#include <vector>

#include "engine/benchmark.h"
#include "session/machine_rates.h"

namespace tern::engine {

struct Roofline {
  std::string device;  // "cpu", "opencl:0"; "" where only one is measured
  int threads = 0;     // of the host
  session::MachineRates machine;
  std::vector<PhaseRate> phases;
};

// One picture: FLOP a byte by GFLOP/s, both logarithmic; a roof for each entry, and its phases as numbered points that
// a list beside them names. Needs at least one phase.
[[nodiscard]] std::string roofline_svg(const std::vector<Roofline>& rooflines);

}  // namespace tern::engine
