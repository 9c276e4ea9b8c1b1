// tern bench: tokens a second of prefill and decode on this machine, with what products and memory gave of what they
// can.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/strings.h"
#include "cli/bench_run.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "engine/roofline.h"
#include "io/file_writer.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

// Before what takes minutes is measured for it.
void require_writable(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : fs::path(".");
  if (fs::is_directory(file, ignored)) throw Failure(io::write_error(file, EISDIR));
  if (access((folder / "").c_str(), W_OK) != 0) throw Failure(io::write_error(file, errno));
}

// Each of --compare, or the one device with each of --threads.
std::vector<BenchTarget> targets_of(const Arguments& arguments) {
  std::vector<BenchTarget> out;
  std::vector<std::int64_t> threads = {0};
  if (arguments.has("threads")) threads = arguments.integers("threads");
  const std::vector<std::string> devices = arguments.list("compare");
  if (!devices.empty() && threads.size() > 1) {
    throw Failure(usage_error("--compare measures each device with one number of threads, and --threads names several",
                              "give one, or leave --threads out"));
  }
  for (const std::string& names : devices) {
    for (const std::string_view name : split(names, ',')) {
      out.push_back({.device = std::string(name), .threads = static_cast<int>(threads.front())});
    }
  }
  if (devices.empty()) {
    for (const auto count : threads) out.push_back({.device = "", .threads = static_cast<int>(count)});
  }
  out.front().headed = !arguments.boolean("json");
  return out;
}

}  // namespace

int run_bench(const Arguments& arguments) {
  install_interrupt_handler();
  require_one_adapter(arguments);
  const auto file = arguments.maybe_string("svg");
  if (file) require_writable(*file);
  std::vector<ComparedDevice> measured;
  std::vector<engine::Roofline> rooflines;
  for (const BenchTarget& target : targets_of(arguments)) {
    measured.push_back(measure_target(arguments, target));
    rooflines.push_back(measured.back().roofline);
  }
  if (!measured.front().ops.empty()) {
    const auto ops = arguments.boolean("json") ? compared_ops_json(measured) : "\n" + compared_ops(measured);
    std::fputs(ops.c_str(), stdout);
  }
  if (file) io::write_file(*file, engine::roofline_svg(rooflines)).value();
  return 0;
}

}  // namespace tern::cli
