// Memory, streams and events that others have a part in: peers, the host, other processes and the vendor's libraries.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

std::string check_peer(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::copy_peer)) return set ? "copy_peer is absent" : "";
  const Bytes data = pattern(1000, 9);
  const Buffer here = bench.device->allocate(data.size(), "peer");
  bench.device->copy_to_device(here.plane(), data, bench.stream);
  bench.stream.synchronize();  // the buffer goes before the stream does
  if (!set) {
    return expect_unsupported(bench.device->api().copy_peer(here.plane(), here.plane(), 1, bench.stream.raw()),
                              "copy_peer");
  }
  if (bench.device->info().peer_mask == 0) return "no peer in peer_mask";
  for (int ordinal = 0; ordinal < 64; ++ordinal) {
    if ((bench.device->info().peer_mask >> ordinal & 1U) == 0) continue;
    const accel::DevicePtr peer = accel::Device::open(same_backend(bench), ordinal).value();
    const accel::Stream stream = peer->make_stream();
    const Buffer there = peer->allocate(data.size(), "peer");
    accel::check(bench.device->api().copy_peer(there.plane(), here.plane(), data.size(), bench.stream.raw()),
                 bench.device->backend(), "copy_peer");
    bench.stream.synchronize();
    Bytes found(data.size());
    peer->copy_to_host(found, there.plane(), stream);
    stream.synchronize();
    if (found != data) return cat("copy_peer to device ", ordinal, " changed bytes");
  }
  return {};
}

std::string check_import(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::import_host)) return set ? "import_host is absent" : "";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  const Bytes data = pattern(2 * page, 5);
  std::memcpy(pages, data.data(), data.size());
  std::string problem;
  tern_buffer raw = nullptr;
  const tern_status status = bench.device->api().import_host(bench.device->raw(), pages, 2 * page, &raw);
  if (!set) {
    problem = expect_unsupported(status, "import_host");
  } else {
    accel::check(status, bench.device->backend(), "import_host");
    const Buffer buffer(bench.device, raw, 2 * page);
    if (fetch(bench, buffer.plane(), data.size()) != data) problem = "imported pages read back otherwise";
  }
  munmap(pages, 2 * page);
  return problem;
}

std::string check_host_pointer(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::buffer_host_pointer))
    return set ? "buffer_host_pointer is absent" : "";
  const Buffer buffer = bench.device->allocate(64, "host pointer");
  void* pointer = nullptr;
  const tern_status status = bench.device->api().buffer_host_pointer(buffer.raw(), &pointer);
  if (!set) return expect_unsupported(status, "buffer_host_pointer");
  accel::check(status, bench.device->backend(), "buffer_host_pointer");
  const Bytes data = pattern(64, 7);
  std::memcpy(pointer, data.data(), data.size());
  return fetch(bench, buffer.plane(), 64) == data ? "" : "what the host wrote is not what the device holds";
}

std::string check_ipc(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::ipc_export)) return set ? "ipc_export is absent" : "";
  const Buffer plain = bench.device->allocate(64, "ipc");
  std::uint8_t handle[128] = {};
  const auto& api = bench.device->api();
  if (!set) return expect_unsupported(api.ipc_export(plain.raw(), handle), "ipc_export");
  const Buffer shareable = bench.device->allocate(64, "ipc", TERN_BUFFER_SHAREABLE);
  accel::check(api.ipc_export(shareable.raw(), handle), bench.device->backend(), "ipc_export");
  return expect(TERN_INVALID_ARGUMENT, api.ipc_export(plain.raw(), handle), "ipc_export of what isn't shareable");
}

namespace {

tern_native native_of(const Bench& bench, const Buffer& buffer) {
  tern_native native{};
  native.size = sizeof(native);
  accel::check(bench.device->api().buffer_native(buffer.raw(), &native), bench.device->backend(), "buffer_native");
  return native;
}

}  // namespace

std::string check_native_memory(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::buffer_native)) return set ? "buffer_native is absent" : "";
  const auto& api = bench.device->api();
  const std::uint64_t unit = std::max<std::uint64_t>(bench.device->info().import_alignment, 64);
  const Buffer whole = bench.device->allocate(4096, "native memory");
  tern_native native{};
  native.size = sizeof(native);
  tern_buffer raw = nullptr;
  if (!set) {
    return first_problem(
        {expect_unsupported(api.buffer_native(whole.raw(), &native), "buffer_native"),
         expect_unsupported(api.buffer_adopt(bench.device->raw(), &native, 16, &raw), "buffer_adopt")});
  }
  native = native_of(bench, whole);
  if (native.device_type == 0) return "buffer_native gives no type of device";
  native.offset += unit;
  const std::uint64_t held = bench.device->memory().in_use_by_process;
  accel::check(api.buffer_adopt(bench.device->raw(), &native, 1024, &raw), bench.device->backend(), "buffer_adopt");
  {
    const Buffer part(bench.device, raw, 1024);
    if (bench.device->memory().in_use_by_process != held) return "adopting somebody else's memory is counted as taken";
    const Bytes data = pattern(1024, 11);
    bench.device->copy_to_device(part.plane(), data, bench.stream);
    if (fetch(bench, whole.plane(unit), 1024) != data) return "what is written through an adopted buffer isn't seen";
    const tern_native again = native_of(bench, part);
    if (again.handle + again.offset != native.handle + native.offset) return "an adopted buffer lies somewhere else";
  }
  const Bytes kept = fetch(bench, whole.plane(unit), 1024);
  if (kept != pattern(1024, 11)) return "destroying an adopted buffer changed the memory";
  tern_native wrong = native;
  wrong.device_type += 100;
  const std::string of_type =
      expect(TERN_INVALID_ARGUMENT, api.buffer_adopt(bench.device->raw(), &wrong, 16, &raw), "memory of another type");
  wrong = native;
  wrong.device_id += 100;
  return first_problem({of_type, expect(TERN_INVALID_ARGUMENT, api.buffer_adopt(bench.device->raw(), &wrong, 16, &raw),
                                        "memory of another device")});
}

namespace {

// Copies from slot to slot, each through the other of a stream and its adopted twin: out of order, the last slot gets
// something else than the first holds.
std::string order_through_twins(Bench& bench) {
  constexpr int kSlots = 24;
  constexpr std::uint64_t kSlot = 4096;
  const auto& api = bench.device->api();
  const accel::Backend& backend = bench.device->backend();
  const accel::Event start = bench.device->make_event(true);
  const accel::Event event = bench.device->make_event(true);
  tern_native native{};
  native.size = sizeof(native);
  accel::check(api.stream_native(bench.stream.raw(), &native), backend, "stream_native");
  tern_stream raw_stream = nullptr;
  accel::check(api.stream_adopt(bench.device->raw(), &native, &raw_stream), backend, "stream_adopt");
  native = {};
  native.size = sizeof(native);
  accel::check(api.event_native(event.raw(), &native), backend, "event_native");
  tern_event raw_event = nullptr;
  accel::check(api.event_adopt(bench.device->raw(), &native, &raw_event), backend, "event_adopt");
  const Buffer buffer = bench.device->allocate(kSlots * kSlot, "native streams");
  {
    const accel::Stream twin(bench.device, raw_stream);
    const accel::Event mark(bench.device, raw_event);
    for (unsigned round = 0; round < 4; ++round) {
      const Bytes data = pattern(kSlot, round);
      bench.device->fill(buffer.plane(), 0xff, buffer.bytes(), bench.stream);
      bench.device->copy_to_device(buffer.plane(), data, bench.stream);
      bench.stream.record(start);
      for (std::uint64_t i = 0; i + 1 < kSlots; ++i) {
        bench.device->copy(buffer.plane((i + 1) * kSlot), buffer.plane(i * kSlot), kSlot,
                           i % 2 == 0 ? twin : bench.stream);
      }
      twin.record(mark);
      bench.other.wait(event);  // the mark that was set through the other
      Bytes found(kSlot);
      bench.device->copy_to_host(found, buffer.plane((kSlots - 1) * kSlot), bench.other);
      bench.other.synchronize();
      twin.synchronize();
      bench.stream.synchronize();
      if (found != data) return "work given through two handles of one stream changed places";
      if (event.elapsed_since(start) < 0.0F)
        return "an event's mark, set through its adopted twin, is older than work before it";
    }
  }
  bench.device->fill(buffer.plane(), 3, buffer.bytes(), bench.stream);  // ours goes, the vendor's stays
  bench.stream.record(event);
  event.synchronize();
  return fetch(bench, buffer.plane(), 1)[0] == std::byte{3} ? "" : "destroying an adopted stream hurt the other";
}

}  // namespace

std::string check_native_streams(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::stream_native)) return set ? "stream_native is absent" : "";
  if (set) return order_through_twins(bench);
  const auto& api = bench.device->api();
  const accel::Event event = bench.device->make_event();
  tern_native native{};
  native.size = sizeof(native);
  tern_stream stream = nullptr;
  tern_event adopted = nullptr;
  return first_problem({expect_unsupported(api.stream_native(bench.stream.raw(), &native), "stream_native"),
                        expect_unsupported(api.event_native(event.raw(), &native), "event_native"),
                        expect_unsupported(api.stream_adopt(bench.device->raw(), &native, &stream), "stream_adopt"),
                        expect_unsupported(api.event_adopt(bench.device->raw(), &native, &adopted), "event_adopt")});
}

}  // namespace tern::conformance
