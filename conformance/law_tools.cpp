#include "conformance/law_tools.h"

#include <algorithm>

namespace tern::conformance {

void note(LawResult& result, const char* law, const Case& c, const Outputs& found) {
  const Verdict verdict = judge(c, run_oracle(c), found);
  result.worst = std::max(result.worst, verdict.worst);
  note(result, law, c, verdict.problem);
}

void note(LawResult& result, const char* law, const Case& c, const std::string& problem) {
  if (!problem.empty()) result.findings.push_back({law, problem, c});
}

void launch(Kernel::Instance& instance, const Case& c, const accel::Stream& stream, int poison) {
  HostArgs host_args(c);
  instance.launch(host_args.get(), stream, poison);
  host_args.unmap();
}

Snapshot queue(Bench& bench, CaseMemory& memory, Kernel::Instance& instance, const Case& c, int poison) {
  memory.upload(c, bench.stream);
  launch(instance, c, bench.stream, poison);
  return memory.fetch(bench.stream);
}

Outputs run(Bench& bench, Placed& placed, const Case& c, int poison) {
  const Snapshot snapshot = queue(bench, placed.memory, *placed.instance, c, poison);
  bench.stream.synchronize();
  return placed.memory.outputs(snapshot);
}

bool uses_lengths(const Case& c) {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if ((c.spec().args[i].flags & ops::kLengths) != 0 || c.args[i].desc.dynamic_dim >= 0) return true;
  }
  return false;
}

Case make_with(const CaseSource& source, Counts counts, std::uint64_t data_seed) {
  CaseSource other = source;
  other.variant.counts = counts;
  return other.make(data_seed);
}

}  // namespace tern::conformance
