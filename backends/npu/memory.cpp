// Buffers, page-locked host memory, and memory that goes out and comes in by address.
#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

constexpr std::int32_t kExtensionDevice = 12;  // DLPack's kDLExtDev

}  // namespace

std::uint64_t taken_bytes(std::uint64_t bytes) {
  const std::uint64_t whole = bytes > UINT64_MAX - 2 * kBehind ? UINT64_MAX - 2 * kBehind : bytes;
  return (whole + kAlignment - 1) / kAlignment * kAlignment + kBehind;
}

void* Shared::allocate(std::uint64_t bytes) {
  const std::uint64_t taken = taken_bytes(bytes);
  require(tern_plugin_take_memory(&memory, taken));
  void* address = nullptr;
  const int code = acl().aclrtMalloc(&address, taken, ACL_MEM_MALLOC_HUGE_FIRST);
  if (code == 0) return address;
  tern_plugin_return_memory(&memory, taken);
  throw Error(status_of(code) == TERN_INTERNAL ? TERN_OUT_OF_MEMORY : status_of(code),
              describe_failure(std::to_string(bytes) + " bytes of device memory", code));
}

void Shared::free(void* address, std::uint64_t bytes) {
  const int code = acl().aclrtFree(address);
  tern_plugin_return_memory(&memory, taken_bytes(bytes));
  check(code, "aclrtFree");
}

bool Shared::is_pinned(const void* pointer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex);
  auto at = host_blocks.upper_bound(const_cast<void*>(pointer));
  if (at == host_blocks.begin()) return false;
  --at;
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(pointer) - static_cast<char*>(at->first));
  return tern_plugin_in_range(offset, bytes, at->second) != 0;
}

std::byte* plane_address(const tern_plane& plane, std::uint64_t bytes, const char* what) {
  if (plane.buffer == nullptr) {
    if (bytes == 0) return nullptr;
    throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": no buffer");
  }
  const Buffer& buffer = *plane.buffer;
  if (buffer.reserved > 0 && buffer.physical == nullptr) {
    throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": its buffer is evicted");
  }
  if (tern_plugin_in_range(plane.offset, bytes, buffer.bytes) == 0) {
    throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": " + std::to_string(bytes) + " bytes at " +
                                           std::to_string(plane.offset) + " are not inside of its buffer of " +
                                           std::to_string(buffer.bytes));
  }
  return buffer.data + plane.offset;
}

tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_create: no place for the buffer");
    Shared& shared = present(device);
    // HCCL takes every buffer of the device, so those for collectives are as others.
    const std::uint32_t own = flags & ~static_cast<std::uint32_t>(TERN_BUFFER_COLLECTIVES);
    const bool reclaimable = own == TERN_BUFFER_RECLAIMABLE && can_evict(*shared.chip);
    if (own != 0 && !reclaimable) {
      return fail(TERN_UNSUPPORTED, "buffer_create: this device has no buffers for that use");
    }
    auto made = std::make_unique<tern_buffer_s>();
    made->shared = device->shared;
    made->bytes = bytes;
    if (reclaimable) {
      make_reclaimable(*made, bytes);
    } else {
      made->data = static_cast<std::byte*>(shared.allocate(bytes));
    }
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status buffer_destroy(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_buffer_s> owner(buffer);
    if (buffer == nullptr || buffer->adopted) return TERN_OK;
    buffer->shared->use();
    if (buffer->reserved > 0) {
      release_reclaimable(*buffer);
    } else {
      buffer->shared->free(buffer->data, buffer->bytes);
    }
    return TERN_OK;
  });
}

tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  return guarded([&]() -> tern_status {
    if (pointer == nullptr) return fail(TERN_INVALID_ARGUMENT, "host_alloc: no place for the address");
    Shared& shared = present(device);
    if (bytes > UINT64_MAX / 2) return fail(TERN_OUT_OF_HOST_MEMORY, "host_alloc: more than any machine has");
    const int code = acl().aclrtMallocHost(pointer, bytes > 0 ? bytes : 1);
    if (code != 0) {
      return fail(TERN_OUT_OF_HOST_MEMORY,
                  describe_failure(std::to_string(bytes) + " bytes of page-locked memory", code));
    }
    const std::lock_guard lock(shared.mutex);
    shared.host_blocks[*pointer] = bytes;
    return TERN_OK;
  });
}

tern_status host_free(tern_device device, void* pointer) {
  return guarded([&]() -> tern_status {
    Shared& shared = present(device);
    if (pointer == nullptr) return TERN_OK;
    {
      const std::lock_guard lock(shared.mutex);
      shared.host_blocks.erase(pointer);
    }
    check(acl().aclrtFreeHost(pointer), "aclrtFreeHost");
    return TERN_OK;
  });
}

tern_status buffer_native(tern_buffer buffer, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_native: no buffer");
    tern_native filled{};
    filled.device_type = kExtensionDevice;
    filled.device_id = buffer->shared->ordinal;
    filled.handle = reinterpret_cast<std::uintptr_t>(buffer->data);
    return give_info(native, filled);
  });
}

tern_status buffer_adopt(tern_device device, const tern_native* native, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    Shared& shared = present(device);
    tern_native own;
    require(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_native, offset) + sizeof own.offset, native));
    if (own.device_type != kExtensionDevice || own.device_id != shared.ordinal || buffer == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "buffer_adopt: expected memory of npu:" + std::to_string(shared.ordinal) +
                                             " (DLPack's type 12), found type " + std::to_string(own.device_type) +
                                             " of device " + std::to_string(own.device_id));
    }
    const std::uint64_t address = own.handle + own.offset;
    if (address == 0 || address % kAlignment != 0) {
      return fail(TERN_INVALID_ARGUMENT, "buffer_adopt: expected an address that is a multiple of 64");
    }
    auto made = std::make_unique<tern_buffer_s>();
    made->shared = device->shared;
    made->data = reinterpret_cast<std::byte*>(address);
    made->bytes = bytes;
    made->adopted = true;
    *buffer = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::npu
