// Streams, copies and fills.
#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

constexpr std::int32_t kExtensionDevice = 12;  // DLPack's kDLExtDev

// A copy between the host and the device. CANN takes only page-locked memory along; what is pageable is copied once the
// stream has come so far, as the memory may change as soon as this returns. A capture keeps the address in any case.
void copy_host(Stream& stream, void* dst, const void* src, std::uint64_t bytes, aclrtMemcpyKind kind) {
  const Acl& api = use(&stream, "copy");
  if (bytes == 0) return;
  const void* host_side = kind == ACL_MEMCPY_HOST_TO_DEVICE ? src : dst;
  if (stream.recording() != nullptr || stream.shared->is_pinned(host_side, bytes)) {
    check_stream(stream, api.aclrtMemcpyAsync(dst, bytes, src, bytes, kind, stream.handle), "a copy");
    return;
  }
  check_stream(stream, api.aclrtSynchronizeStream(stream.handle), "waiting before a copy of pageable memory");
  check_stream(stream, api.aclrtMemcpy(dst, bytes, src, bytes, kind), "a copy");
}

}  // namespace

const Acl& use(Stream* stream, const char* what) {
  if (stream == nullptr) throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": no stream");
  if (stream->failed != TERN_OK) throw Error(stream->failed, stream->failure);
  stream->shared->use();
  return acl();
}

void check_stream(Stream& stream, int code, const char* what) {
  if (code == 0) return;
  const tern_status status = status_of(code);
  const std::string text = describe_failure(what, code);
  if (status == TERN_ASYNC_ERROR || status == TERN_DEVICE_LOST) {
    stream.failed = status;
    stream.failure = text;
  }
  throw Error(status, text);
}

tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr || (src == nullptr && bytes > 0))
      return fail(TERN_INVALID_ARGUMENT, "copy_to_device: a null argument");
    copy_host(*stream, plane_address(dst, bytes, "copy_to_device"), src, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    return TERN_OK;
  });
}

tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr || (dst == nullptr && bytes > 0))
      return fail(TERN_INVALID_ARGUMENT, "copy_to_host: a null argument");
    copy_host(*stream, dst, plane_address(src, bytes, "copy_to_host"), bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    return TERN_OK;
  });
}

tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Acl& api = use(stream, "copy_on_device");
    auto* to = plane_address(dst, bytes, "copy_on_device: destination");
    const auto* from = plane_address(src, bytes, "copy_on_device: source");
    if (bytes == 0) return TERN_OK;
    check_stream(*stream, api.aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream->handle),
                 "a copy");
    return TERN_OK;
  });
}

tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Acl& api = use(stream, "fill");
    auto* to = plane_address(dst, bytes, "fill");
    if (bytes == 0) return TERN_OK;
    check_stream(*stream, api.aclrtMemsetAsync(to, bytes, byte, bytes, stream->handle), "a fill");
    return TERN_OK;
  });
}

tern_status stream_create(tern_device device, int32_t /*priority*/, tern_stream* stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_create: no place for the stream");
    (void)present(device);
    auto made = std::make_unique<tern_stream_s>();
    made->shared = device->shared;
    check(acl().aclrtCreateStream(&made->handle), "aclrtCreateStream");
    *stream = made.release();
    return TERN_OK;
  });
}

tern_status stream_destroy(tern_stream stream) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_stream_s> owner(stream);
    if (stream == nullptr || stream->adopted) return TERN_OK;
    stream->shared->use();
    const Acl& api = acl();
    (void)api.aclrtSynchronizeStream(stream->handle);  // queued work finishes; its failure is nobody's any more
    check(api.aclrtDestroyStream(stream->handle), "aclrtDestroyStream");
    return TERN_OK;
  });
}

tern_status stream_synchronize(tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Acl& api = use(stream, "stream_synchronize");
    if (stream->recording() != nullptr)
      return fail(TERN_INVALID_ARGUMENT, "stream_synchronize: the stream is being captured");
    check_stream(*stream, api.aclrtSynchronizeStream(stream->handle), "stream_synchronize");
    return TERN_OK;
  });
}

tern_status stream_native(tern_stream stream, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_native: no stream");
    tern_native filled{};
    filled.device_type = kExtensionDevice;
    filled.device_id = stream->shared->ordinal;
    filled.handle = reinterpret_cast<std::uintptr_t>(stream->handle);
    return give_info(native, filled);
  });
}

tern_status stream_adopt(tern_device device, const tern_native* native, tern_stream* stream) {
  return guarded([&]() -> tern_status {
    const Shared& shared = present(device);
    tern_native own;
    require(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_native, handle) + sizeof own.handle, native));
    if (own.device_type != kExtensionDevice || own.device_id != shared.ordinal || stream == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "stream_adopt: the stream is none of npu:" + std::to_string(shared.ordinal));
    }
    auto made = std::make_unique<tern_stream_s>();
    made->shared = device->shared;
    made->handle = reinterpret_cast<aclrtStream>(own.handle);
    made->adopted = true;
    *stream = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::npu
