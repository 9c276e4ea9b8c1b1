// What tern bench prints: columns below each other, and the rows of the contract.
#include "cli/bench_output.h"

#include <gtest/gtest.h>

namespace tern::cli {
namespace {

TEST(BenchOutput, IsATableOrRowsOfJson) {
  engine::PhaseRate rate{"decode", 16, 2032};
  rate.prompt_length = 512;
  rate.seconds = 4;
  rate.gflops = 125;
  rate.gbps = 21;
  const session::MachineRates machine = {500, 42};
  EXPECT_EQ(bench_heading() + bench_line({rate, machine, 2}),
            "phase   prompt batch threads  tokens   tokens/s   GFLOP/s  share    GB/s  share\n"
            "decode     512    16       2    2032      508.0     125.0    25%    21.0    50%\n");
  EXPECT_EQ(bench_json({rate, machine, 2, 170000000}),
            "{\"phase\": \"decode\", \"batch\": 16, \"tokens\": 2032, \"tokens_per_second\": 508.00, "
            "\"prompt_length\": 512, \"threads\": 2, \"gflops\": 125.00, \"gbps\": 21.00, \"machine_gflops\": 500.00, "
            "\"machine_gbps\": 42.00, \"peak_memory\": 170000000}\n");
}

}  // namespace
}  // namespace tern::cli
