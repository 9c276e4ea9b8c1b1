#include "cli/selftest_report.h"

#include <cmath>

#include "base/strings.h"
#include "cli/json_text.h"

namespace tern::cli {

std::string to_json(const conformance::SelftestReport& report, const std::string& device) {
  std::vector<std::string> ops;
  for (const conformance::OpReport& op : report.ops) {
    std::vector<std::string> findings;
    for (const auto& finding : op.findings) {
      findings.push_back(cat("{\"law\": ", json_quote(finding.law), ", \"case\": ", json_quote(finding.failing.label),
                             ", \"problem\": ", json_quote(finding.problem), "}"));
    }
    ops.push_back(cat("{\"op\": ", json_quote(ops::op_spec(op.op).name), ", \"cases\": ", op.cases,
                      ", \"native\": ", op.native, ", \"decomposed\": ", op.decomposed, ", \"host\": ", op.host,
                      ", \"skipped\": ", op.skipped, ", \"worst\": ", std::isfinite(op.worst) ? cat(op.worst) : "null",
                      ", \"failed\": [", join(findings, ", "), "]}"));
  }
  std::vector<std::string> capabilities;
  for (const auto& result : report.capabilities) {
    capabilities.push_back(cat("{\"name\": ", json_quote(result.name), ", \"set\": ", result.set,
                               ", \"problem\": ", result.problem.empty() ? "null" : json_quote(result.problem),
                               ", \"skipped\": ", result.skipped.empty() ? "null" : json_quote(result.skipped), "}"));
  }
  return cat("{\"device\": ", json_quote(device), ", \"passed\": ", report.passed(), ", \"ops\": [", join(ops, ",\n "),
             "],\n \"capabilities\": [", join(capabilities, ", "), "]}\n");
}

std::string to_json(const conformance::OpChecker& checker, const std::string& device, const std::string& file) {
  std::vector<std::string> ops;
  for (const auto& [op, tally] : checker.tallies()) {
    ops.push_back(cat("{\"op\": ", json_quote(ops::op_spec(op).name), ", \"calls\": ", tally.calls, ", \"wrong\": ",
                      tally.wrong, ", \"worst\": ", std::isfinite(tally.worst) ? cat(tally.worst) : "null", "}"));
  }
  std::string first = "null";
  if (checker.first()) {
    first = cat("{\"call\": ", checker.first()->call, ", \"op\": ", json_quote(checker.first()->failing.spec().name),
                ", \"weights\": ", json_quote(checker.first()->weights),
                ", \"problem\": ", json_quote(checker.first()->problem), ", \"case\": ", json_quote(file), "}");
  }
  return cat("{\"device\": ", json_quote(device), ", \"passed\": ", !checker.first(), ", \"first\": ", first,
             ", \"ops\": [", join(ops, ",\n "), "]}\n");
}

}  // namespace tern::cli
