// Device memory lies in a region of its own. Each allocation has pages of its own and ends at one that nobody may
// touch, holds NaN at first, and its addresses never come again.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/fakes/cuda/driver/symbols.h"

namespace tern::cuda::fake {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr std::size_t kRegion = std::size_t{8} << 40;
constexpr std::size_t kMostFilled = std::size_t{256} << 20;  // beyond it, a host's memory would be gone for nothing

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// Addresses that can't be touched; 0 where there are no more.
std::uintptr_t carve(std::size_t bytes, std::size_t alignment) {
  State& s = state();
  if (s.region == 0) {
    void* const region = mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return 0;
    s.region = reinterpret_cast<std::uintptr_t>(region);
    s.region_next = s.region + kPage;
    s.region_end = s.region + kRegion;
  }
  const std::uintptr_t at = round_up(s.region_next, alignment);
  if (at + bytes + kPage > s.region_end) return 0;
  s.region_next = at + bytes + kPage;
  return at;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

void fill(void* memory, std::size_t bytes) { std::memset(memory, 0xff, std::min(bytes, kMostFilled)); }

void forget(std::uintptr_t at, std::size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) std::abort();
}

// The allocation that has the address, or null.
const std::pair<const CUdeviceptr, Allocation>* find(CUdeviceptr address) {
  auto after = state().allocations.upper_bound(address);
  if (after == state().allocations.begin()) return nullptr;
  --after;
  return address < after->first + after->second.bytes ? &*after : nullptr;
}

void release(std::map<std::uint64_t, Physical>::iterator physical) {
  if (--physical->second.references != 0) return;
  state().used[static_cast<std::size_t>(physical->second.device)] -= physical->second.bytes;
  close(physical->second.file);
  state().physical.erase(physical);
}

}  // namespace

bool is_device_range(CUdeviceptr address, std::size_t bytes) {
  const Lock lock(state().mutex);
  const CUdeviceptr end = address + bytes;
  if (end < address) return false;
  while (true) {
    const auto* found = find(address);
    if (found == nullptr || !found->second.accessible) return is_pinned(pointer(address), end - address);
    address = found->first + found->second.bytes;
    if (address >= end) return true;
  }
}

bool is_pinned(const void* at, std::size_t bytes) {
  const Lock lock(state().mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  auto after = state().host.upper_bound(address);
  if (after == state().host.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second.bytes;
}

CUresult MemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (free != nullptr) *free = state().memory - state().used[static_cast<std::size_t>(current()->device)];
  if (total != nullptr) *total = state().memory;
  return CUDA_SUCCESS;
}

CUresult MemAlloc(CUdeviceptr* address, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (const CUresult error = check_unsafe(); error != CUDA_SUCCESS) return error;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t& used = state().used[static_cast<std::size_t>(current()->device)];
  const std::size_t kept = round_up(bytes, 256), page_bytes = round_up(kept, kPage);
  if (bytes > state().memory || used + kept > state().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uintptr_t pages = carve(page_bytes, kPage);
  if (pages == 0 || mprotect(reinterpret_cast<void*>(pages), page_bytes, PROT_READ | PROT_WRITE) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = pages + page_bytes - kept;
  fill(reinterpret_cast<void*>(pages), page_bytes);
  used += kept;
  state().allocations[*address] = {.kind = Allocation::Kind::device,
                                   .bytes = bytes,
                                   .device = current()->device,
                                   .pages = pages,
                                   .page_bytes = page_bytes};
  return CUDA_SUCCESS;
}

CUresult MemFree(CUdeviceptr address) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (address == 0) return CUDA_SUCCESS;
  {
    const Lock lock(state().mutex);
    if (const CUresult error = check_unsafe(); error != CUDA_SUCCESS) return error;
    const auto found = state().allocations.find(address);
    if (found == state().allocations.end() || found->second.kind != Allocation::Kind::device)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& context : state().contexts) drain_context(context.get());
  const Lock lock(state().mutex);
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const Allocation allocation = found->second;
  state().used[static_cast<std::size_t>(allocation.device)] -= round_up(allocation.bytes, 256);
  state().allocations.erase(found);
  forget(allocation.pages, allocation.page_bytes);
  return CUDA_SUCCESS;
}

CUresult MemHostAlloc(void** result, std::size_t bytes, unsigned /*flags*/) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (const CUresult error = check_unsafe(); error != CUDA_SUCCESS) return error;
  if (result == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* const memory = std::aligned_alloc(kPage, round_up(bytes, kPage));
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *result = memory;
  state().host[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, false};
  return CUDA_SUCCESS;
}

CUresult MemFreeHost(void* memory) {
  {
    const Lock lock(state().mutex);
    if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
    const auto found = state().host.find(reinterpret_cast<std::uintptr_t>(memory));
    if (found == state().host.end() || found->second.registered) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = check_unsafe(); error != CUDA_SUCCESS) return error;
    state().host.erase(found);
  }
  for (const auto& context : state().contexts) drain_context(context.get());
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult MemHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const auto after = state().host.lower_bound(begin + bytes);
  if (after != state().host.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes > begin) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  state().host[begin] = {bytes, true};
  return CUDA_SUCCESS;
}

CUresult MemHostUnregister(void* memory) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const auto found = state().host.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == state().host.end() || !found->second.registered) return 713;  // CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
  state().host.erase(found);
  return CUDA_SUCCESS;
}

CUresult MemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned flags) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (address == nullptr || flags != 0 || !is_pinned(memory, 1)) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult MemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment, CUdeviceptr /*wish*/,
                           unsigned long long flags) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (address == nullptr || bytes == 0 || bytes % kGranularity != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uintptr_t at = carve(bytes, std::max(alignment, kGranularity));
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = at;
  state().reservations[at] = bytes;
  return CUDA_SUCCESS;
}

CUresult MemAddressFree(CUdeviceptr address, std::size_t bytes) {
  const Lock lock(state().mutex);
  const auto found = state().reservations.find(address);
  if (found == state().reservations.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = state().allocations.lower_bound(address);
  if (mapped != state().allocations.end() && mapped->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  state().reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult MemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* prop, int /*option*/) {
  if (bytes == nullptr || prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult MemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* prop,
                   unsigned long long flags) {
  const Lock lock(state().mutex);
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || prop == nullptr || bytes == 0 || bytes % kGranularity != 0 || flags != 0 ||
      prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int device = prop->location.id;
  if (device < 0 || device >= state().devices) return CUDA_ERROR_INVALID_DEVICE;
  std::uint64_t& used = state().used[static_cast<std::size_t>(device)];
  if (bytes > state().memory || used + bytes > state().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = memfd_create("fake CUDA", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  fill(memory, bytes);
  munmap(memory, bytes);
  used += bytes;
  *handle = state().next_id++;
  state().physical[*handle] = {.file = file, .bytes = bytes, .device = device};
  return CUDA_SUCCESS;
}

CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  const Lock lock(state().mutex);
  const auto found = state().physical.find(handle);
  if (found == state().physical.end()) return CUDA_ERROR_INVALID_VALUE;
  release(found);
  return CUDA_SUCCESS;
}

CUresult MemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags) {
  const Lock lock(state().mutex);
  const auto physical = state().physical.find(handle);
  if (physical == state().physical.end() || offset != 0 || flags != 0 || bytes == 0 || bytes % kGranularity != 0 ||
      bytes > physical->second.bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto reserved = state().reservations.upper_bound(address);
  if (reserved == state().reservations.begin()) return CUDA_ERROR_INVALID_VALUE;
  --reserved;
  if (address + bytes > reserved->first + reserved->second || address % kGranularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const auto next = state().allocations.lower_bound(address);
  if (find(address) != nullptr || (next != state().allocations.end() && next->first < address + bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->second.file, 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++physical->second.references;
  state().allocations[address] = {.kind = Allocation::Kind::mapped,
                                  .bytes = bytes,
                                  .device = physical->second.device,
                                  .handle = handle,
                                  .accessible = false};
  return CUDA_SUCCESS;
}

CUresult MemUnmap(CUdeviceptr address, std::size_t bytes) {
  const Lock lock(state().mutex);
  const CUdeviceptr end = address + bytes;
  auto at = state().allocations.find(address);
  if (at == state().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  while (at != state().allocations.end() && at->first < end) {
    if (at->second.kind != Allocation::Kind::mapped || at->first + at->second.bytes > end)
      return CUDA_ERROR_INVALID_VALUE;
    forget(at->first, at->second.bytes);
    release(state().physical.find(at->second.handle));
    at = state().allocations.erase(at);
  }
  return CUDA_SUCCESS;
}

CUresult MemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  const Lock lock(state().mutex);
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUdeviceptr end = address + bytes;
  for (auto at = state().allocations.find(address); address < end; ++at) {
    if (at == state().allocations.end() || at->first != address || at->second.kind != Allocation::Kind::mapped) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    address += at->second.bytes;
    if (mprotect(pointer(at->first), at->second.bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_UNKNOWN;
    at->second.accessible = true;
  }
  return CUDA_SUCCESS;
}

// A handle names the allocation; no other process can open it here, and the driver lets no process open its own.
CUresult IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const auto* found = find(address);
  if (handle == nullptr || found == nullptr || found->second.kind != Allocation::Kind::device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = {};
  std::memcpy(handle->reserved, &found->first, sizeof found->first);
  return CUDA_SUCCESS;
}
CUresult IpcOpenMemHandle(CUdeviceptr* /*address*/, CUipcMemHandle /*handle*/, unsigned /*flags*/) {
  return CUDA_ERROR_INVALID_CONTEXT;
}
CUresult IpcCloseMemHandle(CUdeviceptr /*address*/) { return CUDA_ERROR_INVALID_VALUE; }

}  // namespace tern::cuda::fake
