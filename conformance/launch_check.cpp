#include <array>

#include "conformance/law_tools.h"
#include "conformance/runtime_checks.h"

namespace tern::conformance {
namespace {

enum class Answer { early, late, at_once };

// Whether a launch came back before the work that its stream waits for was over. `at_once`: that work was over before
// anything could wait for it.
Answer try_launch(Bench& bench, Kernel::Instance& instance, const Case& c, std::uint64_t bytes) {
  constexpr int kCopies = 128;
  const accel::Buffer from = bench.device->allocate(bytes, "work to wait for");
  const accel::Buffer to = bench.device->allocate(bytes, "work to wait for");
  const accel::Event busy = bench.device->make_event();
  bench.device->fill(from.plane(), 1, bytes, bench.other);
  bench.other.synchronize();
  for (int i = 0; i < kCopies; ++i) bench.device->copy(to.plane(), from.plane(), bytes, bench.other);
  bench.other.record(busy);
  Answer answer = Answer::at_once;
  if (!busy.finished()) {
    bench.stream.wait(busy);
    HostArgs host_args(c);
    instance.launch(host_args.get(), bench.stream, -1);
    host_args.unmap();
    answer = busy.finished() ? Answer::late : Answer::early;
  }
  bench.other.synchronize();
  bench.stream.synchronize();
  return answer;
}

}  // namespace

std::string check_launch_returns(Bench& bench, std::string& skipped) {
  const Case c = CaseSource{TERN_OP_AXPBY, Variant{}, 0}.make(1);
  if (!accel::supports(*bench.device, op_desc(c)).native) {
    skipped = "the device has no axpby to launch";
    return {};
  }
  CaseMemory memory(bench.device, c, 0);
  const Kernel kernel(bench.device, memory.op_desc(), {});
  const auto instance = kernel.bind(memory.tensors(), 0);
  memory.upload(c, bench.stream);
  HostArgs host_args(c);
  instance->launch(host_args.get(), bench.stream, kPoison);
  host_args.unmap();
  bench.stream.synchronize();
  // Some devices are done with little work before they can be asked, others run it as it comes now and then.
  constexpr std::array<std::uint64_t, 6> kSizes = {1 << 18, 1 << 18, 1 << 18, 1 << 18, 1 << 23, 1 << 23};
  bool was_late = false;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    if (2 * kSizes[i] > bench.device->info().largest_allocation_bytes) break;
    if (i + 1 == kSizes.size() && !was_late) break;
    const Answer answer = try_launch(bench, *instance, c, kSizes[i]);
    was_late = was_late || answer == Answer::late;
    if (answer != Answer::early) continue;
    const Snapshot snapshot = memory.fetch(bench.stream);
    bench.stream.synchronize();
    return judge(c, run_oracle(c), memory.outputs(snapshot)).problem;
  }
  if (was_late) return "launch came back only after the event that its stream waits for";
  skipped = "the device runs its work before the call that queues it returns";
  return {};
}

}  // namespace tern::conformance
