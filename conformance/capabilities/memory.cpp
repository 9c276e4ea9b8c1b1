// Memory of the device: what it holds, what it is made for, and giving it back for a while.
#include <algorithm>
#include <memory>
#include <utility>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

std::string check_copies(Bench& bench) {
  const std::uint64_t unit = std::max<std::uint64_t>(1, bench.device->info().alignment);
  const Bytes data = pattern(4099, 3);
  const Buffer a = bench.device->allocate(3 * 4096 + 4 * unit, "copies");
  const Buffer b = bench.device->allocate(3 * 4096 + 4 * unit, "copies");
  bench.device->fill(a.plane(), 0x11, a.bytes(), bench.stream);
  bench.device->copy_to_device(a.plane(unit), data, bench.stream);
  bench.device->copy(b.plane(2 * unit), a.plane(unit), data.size(), bench.stream);
  bench.device->fill(a.plane(unit), 0x22, 5, bench.stream);
  if (fetch(bench, b.plane(2 * unit), data.size()) != data) return "copies through the device changed bytes";
  const Bytes head = fetch(bench, a.plane(), unit + 6);
  const bool filled = std::all_of(head.begin() + static_cast<std::ptrdiff_t>(unit),
                                  head.begin() + static_cast<std::ptrdiff_t>(unit) + 5,
                                  [](std::byte byte) { return byte == std::byte{0x22}; });
  if (!filled || head[unit + 5] != data[5] || (unit > 0 && head[unit - 1] != std::byte{0x11})) {
    return "fill wrote other bytes than it should";
  }
  return {};
}

std::string check_memory(Bench& bench) {
  const tern_memory_info before = bench.device->memory();
  if (before.total == 0) return "memory_info tells no total";
  {
    const Buffer buffer = bench.device->allocate(1 << 20, "memory");
    const tern_memory_info during = bench.device->memory();
    if (during.in_use_by_process < before.in_use_by_process + (1 << 20)) return "an allocation is not counted in use";
    if (during.peak_by_process < during.in_use_by_process) return "the peak is below what is in use";
  }
  tern_buffer raw = nullptr;
  const std::uint64_t impossible = std::uint64_t{1} << 62;
  const tern_status status = bench.device->api().buffer_create(bench.device->raw(), impossible, 0, &raw);
  if (status != TERN_OUT_OF_MEMORY) {
    return cat("allocating 2^62 bytes: expected out of memory, found ", accel::status_name(status));
  }
  return bench.device->backend().last_error().empty() ? "out of memory without a word in last_error" : "";
}

// What memory_info says beside the total: its parts, and what buffers take.
std::string check_memory_parts(Bench& bench) {
  constexpr std::uint64_t kBytes = 3 << 20;
  constexpr std::uint64_t kGranularity = 2 << 20;  // of an allocation that the device rounds up
  const auto others = [](const tern_memory_info& info) {
    return info.context_bytes + info.library_bytes + info.comm_bytes;
  };
  const tern_memory_info before = bench.device->memory();
  if (others(before) > before.in_use_by_process) return "the parts of what is in use are more than all of it";
  if (before.context_bytes > before.total) return "the context takes more than there is";
  const Buffer buffer = bench.device->allocate(kBytes, "memory");
  const tern_memory_info during = bench.device->memory();
  const std::uint64_t taken = during.in_use_by_process - others(during) - (before.in_use_by_process - others(before));
  if (taken < kBytes || taken > kBytes + kGranularity) {
    return cat("a buffer of ", kBytes, " bytes makes what isn't context, library or communicators ", taken,
               " bytes larger");
  }
  return {};
}

std::string check_buffer_flags(Bench& bench) {
  struct Kind {
    const char* name;
    std::uint32_t flag;
    std::uint32_t capability;
  };
  const auto& api = bench.device->api();
  const auto make = [&](std::uint32_t flags, Buffer& made) {
    tern_buffer raw = nullptr;
    const tern_status status = api.buffer_create(bench.device->raw(), 4096, flags, &raw);
    if (status == TERN_OK) made = Buffer(bench.device, raw, 4096);
    return status;
  };
  for (const Kind& kind : {Kind{"shareable", TERN_BUFFER_SHAREABLE, TERN_CAP_IPC},
                           {"for collectives", TERN_BUFFER_COLLECTIVES, TERN_CAP_COLLECTIVES},
                           {"reclaimable", TERN_BUFFER_RECLAIMABLE, TERN_CAP_EVICT}}) {
    const bool can = bench.device->can(kind.capability);
    Buffer buffer;
    const std::string problem =
        expect(can ? TERN_OK : TERN_UNSUPPORTED, make(kind.flag, buffer), cat("a buffer that is ", kind.name));
    if (!problem.empty()) return problem;
    if (!can) continue;
    const Bytes data = pattern(4096, kind.flag);
    bench.device->copy_to_device(buffer.plane(), data, bench.stream);
    if (fetch(bench, buffer.plane(), 4096) != data) return cat("a buffer that is ", kind.name, " holds other bytes");
  }
  Buffer none;
  return expect_unsupported(make(1U << 31, none), "a buffer with an unknown flag");
}

namespace {

// A launch that was bound, and captured where the device can, before its buffer was evicted.
class EarlyLaunch {
 public:
  EarlyLaunch(Bench& bench, const Buffer& buffer) : bench_(bench), buffer_(buffer) {
    if (!bench.device->can(TERN_CAP_EAGER) || !accel::supports(*bench.device, doubling_.desc()).native) return;
    plan_ = accel::Plan(bench.device, doubling_.desc(), {});
    const tern_plan_info& info = plan_.info();
    workspace_ = bench.device->allocate(info.workspace_bytes, "a workspace");
    scratch_.resize(info.host_scratch_bytes + 16);
    accel::BindMemory memory;
    if (info.workspace_bytes > 0) memory.workspace = workspace_.plane();
    void* scratch = scratch_.data();
    std::size_t room = scratch_.size();
    if (info.host_scratch_bytes > 0) memory.host_scratch = std::align(16, info.host_scratch_bytes, scratch, room);
    const auto tensors = doubling_.tensors(*bench.device, buffer.plane(), buffer.plane(kOutput));
    bound_ = plan_.bind(tensors, memory);
    if (!bench.device->can(TERN_CAP_CAPTURE)) return;
    const auto& api = bench.device->api();
    accel::check(api.capture_begin(bench.stream.raw()), bench.device->backend(), "beginning a capture");
    (void)bound_.launch(Doubling::host_args(), bench.stream);
    tern_capture raw = nullptr;
    accel::check(api.capture_end(bench.stream.raw(), &raw), bench.device->backend(), "ending a capture");
    capture_ = accel::Capture(bench.device, raw);
  }
  // Fills the buffer, launches both, and says what is wrong with what they left.
  std::string run(float from) {
    if (!plan_) return {};
    for (int captured = 0; captured < (capture_ ? 2 : 1); ++captured) {
      bench_.device->copy_to_device(buffer_.plane(), Doubling::input(from), bench_.stream);
      bench_.device->fill(buffer_.plane(kOutput), 0xff, Doubling::kBytes, bench_.stream);
      if (captured == 0) {
        (void)bound_.launch(Doubling::host_args(), bench_.stream);
      } else {
        accel::check(bench_.device->api().capture_launch(capture_.raw(), bench_.stream.raw()), bench_.device->backend(),
                     "launching a captured graph");
      }
      if (fetch(bench_, buffer_.plane(kOutput), Doubling::kBytes) != Doubling::output(from)) {
        return cat("a launch that was ", captured == 0 ? "bound" : "captured",
                   " before its buffer was evicted is wrong");
      }
    }
    return {};
  }
  static constexpr std::uint64_t kOutput = 4096;  // where y lies

 private:
  Bench& bench_;
  const Buffer& buffer_;
  Doubling doubling_;
  accel::Plan plan_;
  Buffer workspace_;
  std::vector<std::byte> scratch_;
  accel::Bound bound_;
  accel::Capture capture_;
};

std::string evict_and_restore(Bench& bench) {
  constexpr std::uint64_t kBytes = 8 << 20;
  const auto& api = bench.device->api();
  const std::uint64_t size = std::min(kBytes, bench.device->info().largest_allocation_bytes / 2);
  const Buffer buffer = bench.device->allocate(size, "evicting", TERN_BUFFER_RECLAIMABLE);
  const auto address = [&] {
    tern_native native{};
    native.size = sizeof(native);
    if (!bench.device->can(TERN_CAP_NATIVE_MEMORY)) return std::pair(native.handle, native.offset);
    accel::check(api.buffer_native(buffer.raw(), &native), bench.device->backend(), "buffer_native");
    return std::pair(native.handle, native.offset);
  };
  const auto place = address();
  EarlyLaunch launch(bench, buffer);
  if (std::string problem = launch.run(1.0F); !problem.empty()) return problem;
  const std::uint64_t held = bench.device->memory().in_use_by_process;
  for (int round = 0; round < 2; ++round) {
    buffer.evict();
    buffer.evict();  // does nothing
    const std::uint64_t left = bench.device->memory().in_use_by_process;
    if (left + size > held) return cat("evicting ", size, " bytes lowers what is in use by ", held - left);
    buffer.restore();
    buffer.restore();
    if (bench.device->memory().in_use_by_process != held) return "restoring doesn't take what evicting gave back";
    if (address() != place) return "a restored buffer has another address";
    if (std::string problem = launch.run(static_cast<float>(round)); !problem.empty()) return problem;
    const Bytes data = pattern(size, static_cast<unsigned>(round));
    bench.device->copy_to_device(buffer.plane(), data, bench.stream);
    if (fetch(bench, buffer.plane(), size) != data) return "a restored buffer holds other bytes than were copied there";
  }
  tern_buffer gone = nullptr;
  accel::check(api.buffer_create(bench.device->raw(), size, TERN_BUFFER_RECLAIMABLE, &gone), bench.device->backend(),
               "a reclaimable buffer");
  accel::check(api.buffer_evict(gone), bench.device->backend(), "buffer_evict");
  accel::check(api.buffer_destroy(gone), bench.device->backend(), "destroying an evicted buffer");
  if (bench.device->memory().in_use_by_process != held) return "an evicted buffer that was destroyed is still counted";
  const Buffer plain = bench.device->allocate(4096, "evicting");
  return expect(TERN_INVALID_ARGUMENT, api.buffer_evict(plain.raw()), "evicting a buffer that isn't reclaimable");
}

}  // namespace

std::string check_evict(Bench& bench, bool set) {
  if (set) return evict_and_restore(bench);
  if (!bench.device->backend().has(&tern_backend::buffer_evict)) return {};
  const Buffer buffer = bench.device->allocate(4096, "evicting");
  return first_problem({expect_unsupported(bench.device->api().buffer_evict(buffer.raw()), "buffer_evict"),
                        expect_unsupported(bench.device->api().buffer_restore(buffer.raw()), "buffer_restore")});
}

}  // namespace tern::conformance
