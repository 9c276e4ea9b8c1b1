// Buffers that give their memory back and keep their address: addresses are reserved apart from the memory behind them.
#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

aclrtPhysicalMemProp physical_memory(const Shared& shared) {
  aclrtPhysicalMemProp prop{};
  prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  prop.memAttr = ACL_HBM_MEM_HUGE;
  prop.location.id = static_cast<std::uint32_t>(shared.ordinal);
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

// Memory behind the buffer's address, counted as this process's. Throws where there's none left.
void map_memory(Buffer& buffer) {
  const Acl& api = acl();
  Shared& shared = *buffer.shared;
  require(tern_plugin_take_memory(&shared.memory, buffer.reserved));
  const aclrtPhysicalMemProp prop = physical_memory(shared);
  int code = api.aclrtMallocPhysical(&buffer.physical, buffer.reserved, &prop, 0);
  if (code == 0) {
    code = api.aclrtMapMem(buffer.data, buffer.reserved, 0, buffer.physical, 0);
    if (code != 0) (void)api.aclrtFreePhysical(buffer.physical);
  }
  if (code == 0) return;
  buffer.physical = nullptr;
  tern_plugin_return_memory(&shared.memory, buffer.reserved);
  const tern_status status = status_of(code);
  throw Error(status == TERN_INTERNAL ? TERN_OUT_OF_MEMORY : status,
              describe_failure(std::to_string(buffer.reserved) + " bytes of device memory", code));
}

void unmap_memory(Buffer& buffer) {
  if (buffer.physical == nullptr) return;
  const Acl& api = acl();
  check(api.aclrtUnmapMem(buffer.data), "aclrtUnmapMem");
  check(api.aclrtFreePhysical(buffer.physical), "aclrtFreePhysical");
  buffer.physical = nullptr;
  tern_plugin_return_memory(&buffer.shared->memory, buffer.reserved);
}

void require_reclaimable(const Buffer* buffer, const char* what) {
  if (buffer != nullptr && buffer->reserved > 0) return;
  if (buffer != nullptr && !can_evict(*buffer->shared->chip)) {
    throw Error(TERN_UNSUPPORTED, std::string(what) + ": this device has no reclaimable buffers");
  }
  throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": the buffer wasn't made reclaimable");
}

}  // namespace

bool can_evict(const Chip& chip) {
  std::string why;
  const Acl* api = acl(why);
  if (api == nullptr) return chip.has_hbm();
  return chip.has_hbm() && api->aclrtReserveMemAddress != nullptr && api->aclrtReleaseMemAddress != nullptr &&
         api->aclrtMallocPhysical != nullptr && api->aclrtFreePhysical != nullptr && api->aclrtMapMem != nullptr &&
         api->aclrtUnmapMem != nullptr && api->aclrtMemGetAllocationGranularity != nullptr;
}

void make_reclaimable(Buffer& buffer, std::uint64_t bytes) {
  const Acl& api = acl();
  aclrtPhysicalMemProp prop = physical_memory(*buffer.shared);
  std::size_t piece = 0;
  check(api.aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &piece),
        "aclrtMemGetAllocationGranularity");
  const std::uint64_t wanted = taken_bytes(bytes);
  if (wanted > buffer.shared->memory.total) require(tern_plugin_take_memory(&buffer.shared->memory, wanted));
  buffer.reserved = (wanted + piece - 1) / piece * piece;
  void* address = nullptr;
  check(api.aclrtReserveMemAddress(&address, buffer.reserved, 0, nullptr, 1), "aclrtReserveMemAddress");
  buffer.data = static_cast<std::byte*>(address);
  try {
    map_memory(buffer);
  } catch (...) {
    (void)api.aclrtReleaseMemAddress(address);
    throw;
  }
}

void release_reclaimable(Buffer& buffer) {
  unmap_memory(buffer);
  check(acl().aclrtReleaseMemAddress(buffer.data), "aclrtReleaseMemAddress");
}

tern_status buffer_evict(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    require_reclaimable(buffer, "buffer_evict");
    buffer->shared->use();
    unmap_memory(*buffer);
    return TERN_OK;
  });
}

tern_status buffer_restore(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    require_reclaimable(buffer, "buffer_restore");
    buffer->shared->use();
    if (buffer->physical == nullptr) map_memory(*buffer);
    return TERN_OK;
  });
}

}  // namespace tern::npu
