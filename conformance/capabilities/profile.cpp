// The recording of what runs: every piece of work between start and stop, with its times.
#include <algorithm>
#include <chrono>

#include "accel/device_profile.h"
#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

namespace {

using Records = std::vector<tern_profile_record>;

constexpr std::uint64_t kCopied = 12345;  // sizes that nothing else has
constexpr std::uint64_t kFilled = 777;
constexpr std::uint64_t kOutside = 555;
constexpr std::uint64_t kSlack = 1'000'000;  // nanoseconds: how well a device's clock can be told
constexpr const char* kRange = "conformance \"range\"";

std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

const tern_profile_record* find(const Records& records, std::uint32_t kind, std::uint64_t bytes) {
  const auto found = std::find_if(records.begin(), records.end(), [&](const tern_profile_record& record) {
    return record.kind == kind && (kind == TERN_PROFILE_KERNEL || record.bytes == bytes);
  });
  return found == records.end() ? nullptr : &*found;
}

std::string check_times(const Records& records, std::uint64_t begin, std::uint64_t end) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const tern_profile_record& record = records[i];
    if (record.begin_ns > record.end_ns) return cat(record.name, " ends before it begins");
    if (record.begin_ns + kSlack < begin || record.end_ns > end + kSlack) {
      return cat(record.name, " ran at another time than the host's clock tells");
    }
    for (std::size_t j = i + 1; j < records.size(); ++j) {
      if (records[j].stream != record.stream) continue;
      if (records[j].begin_ns < record.end_ns) return cat(records[j].name, " overlaps ", record.name, " on one stream");
      break;
    }
  }
  return {};
}

std::string check_records(const Bench& bench, const Records& records) {
  const tern_profile_record* copy = find(records, TERN_PROFILE_COPY, kCopied);
  const tern_profile_record* filled = find(records, TERN_PROFILE_FILL, kFilled);
  if (copy == nullptr) return "a copy isn't recorded";
  if (filled == nullptr) return "a fill isn't recorded";
  if (find(records, TERN_PROFILE_KERNEL, 0) == nullptr) return "a launch isn't recorded";
  if (copy->stream == filled->stream) return "work of two streams has one stream's number";
  const bool named = bench.device->backend().has(&tern_backend::range_push);
  if (std::string(copy->range) != (named ? kRange : "")) return cat("a copy in a range is said to be in ", copy->range);
  if (filled->range[0] != '\0') return "a fill in no range is said to be in one";
  for (const tern_profile_record& record : records) {
    if (record.name[0] == '\0') return "a record has no name";
    if (record.bytes == kOutside) return "work from before the start or after the stop is recorded";
  }
  return {};
}

// Work between start and stop, and some before and after.
std::string record_some(Bench& bench) {
  const auto& api = bench.device->api();
  const Case c = plain_source(TERN_OP_AXPBY).make(1);
  CaseMemory memory(bench.device, c, 0);
  const Kernel kernel(bench.device, memory.op_desc(), {});
  const auto instance = kernel.bind(memory.tensors(), 0);
  memory.upload(c, bench.stream);
  const Buffer from = bench.device->allocate(1 << 15, "a profile");
  const Buffer to = bench.device->allocate(1 << 15, "a profile");
  bench.device->fill(from.plane(), 1, kOutside, bench.stream);
  bench.stream.synchronize();
  const std::uint64_t begin = now();
  Records records;
  {
    const accel::DeviceProfile profile(bench.device);
    const std::string twice = expect(TERN_INVALID_ARGUMENT, api.profile_start(bench.device->raw()), "starting twice");
    if (!twice.empty()) return twice;
    {
      const accel::ProfileRange range(*bench.device, kRange);
      bench.device->copy(to.plane(), from.plane(), kCopied, bench.stream);
    }
    HostArgs host_args(c);
    instance->launch(host_args.get(), bench.stream, -1);
    bench.device->fill(from.plane(kCopied), 2, kFilled, bench.other);
    bench.stream.synchronize();
    bench.other.synchronize();
    std::uint64_t waiting = 0;
    accel::check(api.profile_collect(bench.device->raw(), nullptr, 0, &waiting), bench.device->backend(), "counting");
    records = profile.collect();
    if (records.size() != waiting) return "counting the records takes some away";
    if (!profile.collect().empty()) return "records are handed over twice";
  }
  const std::uint64_t end = now();
  bench.device->fill(from.plane(), 3, kOutside, bench.stream);
  bench.stream.synchronize();
  {
    const accel::DeviceProfile profile(bench.device);
    if (!profile.collect().empty()) return "work from outside of a recording is in the next one";
  }
  return first_problem({check_records(bench, records), check_times(records, begin, end),
                        expect(TERN_INVALID_ARGUMENT, api.profile_stop(bench.device->raw()), "stopping twice")});
}

}  // namespace

std::string check_profile(Bench& bench, bool set) {
  const auto& api = bench.device->api();
  if (!bench.device->backend().has(&tern_backend::profile_start)) return set ? "profile_start is absent" : "";
  if (set) return record_some(bench);
  std::uint64_t count = 0;
  return first_problem(
      {expect_unsupported(api.profile_start(bench.device->raw()), "profile_start"),
       expect_unsupported(api.profile_stop(bench.device->raw()), "profile_stop"),
       expect_unsupported(api.profile_collect(bench.device->raw(), nullptr, 0, &count), "profile_collect")});
}

}  // namespace tern::conformance
