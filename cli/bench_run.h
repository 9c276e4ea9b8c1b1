// Measuring for tern bench: one device with one number of threads.
#pragma once

#include <string>

#include "cli/bench_output.h"
#include "cli/flags/arguments.h"

namespace tern::cli {

struct BenchTarget {
  std::string device;   // "" : that of --device
  int threads = 0;      // of the host; 0: one a core
  bool headed = false;  // begins the table
};

// Every length and batch, told as they come. With a device named, the time of each op as well, from one more round
// whose steps run one at a time. Throws Failure.
[[nodiscard]] ComparedDevice measure_target(const Arguments& arguments, const BenchTarget& target);

}  // namespace tern::cli
