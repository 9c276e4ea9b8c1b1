#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "backends/cuda/interface.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr std::int32_t kDlpackCuda = 2;

// What another process is given: where to open the memory, and for this one, which can't, where it lies.
struct IpcHandle {
  CUipcMemHandle driver;
  std::uint64_t process[2];
  std::uint64_t bytes;
  CUdeviceptr address;
};
static_assert(sizeof(IpcHandle) <= 128);

// Two random words: ids of processes repeat between containers.
const std::array<std::uint64_t, 2>& this_process() {
  static const std::array<std::uint64_t, 2> words = [] {
    std::random_device random;
    const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
    return std::array<std::uint64_t, 2>{word(), word()};
  }();
  return words;
}

void allocate(Buffer& buffer) {
  if (buffer.bytes == 0) return;
  if (buffer.kind == Buffer::Kind::allocated) {
    take_memory(buffer, buffer.bytes, [&] {
      check(driver().MemAlloc(&buffer.address, buffer.bytes), cat("allocating ", buffer.bytes, " bytes"));
    });
    return;
  }
  buffer.reserved = mapped_bytes(*buffer.state, buffer.bytes);
  take_memory(buffer, buffer.reserved, [&] {
    reserve_address(buffer);
    try {
      map_memory(buffer);
    } catch (...) {
      free_address(buffer);
      throw;
    }
  });
}

void release(Buffer& buffer) {
  const Driver& api = driver();
  switch (buffer.kind) {
    case Buffer::Kind::allocated:
      if (buffer.address != 0) (void)api.MemFree(buffer.address);
      break;
    case Buffer::Kind::reclaimable:
      if (buffer.counted > 0) (void)api.MemUnmap(buffer.address, buffer.reserved);
      if (buffer.address != 0) free_address(buffer);
      break;
    case Buffer::Kind::imported:
      if (buffer.pages != nullptr) (void)api.MemHostUnregister(buffer.pages);
      break;
    case Buffer::Kind::of_other_process:
      (void)api.IpcCloseMemHandle(buffer.address);
      break;
    case Buffer::Kind::adopted:
      break;
  }
  if (buffer.counted == 0) return;
  tern_plugin_return_memory(buffer.budget.get(), buffer.counted);
  tern_plugin_return_memory(&buffer.state->memory, buffer.counted);
}

std::unique_ptr<tern_buffer_s> make_buffer(tern_device device, std::uint64_t bytes, Buffer::Kind kind) {
  auto made = std::make_unique<tern_buffer_s>();
  made->state = device->state;
  made->budget = device->budget;
  made->bytes = bytes;
  made->kind = kind;
  return made;
}

// Pages of the host, which the device may write to where it is allowed to.
void register_pages(void* begin, std::size_t bytes) {
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  const Driver& api = driver();
  if (api.MemHostRegister(begin, bytes, kFlags) == CUDA_SUCCESS) return;
  const CUresult code = api.MemHostRegister(begin, bytes, kFlags | CU_MEMHOSTREGISTER_READ_ONLY);
  if (code != CUDA_SUCCESS) throw Error(TERN_UNSUPPORTED, describe("importing the host's pages", code));
}

}  // namespace

Place find_place(const tern_plane& plane, std::uint64_t bytes, std::string_view what) {
  if (plane.buffer == nullptr) {
    if (bytes == 0) return 0;
    throw Error(TERN_INVALID_ARGUMENT, cat(what, ": it has no buffer"));
  }
  const Buffer& buffer = *plane.buffer;
  if (buffer.evicted) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": its buffer is evicted; restore it first"));
  if (!tern_plugin_in_range(plane.offset, bytes, buffer.bytes)) {
    throw Error(TERN_INVALID_ARGUMENT,
                cat(what, ": ", bytes, " bytes at ", plane.offset, " are not inside of its buffer of ", buffer.bytes));
  }
  return buffer.address + plane.offset;
}

tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_create: no place for the buffer");
    const DeviceState& state = require_present(device);
    const bool reclaimable = (flags & TERN_BUFFER_RECLAIMABLE) != 0;
    const bool shareable = (flags & TERN_BUFFER_SHAREABLE) != 0;
    std::uint32_t known = 0;
    if (state.facts.virtual_memory) known |= TERN_BUFFER_RECLAIMABLE;
    if (!state.facts.host_memory) known |= TERN_BUFFER_SHAREABLE;
    if (missing_nccl().empty()) known |= TERN_BUFFER_COLLECTIVES;  // NCCL takes every buffer as it is
    if ((flags & ~known) != 0) {
      return fail(TERN_UNSUPPORTED, cat("buffer_create: this device makes no buffers with flags ", flags & ~known));
    }
    if (reclaimable && shareable) {
      return fail(TERN_UNSUPPORTED, "buffer_create: a buffer that is shared with others can't be evicted");
    }
    auto made = make_buffer(device, bytes, reclaimable ? Buffer::Kind::reclaimable : Buffer::Kind::allocated);
    made->shareable = shareable;
    allocate(*made);
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status buffer_destroy(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_buffer_s> owner(buffer);
    if (!owner) return TERN_OK;
    (void)driver().CtxSetCurrent(owner->state->context.get());
    release(*owner);
    return TERN_OK;
  });
}

tern_status import_host(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    if (!state.facts.host_memory) return fail(TERN_UNSUPPORTED, "import_host: this device has memory of its own");
    if (buffer == nullptr || (pointer == nullptr && bytes > 0)) {
      return fail(TERN_INVALID_ARGUMENT, "import_host: a null argument");
    }
    auto made = make_buffer(device, bytes, Buffer::Kind::imported);
    if (bytes > 0) {
      const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
      const auto address = reinterpret_cast<std::uintptr_t>(pointer);
      const std::uintptr_t begin = address / page * page;
      const std::uintptr_t end = (address + bytes + page - 1) / page * page;
      void* const pages = static_cast<std::byte*>(pointer) - (address - begin);
      register_pages(pages, end - begin);
      const CUresult code = driver().MemHostGetDevicePointer(&made->address, pages, 0);
      if (code != CUDA_SUCCESS) {
        (void)driver().MemHostUnregister(pages);
        return fail(TERN_UNSUPPORTED, describe("importing the host's pages", code));
      }
      made->pages = pages;
      made->address += address - begin;
    }
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  return guarded([&]() -> tern_status {
    DeviceState& state = require_present(device);
    if (pointer == nullptr) return fail(TERN_INVALID_ARGUMENT, "host_alloc: no place for the pointer");
    void* made = nullptr;
    const std::uint64_t size = std::max<std::uint64_t>(64, bytes);
    const CUresult code = driver().MemHostAlloc(&made, size, CU_MEMHOSTALLOC_PORTABLE);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
      return fail(TERN_OUT_OF_HOST_MEMORY,
                  cat("host_alloc: the host gives no ", bytes, " bytes of page-locked memory; see ulimit -l"));
    }
    check(code, cat("host_alloc of ", bytes, " bytes"));
    const std::lock_guard lock(state.mutex);
    state.host_blocks[static_cast<std::byte*>(made)] = size;
    *pointer = made;
    return TERN_OK;
  });
}

tern_status host_free(tern_device device, void* pointer) {
  return guarded([&]() -> tern_status {
    DeviceState& state = require_present(device);
    if (pointer == nullptr) return TERN_OK;
    const std::lock_guard lock(state.mutex);
    if (state.host_blocks.erase(static_cast<const std::byte*>(pointer)) == 0) {
      return fail(TERN_INVALID_ARGUMENT, "host_free: not a pointer that host_alloc gave");
    }
    check(driver().MemFreeHost(pointer), "freeing host memory");
    return TERN_OK;
  });
}

tern_status ipc_export(tern_buffer buffer, uint8_t handle[128]) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr || handle == nullptr) return fail(TERN_INVALID_ARGUMENT, "ipc_export: a null argument");
    if (buffer->state->facts.host_memory) return fail(TERN_UNSUPPORTED, "ipc_export: this device shares no memory");
    if (!buffer->shareable) {
      return fail(TERN_INVALID_ARGUMENT, "ipc_export: expected a buffer that was made shareable");
    }
    buffer->state->use();
    IpcHandle made{};
    if (buffer->bytes > 0) check(driver().IpcGetMemHandle(&made.driver, buffer->address), "sharing a buffer");
    std::copy(this_process().begin(), this_process().end(), made.process);
    made.bytes = buffer->bytes;
    made.address = buffer->address;
    std::memset(handle, 0, 128);
    std::memcpy(handle, &made, sizeof made);
    return TERN_OK;
  });
}

tern_status ipc_import(tern_device device, const uint8_t handle[128], uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    if (state.facts.host_memory) return fail(TERN_UNSUPPORTED, "ipc_import: this device shares no memory");
    if (handle == nullptr || buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "ipc_import: a null argument");
    IpcHandle given{};
    std::memcpy(&given, handle, sizeof given);
    if (bytes > given.bytes) {
      return fail(TERN_INVALID_ARGUMENT, cat("ipc_import: ", bytes, " bytes asked for, of a buffer of ", given.bytes));
    }
    // A process can't open what it exported itself; there it lies where it always did.
    const bool own = std::equal(this_process().begin(), this_process().end(), given.process);
    auto made = make_buffer(device, bytes, Buffer::Kind::adopted);
    if (own) {
      made->address = given.address;
    } else if (given.bytes > 0) {
      check(driver().IpcOpenMemHandle(&made->address, given.driver, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            "opening another process's buffer");
      made->kind = Buffer::Kind::of_other_process;
    }
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status buffer_native(tern_buffer buffer, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_native: no buffer");
    tern_native filled{};
    filled.device_type = kDlpackCuda;
    filled.device_id = buffer->state->id;
    filled.handle = buffer->address;
    return give_info(native, filled);
  });
}

tern_status buffer_adopt(tern_device device, const tern_native* native, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    tern_native own;
    require(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_native, offset) + sizeof own.offset, native));
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_adopt: no place for the buffer");
    if (own.device_type != kDlpackCuda || own.device_id != state.id) {
      return fail(TERN_INVALID_ARGUMENT, cat("buffer_adopt: expected memory of CUDA's device ", state.id,
                                             ", found device type ", own.device_type, ", device ", own.device_id));
    }
    if (own.handle == 0 && bytes > 0) return fail(TERN_INVALID_ARGUMENT, "buffer_adopt: the memory has no address");
    auto made = make_buffer(device, bytes, Buffer::Kind::adopted);
    made->address = own.handle + own.offset;
    *buffer = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::cuda
