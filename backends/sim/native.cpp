// Buffers that give their memory back for a while, and what other libraries share with this device: memory, streams and
// events. Native handles are numbers that no program could follow.
#include "backends/sim/interface.h"
#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

constexpr std::int32_t kExtensionDevice = 12;  // DLPack's kDLExtDev
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHandleMark = 8;  // sets a native handle apart from ours

void require_capability(const Device& device, std::uint32_t capability, const char* what) {
  if (!device.can(capability)) fail(TERN_UNSUPPORTED, cat(device.name(), ": ", what));
}

tern_native native_of(const Device& device, std::uint64_t handle) {
  tern_native native{};
  native.device_type = kExtensionDevice;
  native.device_id = device.ordinal;
  native.handle = handle;
  return native;
}

// What was given to be adopted, if it is of this device.
tern_native take_native(const Device& device, const tern_native* given) {
  tern_native own{};
  tern_plugin::require(tern_plugin_take_struct(&own, sizeof own, sizeof own, given));
  if (own.device_type != kExtensionDevice || own.device_id != device.ordinal) {
    fail(TERN_INVALID_ARGUMENT, cat("expected something of device ", device.ordinal, " of type ", kExtensionDevice,
                                    ", found device ", own.device_id, " of type ", own.device_type));
  }
  return own;
}

std::shared_ptr<Buffer> reclaimable(tern_buffer buffer, const char* what) {
  const auto& found = world().buffers.at(buffer);
  require_capability(*found->device, TERN_CAP_EVICT, "memory stays taken here until its buffer is destroyed");
  if ((found->flags & TERN_BUFFER_RECLAIMABLE) == 0) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": the buffer was not made reclaimable"));
  }
  return found;
}

// A number of its own for each buffer that is shown.
std::uint64_t address_of(const std::shared_ptr<Buffer>& buffer) {
  if (buffer->address != 0) return buffer->address;
  static std::uint64_t next = std::uint64_t{0xde51} << 48;  // beyond every program's memory
  buffer->address = next;
  next += (buffer->bytes / kPage + 2) * kPage;
  world().addresses[buffer->address] = buffer;
  return buffer->address;
}

std::shared_ptr<Buffer> at_address(std::uint64_t address) {
  auto& addresses = world().addresses;
  std::erase_if(addresses, [](const auto& entry) { return entry.second.expired(); });
  const auto after = addresses.upper_bound(address);
  return after == addresses.begin() ? nullptr : std::prev(after)->second.lock();
}

template <typename Raw>
std::uint64_t native_handle(Raw own) {
  return reinterpret_cast<std::uintptr_t>(own) + kHandleMark;
}

template <typename Raw>
Raw own_handle(std::uint64_t native) {
  return reinterpret_cast<Raw>(static_cast<std::uintptr_t>(native - kHandleMark));  // NOLINT(performance-no-int-to-ptr)
}

constexpr const char* kNoMemory = "its memory has no address for other libraries";
constexpr const char* kNoStreams = "its streams and events have no handles for other libraries";

}  // namespace

tern_status buffer_evict(tern_buffer buffer) {
  return guarded([&](auto&) {
    const auto found = reclaimable(buffer, "buffer_evict");
    if (found->evicted) return;
    const bool intact = found->zones_intact();
    found->give_memory();
    found->evicted = true;
    if (!intact) fail(TERN_INTERNAL, "memory before or after a buffer was written");
  });
}

tern_status buffer_restore(tern_buffer buffer) {
  return guarded([&](auto&) {
    const auto found = reclaimable(buffer, "buffer_restore");
    if (!found->evicted) return;
    found->take_memory();
    found->evicted = false;
  });
}

tern_status buffer_native(tern_buffer buffer, tern_native* native) {
  return guarded([&](auto&) {
    const auto& found = world().buffers.at(buffer);
    require_capability(*found->device, TERN_CAP_NATIVE_MEMORY, kNoMemory);
    if (found->imported != nullptr) fail(TERN_UNSUPPORTED, "buffer_native: imported pages are the host's");
    tern_native filled = native_of(*found->device, 0);
    if (found->adopted) {
      require(!found->whole.expired(), "buffer_native: its owner gave the adopted memory back");
      filled.handle = address_of(found->whole.lock());
      filled.offset = found->begin;
    } else {
      filled.handle = address_of(found);
    }
    tern_plugin::require(give_info(native, filled));
  });
}

tern_status buffer_adopt(tern_device device, const tern_native* native, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&](auto&) {
    require(buffer != nullptr, "buffer_adopt: no place for the buffer");
    const auto& d = world().present(device)->device;
    require_capability(*d, TERN_CAP_NATIVE_MEMORY, kNoMemory);
    const tern_native own = take_native(*d, native);
    const auto whole = at_address(own.handle);
    require(whole && whole->device == d, "buffer_adopt: no memory of this device lies there");
    const std::uint64_t begin = own.handle - whole->address;
    if (!tern_plugin_in_range(own.offset, bytes, whole->bytes - std::min(begin, whole->bytes))) {
      fail(TERN_INVALID_ARGUMENT, cat("buffer_adopt: ", bytes, " bytes at ", own.offset, " are not inside of the ",
                                      whole->bytes, " bytes that lie there"));
    }
    if ((begin + own.offset) % d->info.import_alignment != 0) {
      fail(TERN_INVALID_ARGUMENT, cat("buffer_adopt: expected memory aligned to ", d->info.import_alignment,
                                      " bytes, found it at ", begin + own.offset));
    }
    auto made = std::make_shared<Buffer>();
    made->device = d;
    made->bytes = bytes;
    made->adopted = true;
    made->whole = whole;
    made->begin = begin + own.offset;
    *buffer = world().buffers.add(std::move(made));
  });
}

tern_status stream_native(tern_stream stream, tern_native* native) {
  return guarded([&](auto&) {
    const Stream& found = *world().streams.at(stream);
    require_capability(*found.device, TERN_CAP_NATIVE_STREAMS, kNoStreams);
    tern_plugin::require(give_info(native, native_of(*found.device, native_handle(found.own))));
  });
}

tern_status stream_adopt(tern_device device, const tern_native* native, tern_stream* stream) {
  return guarded([&](auto&) {
    require(stream != nullptr, "stream_adopt: no place for the stream");
    const auto& d = world().present(device)->device;
    require_capability(*d, TERN_CAP_NATIVE_STREAMS, kNoStreams);
    auto found = world().streams.at(own_handle<tern_stream>(take_native(*d, native).handle));
    require(found->device == d, "stream_adopt: the stream is another device's");
    *stream = world().streams.add(std::move(found));
  });
}

tern_status event_native(tern_event event, tern_native* native) {
  return guarded([&](auto&) {
    const Event& found = *world().events.at(event);
    require_capability(*found.device, TERN_CAP_NATIVE_STREAMS, kNoStreams);
    tern_plugin::require(give_info(native, native_of(*found.device, native_handle(found.own))));
  });
}

tern_status event_adopt(tern_device device, const tern_native* native, tern_event* event) {
  return guarded([&](auto&) {
    require(event != nullptr, "event_adopt: no place for the event");
    const auto& d = world().present(device)->device;
    require_capability(*d, TERN_CAP_NATIVE_STREAMS, kNoStreams);
    auto found = world().events.at(own_handle<tern_event>(take_native(*d, native).handle));
    require(found->device == d, "event_adopt: the event is another device's");
    *event = world().events.add(std::move(found));
  });
}

}  // namespace tern::sim
