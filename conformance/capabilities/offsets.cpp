// Planes that begin beyond 4 GiB of their buffer: an offset that was cut to 32 bits lies somewhere else.
#include <algorithm>
#include <cstddef>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

namespace {

constexpr std::uint64_t kFar = std::uint64_t{1} << 32;
constexpr std::uint64_t kInput = 4096;  // of the launch: x there, y behind it
constexpr std::uint64_t kOutput = 8192;
constexpr std::uint64_t kBytes = 64 << 10;

std::string copies_far(Bench& bench, const Buffer& buffer) {
  const Bytes near = pattern(kBytes, 3), far = pattern(kBytes, 4);
  bench.device->copy_to_device(buffer.plane(), near, bench.stream);
  bench.device->copy_to_device(buffer.plane(kFar), far, bench.stream);
  if (fetch(bench, buffer.plane(), kBytes) != near) return "a copy beyond 4 GiB lies at the begin of its buffer";
  if (fetch(bench, buffer.plane(kFar), kBytes) != far) return "a copy beyond 4 GiB brought other bytes back";
  bench.device->fill(buffer.plane(kFar), 0x5a, kBytes, bench.stream);
  if (fetch(bench, buffer.plane(), kBytes) != near) return "a fill beyond 4 GiB lies at the begin of its buffer";
  bench.device->copy(buffer.plane(kFar), buffer.plane(), kBytes, bench.stream);
  return fetch(bench, buffer.plane(kFar), kBytes) == near ? "" : "a copy on the device to beyond 4 GiB didn't arrive";
}

std::string launches_far(Bench& bench, const Buffer& buffer) {
  const Doubling doubling;
  if (!bench.device->can(TERN_CAP_EAGER) || !accel::supports(*bench.device, doubling.desc()).native) return {};
  const accel::Plan plan(bench.device, doubling.desc(), {});
  const Buffer workspace = bench.device->allocate(plan.info().workspace_bytes, "a launch beyond 4 GiB");
  std::vector<std::max_align_t> scratch(plan.info().host_scratch_bytes / sizeof(std::max_align_t) + 1);
  const auto tensors = doubling.tensors(*bench.device, buffer.plane(kFar + kInput), buffer.plane(kFar + kOutput));
  const accel::Bound bound = plan.bind(tensors, {workspace.plane(), {}, scratch.data()});
  const Bytes low = pattern(kBytes, 5);
  bench.device->copy_to_device(buffer.plane(), low, bench.stream);
  bench.device->copy_to_device(buffer.plane(kFar + kInput), Doubling::input(3.0F), bench.stream);
  bench.device->fill(buffer.plane(kFar + kOutput), 0xff, Doubling::kBytes, bench.stream);
  (void)bound.launch(Doubling::host_args(), bench.stream);
  if (fetch(bench, buffer.plane(kFar + kOutput), Doubling::kBytes) != Doubling::output(3.0F)) {
    return "a launch on planes beyond 4 GiB is wrong";
  }
  return fetch(bench, buffer.plane(), kBytes) == low ? "" : "a launch beyond 4 GiB wrote at the begin of its buffer";
}

}  // namespace

std::string check_far_offsets(Bench& bench, std::string& skipped) {
  constexpr std::uint64_t kSize = kFar + kBytes;
  const std::uint64_t room = std::min(bench.device->info().largest_allocation_bytes, bench.device->memory().free);
  if (room < 2 * kSize) {
    skipped = cat("less than ", human_bytes(2 * kSize), " can be allocated at a time");
    return {};
  }
  const Buffer buffer = bench.device->allocate(kSize, "offsets beyond 4 GiB");
  return first_problem({copies_far(bench, buffer), launches_far(bench, buffer)});
}

}  // namespace tern::conformance
