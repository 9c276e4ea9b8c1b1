// Buffers, pinned memory, copies.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/sim/interface.h"
#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

constexpr std::uint64_t kPinnedAlignment = 64;
constexpr std::size_t kZone = 64;
constexpr std::byte kZoneByte{0xed};
constexpr std::byte kPoison{0xff};  // NaN in every float, -1 in every integer
constexpr std::uint64_t kHostLimit = std::uint64_t{1} << 40;

// Pinned memory is read when a copy runs; pageable memory when it is queued, unless it is recorded: a captured copy
// keeps its address.
bool is_pinned(const Device& device, const std::byte* pointer, std::uint64_t bytes) {
  return std::any_of(device.pinned.begin(), device.pinned.end(), [&](const auto& block) {
    return pointer >= block.data && pointer + bytes <= block.data + block.bytes;
  });
}

// What buffers may be made for.
std::uint32_t flags_of(const Device& device) {
  std::uint32_t flags = 0;
  if (device.can(TERN_CAP_IPC)) flags |= TERN_BUFFER_SHAREABLE;
  if (device.can(TERN_CAP_COLLECTIVES)) flags |= TERN_BUFFER_COLLECTIVES;
  if (device.can(TERN_CAP_EVICT)) flags |= TERN_BUFFER_RECLAIMABLE;
  return flags;
}

template <typename Body>
tern_status guarded_on(tern_stream stream, Body&& body) {
  return guarded([&](auto&) { on_stream(stream, body); });
}

void require_device(const tern_plane& plane, const Device& device, const char* what) {
  if (plane.buffer == nullptr || world().buffers.at(plane.buffer)->device.get() == &device) return;
  fail(TERN_INVALID_ARGUMENT, cat(what, ": the buffer is of another device than the stream; use copy_peer"));
}

void queue_copy_on_device(tern_plane dst, tern_plane src, std::uint64_t bytes, Stream& stream, const char* name) {
  const auto target = world().plane(dst, bytes, cat(name, ": destination"));
  const auto origin = world().plane(src, bytes, cat(name, ": source"));
  if (bytes > 0 && target.data() < origin.data() + bytes && origin.data() < target.data() + bytes) {
    fail(TERN_INVALID_ARGUMENT, cat(name, ": source and destination overlap"));
  }
  Work work;
  work.what = name;
  work.kind = TERN_PROFILE_COPY;
  work.bytes = bytes;
  work.run = [dst, src, bytes, what = std::string(name)](const HostArgs&) {
    const auto from = world().plane(src, bytes, cat(what, ": source"));
    const auto to = world().plane(dst, bytes, cat(what, ": destination"));
    if (bytes > 0) std::memmove(to.data(), from.data(), bytes);
  };
  submit(stream, std::move(work));
}

}  // namespace

std::string Buffer::trouble() const {
  if (evicted) return cat("its buffer of ", bytes, " bytes is evicted");
  if (!adopted) return {};
  const auto owner_of_memory = whole.lock();
  return owner_of_memory ? owner_of_memory->trouble() : "its owner gave the adopted memory back";
}

std::span<std::byte> Buffer::content() {
  if (imported != nullptr) return {imported, bytes};
  if (adopted) return whole.lock()->content().subspan(begin, bytes);
  return std::span(memory).subspan(kZone, bytes);
}

bool Buffer::zones_intact() const {
  const auto is_zone = [](std::byte byte) { return byte == kZoneByte; };
  return memory.empty() || (std::all_of(memory.begin(), memory.begin() + kZone, is_zone) &&
                            std::all_of(memory.end() - kZone, memory.end(), is_zone));
}

void Buffer::take_memory() {
  const std::uint64_t left = owner->left();
  if (bytes > left) {
    fail(TERN_OUT_OF_MEMORY, cat(device->name(), ": ", human_bytes(bytes), " asked for, ", human_bytes(left), " of ",
                                 human_bytes(std::min(device->info.memory_bytes, owner->limit)), " free"));
  }
  memory.assign(bytes + 2 * kZone, kPoison);
  std::fill_n(memory.begin(), kZone, kZoneByte);
  std::fill_n(memory.end() - kZone, kZone, kZoneByte);
  device->take(Use::buffers, bytes);
  owner->taken += bytes;
}

void Buffer::give_memory() {
  if (memory.empty()) return;
  memory = {};
  device->give(Use::buffers, bytes);
  owner->taken -= bytes;
}

tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer) {
  return guarded([&](auto&) {
    require(buffer != nullptr, "buffer_create: no place for the buffer");
    const auto& opened = world().present(device);
    const Device& d = *opened->device;
    require_alive(d);
    if ((flags & ~flags_of(d)) != 0) {
      fail(TERN_UNSUPPORTED, cat(d.name(), ": no buffers with flags ", flags & ~flags_of(d), " are made here"));
    }
    if (opened->struck(Fault::Kind::oom, ++opened->counted.allocations)) {
      fail(TERN_OUT_OF_MEMORY,
           cat(d.name(), ": allocation ", opened->counted.allocations, " fails, as its faults ask"));
    }
    if (bytes > d.info.largest_allocation_bytes) {
      fail(TERN_OUT_OF_MEMORY, cat(d.name(), ": ", human_bytes(bytes), " asked for at once, at most ",
                                   human_bytes(d.info.largest_allocation_bytes), " can be"));
    }
    auto made = std::make_shared<Buffer>();
    made->device = opened->device;
    made->owner = opened;
    made->bytes = bytes;
    made->flags = flags;
    made->take_memory();
    *buffer = world().buffers.add(std::move(made));
  });
}

tern_status buffer_destroy(tern_buffer buffer) {
  return guarded([&](auto&) {
    if (buffer == nullptr) return;
    const auto gone = world().buffers.remove(buffer);
    const bool intact = gone->zones_intact();
    gone->give_memory();
    if (!intact) fail(TERN_INTERNAL, "memory before or after a buffer was written");
  });
}

tern_status buffer_host_pointer(tern_buffer, void**) {
  return tern_plugin::fail(TERN_UNSUPPORTED, "the host cannot touch the simulated device's memory");
}

tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  return guarded([&](auto&) {
    require(pointer != nullptr, "host_alloc: no place for the pointer");
    const auto& opened = world().present(device);
    const auto& d = opened->device;
    if (opened->struck(Fault::Kind::host, ++opened->counted.host_allocations)) {
      fail(TERN_OUT_OF_HOST_MEMORY,
           cat(d->name(), ": host allocation ", opened->counted.host_allocations, " fails, as its faults ask"));
    }
    if (bytes > kHostLimit) fail(TERN_OUT_OF_HOST_MEMORY, cat(bytes, " bytes are more than the host has"));
    d->pinned.reserve(d->pinned.size() + 1);
    const std::uint64_t whole = bytes / kPinnedAlignment * kPinnedAlignment + kPinnedAlignment;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kPinnedAlignment, whole));
    if (data == nullptr) throw std::bad_alloc();
    std::fill_n(data, bytes, kPoison);
    d->pinned.push_back({data, bytes});
    *pointer = data;
  });
}

tern_status host_free(tern_device device, void* pointer) {
  return guarded([&](auto&) {
    auto& pinned = world().present(device)->device->pinned;
    if (pointer == nullptr) return;
    const auto found =
        std::find_if(pinned.begin(), pinned.end(), [&](const auto& block) { return block.data == pointer; });
    require(found != pinned.end(), "host_free: not a pointer that host_alloc gave");
    pinned.erase(found);
    std::free(pointer);
  });
}

tern_status import_host(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&](auto&) {
    require(buffer != nullptr && (pointer != nullptr || bytes == 0), "import_host: a null argument");
    const auto& d = world().present(device)->device;
    require_alive(*d);
    if (!d->can(TERN_CAP_IMPORT_HOST)) fail(TERN_UNSUPPORTED, cat(d->name(), " does not map host memory"));
    auto made = std::make_shared<Buffer>();
    made->device = d;
    made->bytes = bytes;
    made->imported = static_cast<std::byte*>(pointer);
    *buffer = world().buffers.add(std::move(made));
  });
}

tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  return guarded_on(stream, [&](const std::shared_ptr<Stream>& s) {
    require(src != nullptr || bytes == 0, "copy_to_device: no source");
    require_device(dst, *s->device, "copy_to_device");
    (void)world().plane(dst, bytes, "copy_to_device");
    const auto* from = static_cast<const std::byte*>(src);
    std::shared_ptr<std::vector<std::byte>> snapshot;
    if (s->open_recording() == nullptr && !is_pinned(*s->device, from, bytes)) {
      snapshot = std::make_shared<std::vector<std::byte>>(from, from + bytes);
    }
    Work work;
    work.what = "copy_to_device";
    work.kind = TERN_PROFILE_COPY;
    work.bytes = bytes;
    work.run = [dst, from, bytes, snapshot](const HostArgs&) {
      const auto to = world().plane(dst, bytes, "destination");
      std::copy_n(snapshot ? snapshot->data() : from, bytes, to.data());
    };
    submit(*s, std::move(work));
  });
}

tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded_on(stream, [&](const std::shared_ptr<Stream>& s) {
    require(dst != nullptr || bytes == 0, "copy_to_host: no destination");
    require_device(src, *s->device, "copy_to_host");
    (void)world().plane(src, bytes, "copy_to_host");
    Work work;
    work.what = "copy_to_host";
    work.kind = TERN_PROFILE_COPY;
    work.bytes = bytes;
    work.run = [dst, src, bytes](const HostArgs&) {
      const auto from = world().plane(src, bytes, "source");
      std::copy_n(from.data(), bytes, static_cast<std::byte*>(dst));
    };
    submit(*s, std::move(work));
  });
}

tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded_on(stream, [&](const std::shared_ptr<Stream>& s) {
    require_device(dst, *s->device, "copy_on_device: destination");
    require_device(src, *s->device, "copy_on_device: source");
    queue_copy_on_device(dst, src, bytes, *s, "copy_on_device");
  });
}

tern_status copy_peer(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded_on(stream, [&](const std::shared_ptr<Stream>& s) {
    if (!s->device->can(TERN_CAP_PEER_COPY)) {
      fail(TERN_UNSUPPORTED, cat(s->device->name(), " does not reach other devices"));
    }
    const auto is_here = [&](const tern_plane& plane) {
      return plane.buffer != nullptr && world().buffers.at(plane.buffer)->device == s->device;
    };
    require(bytes == 0 || is_here(dst) || is_here(src), "copy_peer: the stream is of a third device");
    queue_copy_on_device(dst, src, bytes, *s, "copy_peer");
  });
}

tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  return guarded_on(stream, [&](const std::shared_ptr<Stream>& s) {
    require_device(dst, *s->device, "fill");
    (void)world().plane(dst, bytes, "fill");
    Work work;
    work.what = "fill";
    work.kind = TERN_PROFILE_FILL;
    work.bytes = bytes;
    work.run = [dst, byte, bytes](const HostArgs&) {
      const auto to = world().plane(dst, bytes, "destination");
      std::fill(to.begin(), to.end(), static_cast<std::byte>(byte));
    };
    submit(*s, std::move(work));
  });
}

}  // namespace tern::sim
