#include "cli/bench_output.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/strings.h"

namespace tern::cli {
namespace {

struct Column {
  std::string_view title;
  std::size_t width;
};
constexpr std::array<Column, 10> kColumns = {{{"phase", 7},
                                              {"prompt", 7},
                                              {"batch", 6},
                                              {"threads", 8},
                                              {"tokens", 8},
                                              {"tokens/s", 11},
                                              {"GFLOP/s", 10},
                                              {"share", 7},
                                              {"GB/s", 8},
                                              {"share", 7}}};

// The first column begins its line, numbers end at their columns' ends.
std::string line_of(const std::array<std::string, kColumns.size()>& cells) {
  std::string out = cells[0];
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t fewest = i == 0 ? 0 : 1;
    const std::string blanks(std::max(kColumns[i].width, cells[i].size() + fewest) - cells[i].size(), ' ');
    out += i == 0 ? blanks : blanks + cells[i];
  }
  return out + "\n";
}

std::string share(double part, double whole) { return cat(fixed(100 * part / whole, 0), "%"); }

}  // namespace

std::string bench_heading() {
  std::array<std::string, kColumns.size()> cells;
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = kColumns[i].title;
  return line_of(cells);
}

std::string bench_line(const BenchRow& row) {
  const engine::PhaseRate& rate = row.rate;
  return line_of({rate.phase, cat(rate.prompt_length), cat(rate.batch), cat(row.threads), cat(rate.tokens),
                  fixed(rate.tokens_per_second(), 1), fixed(rate.gflops, 1), share(rate.gflops, row.machine.gflops),
                  fixed(rate.gbps, 1), share(rate.gbps, row.machine.gbps)});
}

std::string bench_json(const BenchRow& row) {
  const engine::PhaseRate& rate = row.rate;
  return cat("{\"phase\": \"", rate.phase, "\", \"batch\": ", rate.batch, ", \"tokens\": ", rate.tokens,
             ", \"tokens_per_second\": ", fixed(rate.tokens_per_second(), 2),
             ", \"prompt_length\": ", rate.prompt_length, ", \"threads\": ", row.threads,
             ", \"gflops\": ", fixed(rate.gflops, 2), ", \"gbps\": ", fixed(rate.gbps, 2),
             ", \"machine_gflops\": ", fixed(row.machine.gflops, 2), ", \"machine_gbps\": ", fixed(row.machine.gbps, 2),
             ", \"peak_memory\": ", row.peak_memory, "}\n");
}

}  // namespace tern::cli
