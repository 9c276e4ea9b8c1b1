// What the laws share: a case placed on a device, and findings.
#pragma once

#include "conformance/laws.h"

namespace tern::conformance {

inline constexpr int kPoison = 0xff;       // NaN in every float
inline constexpr int kOtherPoison = 0x3c;  // a small number in every float

// What a run left, judged against the oracle; and a problem, where there is one.
void note(LawResult& result, const char* law, const Case& c, const Outputs& found);
void note(LawResult& result, const char* law, const Case& c, const std::string& problem);

// Runs one law; a backend's error is a finding too.
template <typename Body>
void under(Bench& bench, LawResult& result, const char* law, const Case& c, Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    result.findings.push_back({law, failure.what(), c});
    renew_streams(bench);  // an asynchronous error is final for its stream
  }
}

struct Placed {
  CaseMemory memory;
  Kernel kernel;
  std::unique_ptr<Kernel::Instance> instance;
  Placed(Bench& bench, const Case& c, int shift, const std::string& choice = {})
      : memory(bench.device, c, shift),
        kernel(bench.device, memory.op_desc(), choice),
        instance(kernel.bind(memory.tensors(), shift)) {}
};

// A launch whose host_args are gone when it returns.
void launch(Kernel::Instance& instance, const Case& c, const accel::Stream& stream, int poison);
// Uploads, launches and fetches, all queued; the case's host_args are gone by then.
Snapshot queue(Bench& bench, CaseMemory& memory, Kernel::Instance& instance, const Case& c, int poison);
// The same, waited for.
Outputs run(Bench& bench, Placed& placed, const Case& c, int poison);

// Whether a launch of the case depends on counts or lengths.
[[nodiscard]] bool uses_lengths(const Case& c);

// The source's cases with all, or none, of what its dynamic dimensions can hold.
[[nodiscard]] Case make_with(const CaseSource& source, Counts counts, std::uint64_t data_seed);

}  // namespace tern::conformance
