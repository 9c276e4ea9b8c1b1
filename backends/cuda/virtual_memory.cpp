// Buffers that give their memory back and keep their address: addresses are reserved apart from the memory behind them.
#include <algorithm>

#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

CUmemAllocationProp memory_of(const DeviceState& state) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, state.id};
  return prop;
}

// The device itself and its peers, which copy from it.
std::vector<CUmemAccessDesc> readers(const DeviceState& state) {
  std::vector<CUmemAccessDesc> list = {{{CU_MEM_LOCATION_TYPE_DEVICE, state.id}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  const auto& devices = found_devices().devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if ((state.facts.peer_mask >> i & 1U) == 0) continue;
    list.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, devices[i].device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  return list;
}

Buffer& require_reclaimable(tern_buffer buffer, const char* what) {
  if (buffer != nullptr && !buffer->state->facts.virtual_memory) {
    throw Error(TERN_UNSUPPORTED, cat(what, ": this device has no reclaimable buffers"));
  }
  if (buffer == nullptr || buffer->kind != Buffer::Kind::reclaimable) {
    throw Error(TERN_INVALID_ARGUMENT, cat(what, ": expected a buffer that was made reclaimable"));
  }
  buffer->state->use();
  return *buffer;
}

}  // namespace

std::uint64_t mapped_bytes(const DeviceState& state, std::uint64_t bytes) {
  constexpr int kRecommended = 1;  // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
  const CUmemAllocationProp prop = memory_of(state);
  std::size_t piece = 1;
  check(driver().MemGetAllocationGranularity(&piece, &prop, kRecommended), "asking how memory is cut");
  return bytes > UINT64_MAX - piece ? bytes : (bytes + piece - 1) / piece * piece;
}

void reserve_address(Buffer& buffer) {
  check(driver().MemAddressReserve(&buffer.address, buffer.reserved, 0, 0, 0), "reserving an address");
}

void map_memory(Buffer& buffer) {
  const Driver& api = driver();
  const CUmemAllocationProp prop = memory_of(*buffer.state);
  CUmemGenericAllocationHandle memory = 0;
  check(api.MemCreate(&memory, buffer.reserved, &prop, 0), cat("allocating ", buffer.reserved, " bytes"));
  CUresult code = api.MemMap(buffer.address, buffer.reserved, 0, memory, 0);
  (void)api.MemRelease(memory);  // it lives as long as it is mapped
  check(code, "mapping memory");
  const std::vector<CUmemAccessDesc> access = readers(*buffer.state);
  code = api.MemSetAccess(buffer.address, buffer.reserved, access.data(), access.size());
  if (code == CUDA_SUCCESS) return;
  (void)api.MemUnmap(buffer.address, buffer.reserved);
  check(code, "mapping memory");
}

void unmap_memory(Buffer& buffer) { check(driver().MemUnmap(buffer.address, buffer.reserved), "giving memory back"); }

void free_address(Buffer& buffer) { (void)driver().MemAddressFree(buffer.address, buffer.reserved); }

tern_status buffer_evict(tern_buffer given) {
  return guarded([&]() -> tern_status {
    Buffer& buffer = require_reclaimable(given, "buffer_evict");
    if (buffer.evicted) return TERN_OK;
    if (buffer.counted > 0) {
      unmap_memory(buffer);
      tern_plugin_return_memory(buffer.budget.get(), buffer.counted);
      tern_plugin_return_memory(&buffer.state->memory, buffer.counted);
      buffer.counted = 0;
    }
    buffer.evicted = true;
    return TERN_OK;
  });
}

tern_status buffer_restore(tern_buffer given) {
  return guarded([&]() -> tern_status {
    Buffer& buffer = require_reclaimable(given, "buffer_restore");
    if (!buffer.evicted) return TERN_OK;
    if (buffer.reserved > 0) take_memory(buffer, buffer.reserved, [&] { map_memory(buffer); });
    buffer.evicted = false;
    return TERN_OK;
  });
}

}  // namespace tern::cuda
