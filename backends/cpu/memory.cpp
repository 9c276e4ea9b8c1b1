#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/interface.h"
#include "backends/cpu/runtime.h"
#include "backends/cpu/system.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::int32_t kHostDevice = 1;  // DLPack's kDLCPU
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
// From here on it is asked whether the memory is there: the kernel would promise it and kill the process later.
constexpr std::uint64_t kAskFrom = std::uint64_t{64} << 20;

// Whether the system has that many bytes; if not, the reason is remembered.
bool is_there(std::uint64_t bytes) {
  if (bytes < kAskFrom) return true;
  const auto system = system_memory();
  if (bytes <= system.free) return true;
  fail(TERN_OUT_OF_MEMORY, cat("cpu: ", human_bytes(bytes), " asked for, ", human_bytes(system.free), " of ",
                               human_bytes(system.total), " free"));
  return false;
}

bool is_size(std::uint64_t bytes) {
  if (bytes <= UINT64_MAX - 2 * kHugePage) return true;
  fail(TERN_OUT_OF_MEMORY, cat(bytes, " bytes are more than any machine has"));
  return false;
}

void advise(void* data, std::uint64_t bytes) {
#if defined(MADV_HUGEPAGE)
  if (bytes >= kHugePage) (void)madvise(data, bytes, MADV_HUGEPAGE);  // advice: no harm if it is not taken
#endif
}

std::byte* refuse(std::uint64_t bytes) {
  fail(TERN_OUT_OF_MEMORY, cat("cpu: ", human_bytes(bytes), " asked for, and the system has none to give"));
  return nullptr;
}

// Null where the memory cannot be had, with the reason remembered.
std::byte* allocate(std::uint64_t bytes, std::uint64_t& reserved) {
  const std::uint64_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  if (!is_size(bytes)) return nullptr;
  reserved = (std::max<std::uint64_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  if (!is_there(reserved)) return nullptr;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, reserved) != 0) return refuse(bytes);
  advise(data, reserved);
  return static_cast<std::byte*>(data);
}

// The same in pages of its own, which can be given back one by one.
std::byte* map_pages(std::uint64_t bytes, std::uint64_t& reserved) {
  if (!is_size(bytes)) return nullptr;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  reserved = (std::max<std::uint64_t>(bytes, 1) + page - 1) / page * page;
  if (!is_there(reserved)) return nullptr;
  void* data = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return refuse(bytes);
  advise(data, reserved);
  return static_cast<std::byte*>(data);
}

// Counts a buffer's memory against the limit of its handle and as this process's.
tern_status take(Buffer& buffer) {
  const tern_status status = tern_plugin_take_memory(buffer.budget.get(), buffer.reserved);
  if (status == TERN_OK) memory().add(buffer.reserved);
  return status;
}

void give(Buffer& buffer) {
  tern_plugin_return_memory(buffer.budget.get(), buffer.reserved);
  memory().remove(buffer.reserved);
}

void release(Buffer& buffer) {
  if (buffer.reclaimable) {
    (void)munmap(buffer.data, buffer.reserved);
  } else {
    std::free(buffer.data);
  }
}

void require_reclaimable(tern_buffer buffer, const char* what) {
  if (buffer == nullptr || !buffer->reclaimable) {
    throw tern_plugin::Error(TERN_INVALID_ARGUMENT, cat(what, ": expected a buffer that was made reclaimable"));
  }
}

}  // namespace

Memory& memory() {
  static Memory instance;
  return instance;
}

void Memory::add(std::uint64_t bytes) {
  const std::lock_guard lock(mutex);
  in_use += bytes;
  peak = std::max(peak, in_use);
}

void Memory::remove(std::uint64_t bytes) {
  const std::lock_guard lock(mutex);
  in_use -= bytes;
}

tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_create: no place for the buffer");
    require_present(device);
    if ((flags & ~std::uint32_t{TERN_BUFFER_RECLAIMABLE}) != 0) {
      return fail(TERN_UNSUPPORTED, cat("buffer_create: the cpu device makes reclaimable buffers, and none with flags ",
                                        flags & ~std::uint32_t{TERN_BUFFER_RECLAIMABLE}));
    }
    auto made = std::make_unique<tern_buffer_s>();
    made->reclaimable = (flags & TERN_BUFFER_RECLAIMABLE) != 0;
    made->data = made->reclaimable ? map_pages(bytes, made->reserved) : allocate(bytes, made->reserved);
    if (made->data == nullptr) return TERN_OUT_OF_MEMORY;
    made->bytes = bytes;
    made->budget = device->budget;
    if (const tern_status status = take(*made); status != TERN_OK) {
      release(*made);
      return status;
    }
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status buffer_destroy(tern_buffer buffer) {
  const std::unique_ptr<tern_buffer_s> owner(buffer);
  if (!owner || owner->reserved == 0) return TERN_OK;  // not ours to free
  release(*owner);
  if (!owner->evicted) give(*owner);
  return TERN_OK;
}

tern_status buffer_evict(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    require_reclaimable(buffer, "buffer_evict");
    if (buffer->evicted) return TERN_OK;
    // What still touches it is told so at once, and gets nothing.
    if (madvise(buffer->data, buffer->reserved, MADV_DONTNEED) != 0 ||
        mprotect(buffer->data, buffer->reserved, PROT_NONE) != 0) {
      return fail(TERN_INTERNAL, cat("buffer_evict: ", std::strerror(errno)));
    }
    buffer->evicted = true;
    give(*buffer);
    return TERN_OK;
  });
}

tern_status buffer_restore(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    require_reclaimable(buffer, "buffer_restore");
    if (!buffer->evicted) return TERN_OK;
    if (!is_there(buffer->reserved)) return TERN_OUT_OF_MEMORY;
    require(take(*buffer));
    if (mprotect(buffer->data, buffer->reserved, PROT_READ | PROT_WRITE) != 0) {
      give(*buffer);
      return fail(TERN_OUT_OF_MEMORY, cat("buffer_restore: ", std::strerror(errno)));
    }
    buffer->evicted = false;
    return TERN_OK;
  });
}

tern_status buffer_native(tern_buffer buffer, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_native: no buffer");
    tern_native filled{};
    filled.device_type = kHostDevice;
    filled.handle = reinterpret_cast<std::uintptr_t>(buffer->data);
    return give_info(native, filled);
  });
}

tern_status buffer_adopt(tern_device device, const tern_native* native, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    tern_native own{};
    require(tern_plugin_take_struct(&own, sizeof own, sizeof own, native));
    require_present(device);
    if (own.device_type != kHostDevice || own.device_id != 0) {
      return fail(TERN_INVALID_ARGUMENT, cat("buffer_adopt: expected host memory, device 0 of type 1, found device ",
                                             own.device_id, " of type ", own.device_type));
    }
    return import_host(device, reinterpret_cast<void*>(static_cast<std::uintptr_t>(own.handle + own.offset)), bytes,
                       buffer);
  });
}

tern_status buffer_host_pointer(tern_buffer buffer, void** pointer) {
  if (buffer == nullptr || pointer == nullptr)
    return fail(TERN_INVALID_ARGUMENT, "buffer_host_pointer: a null argument");
  *pointer = buffer->data;
  return TERN_OK;
}

tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || pointer == nullptr) return fail(TERN_INVALID_ARGUMENT, "host_alloc: a null argument");
    require_present(device);
    std::uint64_t reserved = 0;
    const std::lock_guard lock(device->mutex);
    device->host_blocks.reserve(device->host_blocks.size() + 1);
    std::byte* data = allocate(bytes, reserved);
    if (data == nullptr) return TERN_OUT_OF_HOST_MEMORY;
    device->host_blocks.push_back(data);
    *pointer = data;
    return TERN_OK;
  });
}

tern_status host_free(tern_device device, void* pointer) {
  return guarded([&]() -> tern_status {
    require_present(device);
    if (pointer == nullptr) return TERN_OK;
    const std::lock_guard lock(device->mutex);
    auto& blocks = device->host_blocks;
    const auto found = std::find(blocks.begin(), blocks.end(), pointer);
    if (found == blocks.end()) return fail(TERN_INVALID_ARGUMENT, "host_free: not a pointer that host_alloc gave");
    blocks.erase(found);
    std::free(pointer);
    return TERN_OK;
  });
}

tern_status import_host(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || buffer == nullptr || (pointer == nullptr && bytes > 0)) {
      return fail(TERN_INVALID_ARGUMENT, "import_host: a null argument");
    }
    require_present(device);
    auto made = std::make_unique<tern_buffer_s>();
    made->data = static_cast<std::byte*>(pointer);
    made->bytes = bytes;
    *buffer = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::cpu
