#include <unistd.h>

#include <algorithm>

#include "backends/opencl/interface.h"
#include "backends/opencl/runtime.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

// Counts a buffer's memory against the limit of its handle and as this process's, and allocates it.
void take(Buffer& buffer) {
  DeviceState& state = *buffer.state;
  if (buffer.bytes == 0) return;
  if (buffer.bytes > state.facts.largest_allocation) {
    throw Error(TERN_OUT_OF_MEMORY, cat(buffer.bytes, " bytes asked for; ", state.facts.name, " allocates at most ",
                                        state.facts.largest_allocation, " at once"));
  }
  require(tern_plugin_take_memory(buffer.budget.get(), buffer.bytes));
  const tern_status taken = tern_plugin_take_memory(&state.memory, buffer.bytes);
  cl_int code = CL_SUCCESS;
  if (taken == TERN_OK) {
    buffer.memory.reset(cl().CreateBuffer(state.context.get(), CL_MEM_READ_WRITE, buffer.bytes, nullptr, &code));
    if (code != CL_SUCCESS) tern_plugin_return_memory(&state.memory, buffer.bytes);
  }
  if (taken != TERN_OK || code != CL_SUCCESS) tern_plugin_return_memory(buffer.budget.get(), buffer.bytes);
  require(taken);
  if (code == CL_OUT_OF_HOST_MEMORY) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;  // drivers mean the same by it
  check(code, cat("allocating ", buffer.bytes, " bytes"));
  buffer.counted = buffer.bytes;
}

void give(Buffer& buffer) {
  buffer.memory.reset();
  if (buffer.counted == 0) return;
  tern_plugin_return_memory(buffer.budget.get(), buffer.counted);
  tern_plugin_return_memory(&buffer.state->memory, buffer.counted);
  buffer.counted = 0;
}

void require_reclaimable(tern_buffer buffer, const char* what) {
  if (buffer == nullptr || !buffer->reclaimable) {
    throw Error(TERN_INVALID_ARGUMENT, cat(what, ": expected a buffer that was made reclaimable"));
  }
}

}  // namespace

Place find_place(const tern_plane& plane, std::uint64_t bytes, std::string_view what) {
  if (plane.buffer == nullptr) {
    if (bytes == 0) return {};
    throw Error(TERN_INVALID_ARGUMENT, cat(what, ": it has no buffer"));
  }
  const Buffer& buffer = *plane.buffer;
  if (buffer.evicted) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": its buffer is evicted; restore it first"));
  if (!tern_plugin_in_range(plane.offset, bytes, buffer.bytes)) {
    throw Error(TERN_INVALID_ARGUMENT,
                cat(what, ": ", bytes, " bytes at ", plane.offset, " are not inside of its buffer of ", buffer.bytes));
  }
  return {buffer.memory.get(), buffer.begin + plane.offset};
}

tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    if (buffer == nullptr) return fail(TERN_INVALID_ARGUMENT, "buffer_create: no place for the buffer");
    (void)require_present(device);
    if ((flags & ~std::uint32_t{TERN_BUFFER_RECLAIMABLE}) != 0) {
      return fail(TERN_UNSUPPORTED, cat("buffer_create: OpenCL devices make reclaimable buffers, and none with flags ",
                                        flags & ~std::uint32_t{TERN_BUFFER_RECLAIMABLE}));
    }
    auto made = std::make_unique<tern_buffer_s>();
    made->state = device->state;
    made->budget = device->budget;
    made->bytes = bytes;
    made->reclaimable = (flags & TERN_BUFFER_RECLAIMABLE) != 0;
    take(*made);
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status buffer_destroy(tern_buffer buffer) {
  const std::unique_ptr<tern_buffer_s> owner(buffer);
  if (owner) give(*owner);
  return TERN_OK;
}

// A launch asks its buffers for their memory, so the address that's kept is the buffer itself.
tern_status buffer_evict(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    require_reclaimable(buffer, "buffer_evict");
    if (buffer->evicted) return TERN_OK;
    give(*buffer);
    buffer->evicted = true;
    return TERN_OK;
  });
}

tern_status buffer_restore(tern_buffer buffer) {
  return guarded([&]() -> tern_status {
    require_reclaimable(buffer, "buffer_restore");
    if (!buffer->evicted) return TERN_OK;
    take(*buffer);
    buffer->evicted = false;
    return TERN_OK;
  });
}

tern_status import_host(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    if (!state.facts.host_memory) {
      return fail(TERN_UNSUPPORTED, "import_host: this device has memory of its own");
    }
    if (buffer == nullptr || (pointer == nullptr && bytes > 0)) {
      return fail(TERN_INVALID_ARGUMENT, "import_host: a null argument");
    }
    auto made = std::make_unique<tern_buffer_s>();
    made->state = device->state;
    made->bytes = bytes;
    if (bytes > 0) {  // whole pages: drivers copy what begins or ends inside of one
      const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
      const auto address = reinterpret_cast<std::uintptr_t>(pointer);
      const std::uintptr_t begin = address / page * page;
      const std::uintptr_t end = (address + bytes + page - 1) / page * page;
      cl_int code = CL_SUCCESS;
      made->begin = address - begin;
      made->memory.reset(cl().CreateBuffer(state.context.get(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, end - begin,
                                           reinterpret_cast<void*>(begin), &code));
      check(code, "importing the host's pages");
    }
    *buffer = made.release();
    return TERN_OK;
  });
}

tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  return guarded([&]() -> tern_status {
    DeviceState& state = require_present(device);
    if (pointer == nullptr) return fail(TERN_INVALID_ARGUMENT, "host_alloc: no place for the pointer");
    const std::uint64_t size = std::max<std::uint64_t>(64, bytes);
    cl_int code = CL_SUCCESS;
    OwnedMemory memory(
        cl().CreateBuffer(state.context.get(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, nullptr, &code));
    if (code != CL_SUCCESS) {
      return fail(TERN_OUT_OF_HOST_MEMORY,
                  cat("host_alloc: the driver gives no ", bytes, " bytes of host memory (", error_name(code), ")"));
    }
    void* const mapped = cl().EnqueueMapBuffer(state.own_queue.get(), memory.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                               0, size, 0, nullptr, nullptr, &code);
    check(code, "mapping host memory");
    const std::lock_guard lock(state.mutex);
    state.host_blocks[mapped] = {std::move(memory), size};
    *pointer = mapped;
    return TERN_OK;
  });
}

tern_status host_free(tern_device device, void* pointer) {
  return guarded([&]() -> tern_status {
    DeviceState& state = require_present(device);
    if (pointer == nullptr) return TERN_OK;
    const std::lock_guard lock(state.mutex);
    const auto found = state.host_blocks.find(pointer);
    if (found == state.host_blocks.end()) {
      return fail(TERN_INVALID_ARGUMENT, "host_free: not a pointer that host_alloc gave");
    }
    const cl_mem memory = found->second.first.get();
    check(cl().EnqueueUnmapMemObject(state.own_queue.get(), memory, pointer, 0, nullptr, nullptr),
          "freeing host memory");
    check(cl().Finish(state.own_queue.get()), "freeing host memory");
    state.host_blocks.erase(found);
    return TERN_OK;
  });
}

}  // namespace tern::opencl
