#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fakes/cuda/driver/symbols.h"

namespace tern::cuda::fake {
namespace {

int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

bool is_mode(const char* mode) {
  const char* const text = std::getenv("TERN_FAKE_CUDA_MODE");
  return text != nullptr && std::strcmp(text, mode) == 0;
}

bool is_device(CUdevice device) { return state().initialised && device >= 0 && device < state().devices; }

const char* name_of(int capability) {
  switch (capability) {
    case 80:
      return "Fake A100";
    case 89:
      return "Fake L40S";
    case 90:
      return "Fake H100";
    case 100:
      return "Fake B200";
    default:
      return "Fake GPU";
  }
}

}  // namespace

// Every function is defined: the link fails where one isn't.
[[gnu::used]] const void* const kSymbols[] = {
#define TERN_FAKE_TAKE(member, symbol, parameters) reinterpret_cast<const void*>(&member),
    TERN_CUDA_DRIVER(TERN_FAKE_TAKE)
#undef TERN_FAKE_TAKE
};

State& state() {
  static State& state = *new State;
  return state;
}

// Not thread_local: that memory is kernels' shared memory, which launches fill.
CUcontext& current() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, [](void* context) { delete static_cast<CUcontext*>(context); }) != 0) std::abort();
    return made;
  }();
  void* found = pthread_getspecific(key);
  if (found == nullptr) {
    found = std::make_unique<CUcontext>(nullptr).release();
    pthread_setspecific(key, found);
  }
  return *static_cast<CUcontext*>(found);
}

CUresult check_context() {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current()->active) return 709;  // CUDA_ERROR_CONTEXT_IS_DESTROYED
  return current()->error;
}

CUresult Init(unsigned flags) {
  const Lock lock(state().mutex);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_mode("no_device")) return CUDA_ERROR_NO_DEVICE;
  if (is_mode("init_fails_999")) return CUDA_ERROR_UNKNOWN;
  if (is_mode("driver_mismatch")) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  if (state().initialised) return CUDA_SUCCESS;
  state().devices = number_of("TERN_FAKE_CUDA_DEVICES", 1);
  if (state().devices <= 0) return CUDA_ERROR_NO_DEVICE;
  state().capability = number_of("TERN_FAKE_CUDA_CAPABILITY", 90);
  state().memory = static_cast<std::uint64_t>(number_of("TERN_FAKE_CUDA_MEMORY_MB", 16384)) << 20;
  state().used.resize(static_cast<std::size_t>(state().devices));
  for (int i = 0; i < state().devices; ++i) {
    state().contexts.push_back(std::make_unique<CUctx_st>());
    state().contexts.back()->device = i;
  }
  state().initialised = true;
  return CUDA_SUCCESS;
}

CUresult DriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = number_of("TERN_FAKE_CUDA_VERSION", 13000);
  return CUDA_SUCCESS;
}

CUresult DeviceGetCount(int* count) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = state().devices;
  return CUDA_SUCCESS;
}

CUresult DeviceGet(CUdevice* device, int ordinal) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult DeviceGetName(char* name, int length, CUdevice device) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<std::size_t>(length), "%s", name_of(state().capability));
  return CUDA_SUCCESS;
}

CUresult DeviceGetPCIBusId(char* name, int length, CUdevice device) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (name == nullptr || length < 13) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<std::size_t>(length), "0000:%02x:00.0", 0x1b + device);
  return CUDA_SUCCESS;
}

CUresult DeviceGetAttribute(int* value, int attribute, CUdevice device) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = number_of("TERN_FAKE_CUDA_MULTIPROCESSORS", 132);
      break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
      *value = number_of("TERN_FAKE_CUDA_PAGEABLE", 0);
      break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      *value = number_of("TERN_FAKE_CUDA_INTEGRATED", 0);
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = 0x1b + device;
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 50 << 20;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = state().capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = state().capability % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = state().capability == 89 ? 99 << 10 : state().capability == 80 ? 163 << 10 : 227 << 10;
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = number_of("TERN_FAKE_CUDA_VIRTUAL_MEMORY", 1);
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      *value = 0;
      break;
    default:
      std::fprintf(stderr, "fake CUDA: it doesn't know the device attribute %d\n", attribute);
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult DeviceTotalMem(std::size_t* bytes, CUdevice device) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = state().memory;
  return CUDA_SUCCESS;
}

CUresult DeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? number_of("TERN_FAKE_CUDA_PEERS", 1) : 0;
  return CUDA_SUCCESS;
}

CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Lock lock(state().mutex);
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = state().contexts[static_cast<std::size_t>(device)].get();
  ++(*context)->retained;
  (*context)->active = true;
  return CUDA_SUCCESS;
}

CUresult DevicePrimaryCtxRelease(CUdevice device) {
  const Lock lock(state().mutex);
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUctx_st& context = *state().contexts[static_cast<std::size_t>(device)];
  if (context.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context.retained == 0) {
    drain_context(&context);
    context.active = false;
    context.error = CUDA_SUCCESS;
    context.peers.clear();
  }
  return CUDA_SUCCESS;
}

CUresult CtxSetCurrent(CUcontext context) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (context != nullptr && !context->active) return CUDA_ERROR_INVALID_CONTEXT;
  current() = context;
  return CUDA_SUCCESS;
}

CUresult CtxGetCurrent(CUcontext* context) {
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = current();
  return CUDA_SUCCESS;
}

CUresult CtxSynchronize() {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  {
    const Lock lock(state().mutex);
    for (const CUstream stream : current()->streams) {
      if (stream->capture != nullptr) return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
  }
  drain_context(current());
  return current()->error;
}

CUresult CtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (peer == nullptr || !peer->active) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  int can = 0;
  if (DeviceCanAccessPeer(&can, current()->device, peer->device) != CUDA_SUCCESS || can == 0)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!current()->peers.insert(peer->device).second) return 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
  return CUDA_SUCCESS;
}

CUresult CtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

}  // namespace tern::cuda::fake
