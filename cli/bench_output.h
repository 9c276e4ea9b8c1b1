// What tern bench prints.
#pragma once

#include <cstdint>
#include <string>

#include "engine/benchmark.h"
#include "session/machine_rates.h"

namespace tern::cli {

// One measured phase, and what the machine gave beside it.
struct BenchRow {
  const engine::PhaseRate& rate;
  const session::MachineRates& machine;
  int threads = 0;
  std::uint64_t peak_memory = 0;  // bytes of the process so far, without what measured the machine
};

// A table's heading and its rows, column below column; the shares are of what the machine gives at best.
[[nodiscard]] std::string bench_heading();
[[nodiscard]] std::string bench_line(const BenchRow& row);

// The row as a line of JSON.
[[nodiscard]] std::string bench_json(const BenchRow& row);

}  // namespace tern::cli
