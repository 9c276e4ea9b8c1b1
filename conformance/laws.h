// What every kernel must keep, each as one check over a source of cases.
#pragma once

#include <string>
#include <vector>

#include "conformance/kernel_run.h"
#include "conformance/recipe.h"

namespace tern::conformance {

struct Finding {
  std::string law;      // which one broke
  std::string problem;  // how
  Case failing;         // what to replay
};

struct LawResult {
  double worst = 0.0;
  std::vector<Finding> findings;
};

struct Bench {
  accel::DevicePtr device;
  accel::Stream stream;
  accel::Stream other;
};
[[nodiscard]] Bench make_bench(const accel::DevicePtr& device);

// After an error that ended a stream.
void renew_streams(Bench& bench);

// One run against the oracle, on memory of its own. Also the law of a replayed case.
void check_values(Bench& bench, const Case& c, LawResult& result);
// The plan named by the first plan's choice, on other buffers, other data: the oracle again; workspace poisoned
// otherwise.
void check_reuse(Bench& bench, const CaseSource& source, LawResult& result);
// Two bindings of one plan, launched in turn; then one of them bound again, to other memory.
void check_bindings(Bench& bench, const CaseSource& source, LawResult& result);
// Dynamic dimensions with counts of 0 and with all that they can hold, under one plan.
void check_count_bounds(Bench& bench, const CaseSource& source, LawResult& result);
// Decoding with many keys: other lengths, then none with more than a partition, then other ones again, over one
// workspace that nobody clears between.
void check_split(Bench& bench, const CaseSource& source, LawResult& result);
// Two micro-steps into the same outputs.
void check_accumulation(Bench& bench, const CaseSource& source, LawResult& result);
// The same data twice at other addresses: the same bits. Where `deterministic` is asked.
void check_repetition(Bench& bench, const Case& c, LawResult& result);
// Some of the rows alone have the bits that they have among the others. Where `row_invariant` is asked.
void check_row_invariance(Bench& bench, const Case& c, LawResult& result);
// A packed weight, unpacked, is what it was.
void check_packing(Bench& bench, const Case& c, LawResult& result);
// Work of two data sets queued on one stream without waiting, and across streams by events.
void check_stream_order(Bench& bench, const CaseSource& source, LawResult& result);
// Two bindings of one plan at once, each on its own stream, from one thread and from two.
void check_concurrency(Bench& bench, const CaseSource& source, LawResult& result);
// A captured launch, replayed on other inputs and lengths; host_args gone before.
void check_capture(Bench& bench, const CaseSource& source, LawResult& result);
// Several launches and a copy in one capture; only those with new numbers are named, all in one update.
void check_captured_chain(Bench& bench, const CaseSource& source, LawResult& result);
// Launches and replays leave the device memory in use as it is.
void check_memory_use(Bench& bench, const CaseSource& source, LawResult& result);
// All arguments in one buffer, side by side at the device's alignment.
void check_one_buffer(Bench& bench, const CaseSource& source, LawResult& result);
// TERN_CAP_IMPORT_HOST: inputs in read-only pages of the host, at `import_alignment`.
void check_imported(Bench& bench, const CaseSource& source, LawResult& result);
// A host of another minor version; and what only a newer one could ask for, which is refused.
void check_versions(Bench& bench, const CaseSource& source, LawResult& result);
// TERN_CAP_HOST_LENGTHS: the device's copy of the lengths may be stale.
void check_stale_lengths(Bench& bench, const CaseSource& source, LawResult& result);

}  // namespace tern::conformance
