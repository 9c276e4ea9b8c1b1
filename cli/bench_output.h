// What tern bench prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/benchmark.h"
#include "engine/roofline.h"
#include "graph/profile.h"
#include "session/machine_rates.h"

namespace tern::cli {

// One measured phase, and what the machine gave beside it.
struct BenchRow {
  const engine::PhaseRate& rate;
  const session::MachineRates& machine;
  int threads = 0;
  std::uint64_t peak_memory = 0;  // bytes of the process so far, without what measured the machine
  std::string device = {};        // "" where only one is measured
};

// A device that was measured beside others, with the time of each op.
struct ComparedDevice {
  engine::Roofline roofline;
  std::vector<graph::ProfileRow> ops;  // longest first
};

// A table's heading and its rows, column below column; the shares are of what the machine gives at best.
[[nodiscard]] std::string bench_heading();
[[nodiscard]] std::string bench_line(const BenchRow& row);

// A table of ops, in the first device's order: microseconds a call on each device, and what share of its own roofline
// that is: of the time that the device would need at its best rates for the op's work.
[[nodiscard]] std::string compared_ops(const std::vector<ComparedDevice>& devices);
// The same as lines of JSON.
[[nodiscard]] std::string compared_ops_json(const std::vector<ComparedDevice>& devices);

// The row as a line of JSON.
[[nodiscard]] std::string bench_json(const BenchRow& row);

}  // namespace tern::cli
