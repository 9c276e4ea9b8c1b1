// `tern selftest`: every op on a device against the oracle, and what the runtime promises.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "conformance/capabilities.h"
#include "conformance/laws.h"

namespace tern::conformance {

struct SelftestOptions {
  std::vector<std::uint32_t> ops;            // empty: all
  bool laws = true;                          // false: values only
  bool rules = true;                         // the oracle's finite differences as well
  std::function<bool(const Variant&)> only;  // absent: every variant
  bool (*stopped)() = nullptr;               // asked between ops: true ends the run
  int stop_after = 0;                        // findings of one op; 0: go through all of its cases
  std::uint32_t required = 0;                // ops::NeededBy: commands that must find all their ops on the device
  std::uint64_t one_in = 1;                  // a seeded share of the variants: about one in that many, each op's own
  std::uint64_t seed = 0;                    // of the share
};

// How plain cases of one dtype ran: contiguous, without a need, an alias or numbers that aren't finite.
struct Coverage {
  int native = 0;
  int decomposed = 0;
  int host = 0;
};

struct OpReport {
  std::uint32_t op = 0;
  int cases = 0;            // variants that the device could be asked
  int native = 0;           // ran by the device's kernel
  int decomposed = 0;       // ran as other ops of the device
  int host = 0;             // would need the host's kernel
  int skipped = 0;          // could not be asked of this device
  double worst = 0.0;       // largest error as a share of the tolerance
  std::string host_reason;  // the first op that had no kernel, and why
  std::map<std::string, int> skip_reasons;
  std::map<std::string, Coverage> coverage;  // by the inputs' dtype, or "quantised"
  std::vector<Finding> findings;
};

struct SelftestReport {
  std::vector<OpReport> ops;
  std::vector<CapabilityResult> capabilities;
  [[nodiscard]] bool passed() const;
  [[nodiscard]] std::string table() const;
};

[[nodiscard]] OpReport test_op(Bench& bench, std::uint32_t op, const SelftestOptions& options);
// `progress` hears each op's report as it is done.
[[nodiscard]] SelftestReport run_selftest(const accel::DevicePtr& device, const SelftestOptions& options,
                                          const std::function<void(const OpReport&)>& progress = {});
// A case from a file: what is wrong with it on this device, or "".
[[nodiscard]] std::string replay(const accel::DevicePtr& device, const Case& c);

// What a device computes, for docs/support.md: a line each of op, dtype, native, decomposed, host and the op's
// findings, between tabs.
[[nodiscard]] std::string support_lines(const SelftestReport& report);

[[nodiscard]] std::string table_header();
[[nodiscard]] std::string table_line(const OpReport& report);

}  // namespace tern::conformance
