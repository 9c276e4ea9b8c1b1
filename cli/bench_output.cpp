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

std::string right(const std::string& text, std::size_t width) {
  return std::string(std::max(width, text.size() + 1) - text.size(), ' ') + text;
}

const graph::ProfileRow* find_row(const ComparedDevice& device, const std::string& op) {
  const auto found = std::find_if(device.ops.begin(), device.ops.end(), [&](const auto& row) { return row.op == op; });
  return found == device.ops.end() ? nullptr : &*found;
}

double microseconds(const graph::ProfileRow& row) { return row.seconds / static_cast<double>(row.calls) * 1e6; }

// What the device would need at its best for the work of the row, in seconds.
double seconds_at_best(const graph::ProfileRow& row, const session::MachineRates& machine) {
  return std::max(row.work.flops / machine.gflops, row.work.bytes / machine.gbps) / 1e9;
}

// Ops of any device: those of the first in its order, then what only others ran.
std::vector<std::string> all_ops(const std::vector<ComparedDevice>& devices) {
  std::vector<std::string> out;
  for (const ComparedDevice& device : devices) {
    for (const graph::ProfileRow& row : device.ops) {
      if (std::find(out.begin(), out.end(), row.op) == out.end()) out.push_back(row.op);
    }
  }
  return out;
}

}  // namespace

std::string compared_ops(const std::vector<ComparedDevice>& devices) {
  static constexpr std::size_t kName = 24;
  constexpr std::size_t kTime = 16;
  constexpr std::size_t kShare = 8;
  const auto name = [](std::string text) {
    text.resize(std::max(kName, text.size()), ' ');
    return text;
  };
  std::string out = name("us a call, of its roof");
  for (const ComparedDevice& device : devices) out += right(device.roofline.device, kTime) + right("share", kShare);
  out += "\n";
  for (const std::string& op : all_ops(devices)) {
    out += name(op);
    for (const ComparedDevice& device : devices) {
      const graph::ProfileRow* row = find_row(device, op);
      out += right(row == nullptr ? "-" : fixed(microseconds(*row), 1), kTime);
      out += right(row == nullptr ? "-" : share(seconds_at_best(*row, device.roofline.machine), row->seconds), kShare);
    }
    out += "\n";
  }
  return out;
}

std::string compared_ops_json(const std::vector<ComparedDevice>& devices) {
  std::string out;
  for (const std::string& op : all_ops(devices)) {
    for (const ComparedDevice& device : devices) {
      const graph::ProfileRow* row = find_row(device, op);
      if (row == nullptr) continue;
      out +=
          cat("{\"op\": \"", op, "\", \"device\": \"", device.roofline.device, "\", \"calls\": ", row->calls,
              ", \"microseconds\": ", fixed(microseconds(*row), 2),
              ", \"roofline_share\": ", fixed(seconds_at_best(*row, device.roofline.machine) / row->seconds, 4), "}\n");
    }
  }
  return out;
}

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
  const std::string device = row.device.empty() ? "" : cat("\"device\": \"", row.device, "\", ");
  return cat("{", device, "\"phase\": \"", rate.phase, "\", \"batch\": ", rate.batch, ", \"tokens\": ", rate.tokens,
             ", \"tokens_per_second\": ", fixed(rate.tokens_per_second(), 2),
             ", \"prompt_length\": ", rate.prompt_length, ", \"threads\": ", row.threads,
             ", \"gflops\": ", fixed(rate.gflops, 2), ", \"gbps\": ", fixed(rate.gbps, 2),
             ", \"machine_gflops\": ", fixed(row.machine.gflops, 2), ", \"machine_gbps\": ", fixed(row.machine.gbps, 2),
             ", \"peak_memory\": ", row.peak_memory, "}\n");
}

}  // namespace tern::cli
