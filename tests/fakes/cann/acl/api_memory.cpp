// libascendcl's functions about memory.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "backends/npu/cann/runtime.h"
#include "tests/fakes/cann/acl/process.h"

using fake::guarded;
using fake::process;
using fake::refuse;

namespace {

void need(const void* argument, const char* name) {
  if (argument == nullptr) refuse(ACL_ERROR_INVALID_PARAM, std::string("[Check][") + name + "]param must not be null.");
}

bool on_device(const void* address) { return fake::device_holding(address) != nullptr; }

struct Copy {
  void* to;
  std::size_t room;
  const void* from;
  std::size_t count;
  aclrtMemcpyKind kind;
};

// rt: the kind must tell where the two addresses are, and the count must fit.
void check(Copy& copy) {
  need(copy.to, "dst");
  need(copy.from, "src");
  if (copy.count == 0 || copy.count > copy.room) {
    refuse(ACL_ERROR_RT_PARAM_INVALID, "The count " + std::to_string(copy.count) + " must be in (0, " +
                                           std::to_string(copy.room) + "], the room behind dst.");
  }
  const bool to_device = on_device(copy.to), from_device = on_device(copy.from);
  if (copy.kind == ACL_MEMCPY_DEFAULT) {
    copy.kind = to_device ? (from_device ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_HOST_TO_DEVICE)
                          : (from_device ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_HOST);
  }
  const bool wants_to = copy.kind == ACL_MEMCPY_HOST_TO_DEVICE || copy.kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  const bool wants_from = copy.kind == ACL_MEMCPY_DEVICE_TO_HOST || copy.kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  if (copy.kind < ACL_MEMCPY_HOST_TO_HOST || copy.kind > ACL_MEMCPY_DEFAULT || wants_to != to_device ||
      wants_from != from_device) {
    refuse(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "The kind of the copy doesn't tell where its addresses are.");
  }
  if (to_device && from_device) {
    const fake::Device* to = fake::device_holding(copy.to);
    const fake::Device* from = fake::device_holding(copy.from);
    if (to != from && !to->peers.contains(from->number) && !from->peers.contains(to->number)) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "Neither device may reach the other's memory (aclrtDeviceEnablePeerAccess).");
    }
  }
}

// The host's side of a copy that was pinned when it was launched must be so still.
struct Pinned {
  bool to = false, from = false;
};

void move(const Copy& copy, Pinned pinned = {}) {
  if ((pinned.to && !fake::is_pinned(copy.to, copy.count)) ||
      (pinned.from && !fake::is_pinned(copy.from, copy.count))) {
    refuse(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "Pinned memory was freed before its copy was done.");
  }
  void* to = on_device(copy.to) ? fake::device_view(copy.to, copy.count) : static_cast<std::byte*>(copy.to);
  const void* from =
      on_device(copy.from) ? fake::device_view(copy.from, copy.count) : static_cast<const std::byte*>(copy.from);
  std::memmove(to, from, copy.count);
}

void check_fill(const void* to, std::size_t room, std::size_t count) {
  need(to, "devPtr");
  if (count > room) refuse(ACL_ERROR_RT_PARAM_INVALID, "The count is more than the room behind devPtr.");
  if (!on_device(to)) refuse(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "The address isn't the device's.");
}

fake::Device& reserved_on(const void* address) {
  fake::Device* device = fake::device_holding(address);
  if (device == nullptr) refuse(ACL_ERROR_RT_PARAM_INVALID, "The address wasn't reserved.");
  return *device;
}

fake::Physical physical_of(aclrtDrvMemHandle handle) {
  const std::lock_guard lock(process().mutex);
  const auto found = process().physical.find(handle);
  if (found == process().physical.end()) refuse(ACL_ERROR_RT_PARAM_INVALID, "The handle is no memory.");
  return *found->second;
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void** address, std::size_t size, aclrtMemMallocPolicy policy) {
  return guarded("aclrtMalloc", [&] {
    need(address, "devPtr");
    if (size == 0) refuse(ACL_ERROR_INVALID_PARAM, "malloc size must be greater than zero.");
    if (policy < 0 || (policy & 0xFF) > ACL_MEM_MALLOC_NORMAL_ONLY_P2P) {
      refuse(ACL_ERROR_INVALID_PARAM, "The policy is none.");
    }
    *address = fake::current_device().memory.allocate(size);
    if (*address == nullptr) {
      refuse(ACL_ERROR_RT_MEMORY_ALLOCATION,
             "Failed to allocate memory: rtMalloc of " + std::to_string(size) + " bytes.");
    }
  });
}

aclError aclrtFree(void* address) {
  return guarded("aclrtFree", [&] {
    need(address, "devPtr");
    fake::Device* device = fake::device_holding(address);
    if (device == nullptr || !device->memory.release(address)) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "No memory of aclrtMalloc begins at the address.");
    }
  });
}

aclError aclrtMallocHost(void** address, std::size_t size) {
  return guarded("aclrtMallocHost", [&] {
    need(address, "hostPtr");
    if (size == 0) refuse(ACL_ERROR_INVALID_PARAM, "malloc size must be greater than zero.");
    (void)fake::current_device();
    *address = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (*address == nullptr) refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "The host has no memory left.");
    const std::lock_guard lock(process().mutex);
    process().pinned[static_cast<std::byte*>(*address)] = size;
  });
}

aclError aclrtFreeHost(void* address) {
  return guarded("aclrtFreeHost", [&] {
    need(address, "hostPtr");
    const std::lock_guard lock(process().mutex);
    if (process().pinned.erase(static_cast<std::byte*>(address)) == 0) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "No memory of aclrtMallocHost begins at the address.");
    }
    std::free(address);
  });
}

aclError aclrtHostRegister(void* address, std::uint64_t size, aclrtHostRegisterType type, void** device) {
  return guarded("aclrtHostRegister", [&] {
    need(address, "ptr");
    need(device, "devPtr");
    // rt: A2 A3 A5; whole pages of 4 KiB.
    if (fake::chip().family == fake::Family::k910 || fake::chip().family == fake::Family::k310P) {
      refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "The chip can't reach the host's memory.");
    }
    if (type != ACL_HOST_REGISTER_MAPPED || size == 0 || size % 4096 != 0 ||
        reinterpret_cast<std::uintptr_t>(address) % 4096 != 0) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The memory must be whole pages of 4096 bytes.");
    }
    (void)fake::current_device();
    void* seen = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (seen == MAP_FAILED) refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "There are no addresses left.");
    const std::lock_guard lock(process().mutex);
    process().mapped[static_cast<std::byte*>(seen)] = {static_cast<std::byte*>(address), size};
    *device = seen;
  });
}

aclError aclrtHostUnregister(void* address) {
  return guarded("aclrtHostUnregister", [&] {
    need(address, "ptr");
    const std::lock_guard lock(process().mutex);
    for (auto it = process().mapped.begin(); it != process().mapped.end(); ++it) {
      if (it->second.first != address) continue;
      munmap(it->first, it->second.second);
      process().mapped.erase(it);
      return;
    }
    refuse(ACL_ERROR_RT_PARAM_INVALID, "The memory isn't registered.");
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, std::size_t* free, std::size_t* total) {
  return guarded("aclrtGetMemInfo", [&] {
    need(free, "free");
    need(total, "total");
    fake::DeviceMemory& memory = fake::current_device().memory;
    // 910, A2, A3 and A5 have HBM, 310P has DDR: the other kind is none.
    const bool ddr = attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL;
    const bool has_ddr = fake::chip().family == fake::Family::k310P;
    *free = ddr == has_ddr ? memory.free_bytes() : 0;
    *total = ddr == has_ddr ? memory.total() : 0;
  });
}

aclError aclrtMemset(void* address, std::size_t room, std::int32_t value, std::size_t count) {
  return guarded("aclrtMemset", [&] {
    fake::forbid_in_capture("aclrtMemset");
    check_fill(address, room, count);
    std::memset(fake::device_view(address, count), value, count);
  });
}

aclError aclrtMemsetAsync(void* address, std::size_t room, std::int32_t value, std::size_t count, aclrtStream handle) {
  return guarded("aclrtMemsetAsync", [&] {
    check_fill(address, room, count);
    fake::launch(fake::stream_of(handle), {fake::TaskKind::kFill, "aclrtMemsetAsync", [=] {
                                             std::memset(fake::device_view(address, count), value, count);
                                             return 0;
                                           }});
  });
}

aclError aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t count, aclrtMemcpyKind kind) {
  return guarded("aclrtMemcpy", [&] {
    (void)fake::current_device();
    fake::forbid_in_capture("aclrtMemcpy");
    Copy copy{to, room, from, count, kind};
    check(copy);
    move(copy);  // at once: it isn't ordered with what streams still do
  });
}

aclError aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t count, aclrtMemcpyKind kind,
                          aclrtStream handle) {
  return guarded("aclrtMemcpyAsync", [&] {
    fake::Stream& stream = fake::stream_of(handle);
    Copy copy{to, room, from, count, kind};
    check(copy);
    if (copy.kind == ACL_MEMCPY_HOST_TO_HOST) {
      refuse(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "Copies within the host aren't asynchronous.");
    }
    const bool from_pageable = !on_device(from) && !fake::is_pinned(from, count);
    const bool to_pageable = !on_device(to) && !fake::is_pinned(to, count);
    if (from_pageable || to_pageable) {
      // rt: memory that isn't pinned makes the copy synchronous.
      fake::forbid_in_capture("aclrtMemcpyAsync of memory that isn't pinned", ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
    }
    if (from_pageable && stream.capture == nullptr) {
      auto staged = std::make_shared<std::vector<std::byte>>(count);
      std::memcpy(staged->data(), from, count);
      fake::launch(stream, {fake::TaskKind::kCopy, "aclrtMemcpyAsync", [=] {
                              std::memcpy(fake::device_view(to, count), staged->data(), count);
                              return 0;
                            }});
      return;
    }
    fake::launch(stream, {fake::TaskKind::kCopy, "aclrtMemcpyAsync",
                          [copy, pinned = Pinned{!on_device(to) && !to_pageable, !on_device(from) && !from_pageable}] {
                            move(copy, pinned);
                            return 0;
                          }});
    if (to_pageable && stream.capture == nullptr) {
      stream.wait();
      if (stream.device.error != 0) refuse(stream.device.error, fake::take_device_failure());
    }
  });
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option,
                                          std::size_t* granularity) {
  return guarded("aclrtMemGetAllocationGranularity", [&] {
    need(prop, "prop");
    need(granularity, "granularity");
    if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The option is none.");
    }
    *granularity = std::size_t{2} << 20;
  });
}

aclError aclrtReserveMemAddress(void** address, std::size_t size, std::size_t alignment, void* expected,
                                std::uint64_t flags) {
  return guarded("aclrtReserveMemAddress", [&] {
    need(address, "virPtr");
    // rt: alignment 0, no expected address; the flag says 2 MB pages.
    if (size == 0 || alignment != 0 || expected != nullptr || flags > 1) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The alignment must be 0, the address null, the flags 0 or 1.");
    }
    *address = fake::current_device().memory.reserve(size);
    if (*address == nullptr) refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "There are no addresses left.");
  });
}

aclError aclrtReleaseMemAddress(void* address) {
  return guarded("aclrtReleaseMemAddress", [&] {
    if (!reserved_on(address).memory.unreserve(address)) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "No reserved range begins at the address, or memory is mapped in it.");
    }
  });
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, std::size_t size, const aclrtPhysicalMemProp* prop,
                             std::uint64_t flags) {
  return guarded("aclrtMallocPhysical", [&] {
    need(handle, "handle");
    need(prop, "prop");
    if (size == 0 || size % (std::size_t{2} << 20) != 0 || flags != 0 || prop->handleType != ACL_MEM_HANDLE_TYPE_NONE ||
        prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The size must be whole pages of 2 MiB, and the memory a device's.");
    }
    if (prop->location.id >= process().devices.size())
      refuse(ACL_ERROR_RT_INVALID_DEVICEID, "There is no such device.");
    fake::DeviceMemory& memory = process().devices[prop->location.id]->memory;
    const std::uint64_t place = memory.allocate_physical(size);
    if (place == 0) refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate memory: the device has none left.");
    auto physical = std::make_unique<fake::Physical>(fake::Physical{&memory, place});
    const std::lock_guard lock(process().mutex);
    *handle = physical.get();
    process().physical[*handle] = std::move(physical);
  });
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return guarded("aclrtFreePhysical", [&] {
    need(handle, "handle");
    const fake::Physical physical = physical_of(handle);
    if (!physical.memory->free_physical(physical.place))
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The memory is still mapped.");
    const std::lock_guard lock(process().mutex);
    process().physical.erase(handle);
  });
}

aclError aclrtMapMem(void* address, std::size_t size, std::size_t offset, aclrtDrvMemHandle handle,
                     std::uint64_t flags) {
  return guarded("aclrtMapMem", [&] {
    const fake::Physical physical = physical_of(handle);
    if (offset != 0 || flags != 0 || &reserved_on(address).memory != physical.memory ||
        !physical.memory->map(address, size, physical.place)) {
      refuse(ACL_ERROR_RT_PARAM_INVALID,
             "The range isn't reserved or is mapped, or the size isn't that of the memory.");
    }
  });
}

aclError aclrtUnmapMem(void* address) {
  return guarded("aclrtUnmapMem", [&] {
    if (!reserved_on(address).memory.unmap(address))
      refuse(ACL_ERROR_RT_PARAM_INVALID, "Nothing is mapped at the address.");
  });
}
}
