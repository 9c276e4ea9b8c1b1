// Streams, copies and fills.
#include <algorithm>
#include <iterator>

#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr std::int32_t kDlpackCuda = 2;

// Lets both devices reach each other's memory. The driver remembers it for the context, so it's asked each time.
void enable_access(const DeviceState& a, const DeviceState& b) {
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    from->use();
    const CUresult code = driver().CtxEnablePeerAccess(to->context.get(), 0);
    if (code != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) check(code, "letting one device reach another's memory");
  }
}

// Whether the memory came from host_alloc, so that it stays as it is until the stream has passed.
bool is_pinned(DeviceState& state, const void* pointer) {
  const auto* const at = static_cast<const std::byte*>(pointer);
  const std::lock_guard lock(state.mutex);
  const auto after = state.host_blocks.upper_bound(at);
  if (after == state.host_blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return at < begin + size;
}

// Whether the driver may leave a copy from the host's memory for later, though that may change as soon as the call
// returns.
bool may_be_late(Stream& stream, const void* from, std::uint64_t bytes) {
  constexpr std::uint64_t kWithCommand = 64 << 10;  // bytes that go with the command itself: the CUDA programming guide
  return stream.state->facts.reads_pageable && bytes > kWithCommand && stream.recording() == nullptr &&
         !is_pinned(*stream.state, from);
}

}  // namespace

const Driver& use(Stream* stream, const char* what) {
  if (stream == nullptr) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": no stream"));
  if (stream->failed != TERN_OK) throw Error(stream->failed, stream->failure);
  stream->state->use();
  return driver();
}

void check_stream(Stream& stream, CUresult code, std::string_view what) {
  if (code == CUDA_SUCCESS) return;
  const tern_status status = status_of(code);
  const std::string text = describe(what, code);
  if (status == TERN_ASYNC_ERROR || status == TERN_DEVICE_LOST) {
    stream.failed = status;
    stream.failure = text;
  }
  throw Error(status, text);
}

// The driver copies pageable memory to a place of its own before the call returns, unless the device can read it
// itself.
tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "copy_to_device");
    if (src == nullptr && bytes > 0) return fail(TERN_INVALID_ARGUMENT, "copy_to_device: no source");
    const Place to = find_place(dst, bytes, "copy_to_device");
    if (bytes == 0) return TERN_OK;
    submit(*stream, TERN_PROFILE_COPY, "copy to the device", bytes,
           [&] { return api.MemcpyHtoDAsync(to, src, bytes, stream->handle); });
    if (may_be_late(*stream, src, bytes)) {
      check_stream(*stream, api.StreamSynchronize(stream->handle), "copy_to_device of pageable memory");
    }
    return TERN_OK;
  });
}

tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "copy_to_host");
    if (dst == nullptr && bytes > 0) return fail(TERN_INVALID_ARGUMENT, "copy_to_host: no destination");
    const Place from = find_place(src, bytes, "copy_to_host");
    if (bytes == 0) return TERN_OK;
    submit(*stream, TERN_PROFILE_COPY, "copy to the host", bytes,
           [&] { return api.MemcpyDtoHAsync(dst, from, bytes, stream->handle); });
    return TERN_OK;
  });
}

tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "copy_on_device");
    const Place to = find_place(dst, bytes, "copy_on_device: destination");
    const Place from = find_place(src, bytes, "copy_on_device: source");
    if (bytes == 0) return TERN_OK;
    submit(*stream, TERN_PROFILE_COPY, "copy on the device", bytes,
           [&] { return api.MemcpyDtoDAsync(to, from, bytes, stream->handle); });
    return TERN_OK;
  });
}

tern_status copy_peer(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    (void)use(stream, "copy_peer");
    const Place to = find_place(dst, bytes, "copy_peer: destination");
    const Place from = find_place(src, bytes, "copy_peer: source");
    if (stream->state->facts.peer_mask == 0) return fail(TERN_UNSUPPORTED, "copy_peer: this device reaches no other");
    if (bytes == 0) return TERN_OK;
    const DeviceState& a = *dst.buffer->state;
    const DeviceState& b = *src.buffer->state;
    const bool same = a.ordinal == b.ordinal;
    if (!same && (a.facts.peer_mask >> b.ordinal & 1U) == 0) {
      return fail(TERN_UNSUPPORTED, cat("copy_peer: no path leads from cuda:", b.ordinal, " to cuda:", a.ordinal));
    }
    if (!same) enable_access(a, b);
    const Driver& api = use(stream, "copy_peer");
    submit(*stream, TERN_PROFILE_COPY, "copy between devices", bytes,
           [&] { return api.MemcpyPeerAsync(to, a.context.get(), from, b.context.get(), bytes, stream->handle); });
    return TERN_OK;
  });
}

tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "fill");
    const Place to = find_place(dst, bytes, "fill");
    if (bytes == 0) return TERN_OK;
    submit(*stream, TERN_PROFILE_FILL, "fill", bytes,
           [&] { return api.MemsetD8Async(to, byte, bytes, stream->handle); });
    return TERN_OK;
  });
}

tern_status stream_create(tern_device device, int32_t priority, tern_stream* stream) {
  return guarded([&]() -> tern_status {
    (void)require_present(device);
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_create: no place for the stream");
    auto made = std::make_unique<tern_stream_s>();
    made->state = device->state;
    made->handle = make_stream(priority).release();
    *stream = made.release();
    return TERN_OK;
  });
}

// What is queued still runs: the driver keeps the stream until then.
tern_status stream_destroy(tern_stream stream) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_stream_s> owner(stream);
    if (!owner || owner->adopted) return TERN_OK;
    (void)driver().CtxSetCurrent(owner->state->context.get());
    (void)driver().StreamDestroy(owner->handle);
    return TERN_OK;
  });
}

tern_status stream_synchronize(tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "stream_synchronize");
    if (stream->recording() != nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "stream_synchronize: the stream is being captured");
    }
    check_stream(*stream, api.StreamSynchronize(stream->handle), "waiting for a stream");
    const auto is_set = [](const auto& aborted) { return aborted->load(); };
    if (std::any_of(stream->aborted.begin(), stream->aborted.end(), is_set)) {
      stream->failed = TERN_ASYNC_ERROR;
      stream->failure = "a collective on this stream was aborted with its communicator";
      return fail(stream->failed, stream->failure);
    }
    return TERN_OK;
  });
}

tern_status stream_native(tern_stream stream, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_native: no stream");
    tern_native filled{};
    filled.device_type = kDlpackCuda;
    filled.device_id = stream->state->id;
    filled.handle = reinterpret_cast<std::uintptr_t>(stream->handle);
    return give_info(native, filled);
  });
}

tern_status stream_adopt(tern_device device, const tern_native* native, tern_stream* stream) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    tern_native own;
    require(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_native, handle) + sizeof own.handle, native));
    if (own.device_type != kDlpackCuda || own.device_id != state.id || stream == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, cat("stream_adopt: the stream is none of CUDA's device ", state.id));
    }
    auto made = std::make_unique<tern_stream_s>();
    made->state = device->state;
    made->handle = reinterpret_cast<CUstream>(own.handle);  // NOLINT(performance-no-int-to-ptr): a handle
    made->adopted = true;
    *stream = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::cuda
