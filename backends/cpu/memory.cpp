#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "backends/cpu/interface.h"
#include "backends/cpu/runtime.h"
#include "backends/cpu/system.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
// From here on it is asked whether the memory is there: the kernel would promise it and kill the process later.
constexpr std::uint64_t kAskFrom = std::uint64_t{64} << 20;

// Null where the memory cannot be had, with the reason remembered.
std::byte* allocate(std::uint64_t bytes, std::uint64_t& reserved) {
  const std::uint64_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  if (bytes > UINT64_MAX - 2 * kHugePage) {
    fail(TERN_OUT_OF_MEMORY, cat(bytes, " bytes are more than any machine has"));
    return nullptr;
  }
  reserved = (std::max<std::uint64_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  if (reserved >= kAskFrom) {
    const auto system = system_memory();
    if (reserved > system.free) {
      fail(TERN_OUT_OF_MEMORY, cat("cpu: ", human_bytes(bytes), " asked for, ", human_bytes(system.free), " of ",
                                   human_bytes(system.total), " free"));
      return nullptr;
    }
  }
  void* data = nullptr;
  if (posix_memalign(&data, alignment, reserved) != 0) {
    fail(TERN_OUT_OF_MEMORY, cat("cpu: ", human_bytes(bytes), " asked for, and the system has none to give"));
    return nullptr;
  }
#if defined(MADV_HUGEPAGE)
  if (alignment == kHugePage) (void)madvise(data, reserved, MADV_HUGEPAGE);  // advice: no harm if it is not taken
#endif
  return static_cast<std::byte*>(data);
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
    if (flags != 0) return fail(TERN_UNSUPPORTED, cat("buffer_create: flags ", flags, " are unknown"));
    if (device == nullptr || buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_create: a null argument");
    auto made = std::make_unique<tern_buffer_s>();
    made->data = allocate(bytes, made->reserved);
    if (made->data == nullptr) return TERN_OUT_OF_MEMORY;
    made->bytes = bytes;
    memory().add(made->reserved);
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status buffer_destroy(tern_buffer buffer) {
  const std::unique_ptr<tern_buffer_s> owner(buffer);
  if (!owner || owner->reserved == 0) return TERN_OK;  // imported: not ours to free
  std::free(owner->data);
  memory().remove(owner->reserved);
  return TERN_OK;
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
    std::uint64_t reserved = 0;
    const std::lock_guard lock(device->mutex);
    device->host_blocks.reserve(device->host_blocks.size() + 1);
    std::byte* data = allocate(bytes, reserved);
    if (data == nullptr) return TERN_OUT_OF_HOST_MEMORY;
    device->host_blocks.emplace_back(data, reserved);
    memory().add(reserved);
    *pointer = data;
    return TERN_OK;
  });
}

tern_status host_free(tern_device device, void* pointer) {
  return guarded([&]() -> tern_status {
    if (device == nullptr) return fail(TERN_INVALID_ARGUMENT, "host_free: no device");
    if (pointer == nullptr) return TERN_OK;
    const std::lock_guard lock(device->mutex);
    auto& blocks = device->host_blocks;
    const auto found =
        std::find_if(blocks.begin(), blocks.end(), [&](const auto& block) { return block.first == pointer; });
    if (found == blocks.end()) return fail(TERN_INVALID_ARGUMENT, "host_free: not a pointer that host_alloc gave");
    memory().remove(found->second);
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
    auto made = std::make_unique<tern_buffer_s>();
    made->data = static_cast<std::byte*>(pointer);
    made->bytes = bytes;
    *buffer = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::cpu
