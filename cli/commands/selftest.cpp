// tern selftest: every op of a device against the fp64 oracle, and what its runtime promises.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/kept_case.h"
#include "cli/selftest_flags.h"
#include "cli/selftest_model.h"
#include "cli/selftest_report.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "conformance/selftest.h"

namespace tern::cli {
namespace {

using conformance::OpReport;

int replay_file(const accel::DevicePtr& device, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Failure(data_error(file, "a case of tern selftest", "no readable file", "check the path"));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const conformance::Case c = conformance::read_case(text, file).value();
  const std::string problem = conformance::replay(device, c);
  if (!problem.empty()) {
    throw Failure(failed_error(cat(c.spec().name, " on ", device->name(), " is wrong for ", file, ": ", problem),
                               "fix the kernel, or choose another device with --device"));
  }
  std::printf("%s: %s passes on %s\n", file.c_str(), std::string(c.spec().name).c_str(), device->name().c_str());
  return 0;
}

// The first failing case of an op, kept beside the caller for --replay.
void tell_kept_case(const OpReport& report) {
  const std::string_view op = ops::op_spec(report.op).name;
  const KeptCase kept = keep_case(report.findings[0].failing);
  if (kept.written) {
    log_warn(cat(op, ": the failing case is in ", kept.file, "; run it again with tern selftest --replay ", kept.file));
  } else {
    log_warn(cat(op, ": the failing case could not be written to ", kept.file));
  }
}

}  // namespace

int run_selftest(const Arguments& arguments) {
  if (arguments.maybe_string("model")) return check_model(arguments);
  conformance::SelftestOptions options;
  options.ops = ops_of(arguments);
  options.required = required_by(arguments);
  options.one_in = static_cast<std::uint64_t>(arguments.integer("one_in"));
  options.stopped = interrupted;
  install_interrupt_handler();
  const accel::SelectedDevice selected = session::open_device(runtime_options(arguments)).value();
  if (const auto file = arguments.maybe_string("replay")) return replay_file(selected.device, *file);
  const bool json = arguments.boolean("json");
  Progress progress("selftest", options.ops.empty() ? ops::op_table().size() : options.ops.size(), "op",
                    is_quiet(arguments));
  std::uint64_t done = 0;
  const auto report = conformance::run_selftest(selected.device, options, [&](const OpReport& op) {
    progress.update(++done, ops::op_spec(op.op).name);
    if (!op.findings.empty()) tell_kept_case(op);
  });
  progress.finish();
  const std::string out = json ? to_json(report, selected.device->name()) : report.table();
  std::fputs(out.c_str(), stdout);
  if (interrupted())
    throw Failure(interrupted_error("the selftest was stopped before all ops were tested", "run it again"));
  if (!report.passed()) {
    std::size_t failed = 0;
    for (const OpReport& op : report.ops) failed += op.findings.size();
    for (const auto& result : report.capabilities) failed += result.problem.empty() ? 0 : 1;
    throw Failure(failed_error(
        cat("the selftest of ", selected.device->name(), " found ", failed, failed == 1 ? " mistake" : " mistakes"),
        "see the table above"));
  }
  return 0;
}

}  // namespace tern::cli
