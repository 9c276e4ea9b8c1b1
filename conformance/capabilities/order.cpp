// Events and captures.
#include <algorithm>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

std::string check_events(Bench& bench) {
  const accel::Event start = bench.device->make_event(true);
  const accel::Event end = bench.device->make_event(true);
  bench.stream.record(start);
  const Buffer buffer = bench.device->allocate(1 << 20, "events");
  bench.device->fill(buffer.plane(), 1, buffer.bytes(), bench.stream);
  bench.stream.record(end);
  end.synchronize();
  if (!end.finished() || !start.finished()) return "an event is not ready after it was waited for";
  return end.elapsed_since(start) >= 0.0F ? "" : "the time between two events is negative";
}

namespace {

// Copies and a fill on two streams that events join: nothing runs until the launch, and each launch runs all of it.
std::string capture_two_streams(Bench& bench) {
  const tern_backend& api = bench.device->api();
  const accel::Backend& backend = bench.device->backend();
  const Bytes data[2] = {pattern(4096, 3), pattern(4096, 4)};
  const Bytes poison(4096, std::byte{0x5a});
  const Buffer from = bench.device->allocate(4096, "capture");
  const Buffer between = bench.device->allocate(4096, "capture");
  const Buffer to = bench.device->allocate(4096, "capture");
  const accel::Event forked = bench.device->make_event();
  const accel::Event joined = bench.device->make_event();
  bench.device->copy_to_device(to.plane(), poison, bench.stream);
  bench.stream.synchronize();
  accel::check(api.capture_begin(bench.stream.raw()), backend, "beginning a capture");
  accel::check(api.copy_on_device(between.plane(), from.plane(), 4096, bench.stream.raw()), backend, "copying");
  bench.stream.record(forked);
  bench.other.wait(forked);
  accel::check(api.copy_on_device(to.plane(), between.plane(), 4096, bench.other.raw()), backend, "copying");
  bench.device->fill(to.plane(), 7, 16, bench.other);
  bench.other.record(joined);
  bench.stream.wait(joined);
  tern_capture raw = nullptr;
  accel::check(api.capture_end(bench.stream.raw(), &raw), backend, "ending a capture");
  const accel::Capture capture(bench.device, raw);
  Bytes found(4096);
  const auto fetch = [&] {
    bench.device->copy_to_host(found, to.plane(), bench.stream);
    bench.stream.synchronize();
  };
  fetch();
  if (found != poison) return "work ran while it was being captured";
  for (const Bytes& each : data) {
    bench.device->copy_to_device(from.plane(), each, bench.stream);
    accel::check(api.capture_launch(capture.raw(), bench.stream.raw()), backend, "launching a captured graph");
    fetch();
    Bytes expected = each;
    std::fill_n(expected.begin(), 16, std::byte{7});
    if (found != expected) return "a capture of copies on two streams left other bytes than they would";
  }
  return {};
}

}  // namespace

std::string check_capture_flag(Bench& bench, bool set) {
  const tern_backend& api = bench.device->api();
  if (set) return capture_two_streams(bench);  // check_capture tries it with every op
  if (!bench.device->backend().has(&tern_backend::capture_begin)) return {};
  return expect_unsupported(api.capture_begin(bench.stream.raw()), "capture_begin");
}

// check_capture tries it with every op that has counts or lengths.
std::string check_device_counts(Bench& bench, bool set) {
  if (set && !bench.device->can(TERN_CAP_CAPTURE)) return "set without capture, of which it speaks";
  if (set && bench.device->can(TERN_CAP_HOST_LENGTHS)) return "set beside host_lengths, which says the opposite";
  return {};
}

}  // namespace tern::conformance
