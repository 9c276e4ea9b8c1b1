// NVIDIA's driver interface (libcuda.so.1), as far as this backend uses it: declared here, so that no toolkit is needed
// to build, and opened at run time. Names, numbers and layouts are those of cuda.h 12.0 and later;
// tests/unit/backend_cuda/driver_header_test.cpp compares them with the real header where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tern::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemGenericAllocationHandle = std::uint64_t;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_UNKNOWN = 999
};

enum : int {  // CUdevice_attribute
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134
};
enum : int { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum : unsigned { CU_STREAM_NON_BLOCKING = 1 };
enum : unsigned { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };
enum : unsigned { CU_MEMHOSTALLOC_PORTABLE = 1 };
enum : unsigned { CU_MEMHOSTREGISTER_PORTABLE = 1, CU_MEMHOSTREGISTER_DEVICEMAP = 2, CU_MEMHOSTREGISTER_READ_ONLY = 8 };
enum : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
enum : int { CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1 };
enum : unsigned { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

struct CUuuid {
  char bytes[16];
};
struct CUipcMemHandle {
  char reserved[64];
};

struct CUDA_KERNEL_NODE_PARAMS {  // _v2
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
  void* kern;
  CUcontext ctx;
};
// A launch that may begin before the one queued before it is over.
enum : int { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    alignas(8) char pad[64];
    int programmaticStreamSerializationAllowed;
  } value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};
struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned value;
  unsigned elementSize;
  std::size_t width;
  std::size_t height;
};

// Virtual memory: an address range is reserved once, memory comes and goes under it.
enum : int {
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
};
struct CUmemLocation {
  int type;
  int id;
};
struct CUmemAllocationProp {
  int type;
  int requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

// Every function, as X(member, symbol of the library, parameters). The library has the versions that these symbols name
// since CUDA 12.0.
#define TERN_CUDA_DRIVER(X)                                                                                           \
  X(Init, "cuInit", (unsigned flags))                                                                                 \
  X(DriverGetVersion, "cuDriverGetVersion", (int* version))                                                           \
  X(GetErrorName, "cuGetErrorName", (CUresult code, const char** name))                                               \
  X(GetErrorString, "cuGetErrorString", (CUresult code, const char** text))                                           \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                                                 \
  X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                                       \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int length, CUdevice device))                                      \
  X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char* name, int length, CUdevice device))                              \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, CUdevice device))                         \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (std::size_t * bytes, CUdevice device))                                    \
  X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int* can, CUdevice device, CUdevice peer))                         \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                       \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                       \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                                            \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                                          \
  X(CtxSynchronize, "cuCtxSynchronize", ())                                                                           \
  X(CtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext peer, unsigned flags))                                   \
  X(MemGetInfo, "cuMemGetInfo_v2", (std::size_t * free, std::size_t * total))                                         \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, std::size_t bytes))                                            \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                                   \
  X(MemHostAlloc, "cuMemHostAlloc", (void** pointer, std::size_t bytes, unsigned flags))                              \
  X(MemFreeHost, "cuMemFreeHost", (void* pointer))                                                                    \
  X(MemHostRegister, "cuMemHostRegister_v2", (void* pointer, std::size_t bytes, unsigned flags))                      \
  X(MemHostUnregister, "cuMemHostUnregister", (void* pointer))                                                        \
  X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr * address, void* pointer, unsigned flags))  \
  X(MemAddressReserve, "cuMemAddressReserve",                                                                         \
    (CUdeviceptr * address, std::size_t bytes, std::size_t alignment, CUdeviceptr wish, unsigned long long flags))    \
  X(MemAddressFree, "cuMemAddressFree", (CUdeviceptr address, std::size_t bytes))                                     \
  X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                                     \
    (std::size_t * bytes, const CUmemAllocationProp* prop, int option))                                               \
  X(MemCreate, "cuMemCreate",                                                                                         \
    (CUmemGenericAllocationHandle * handle, std::size_t bytes, const CUmemAllocationProp* prop,                       \
     unsigned long long flags))                                                                                       \
  X(MemRelease, "cuMemRelease", (CUmemGenericAllocationHandle handle))                                                \
  X(MemMap, "cuMemMap",                                                                                               \
    (CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,                 \
     unsigned long long flags))                                                                                       \
  X(MemUnmap, "cuMemUnmap", (CUdeviceptr address, std::size_t bytes))                                                 \
  X(MemSetAccess, "cuMemSetAccess",                                                                                   \
    (CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count))                       \
  X(IpcGetMemHandle, "cuIpcGetMemHandle", (CUipcMemHandle * handle, CUdeviceptr address))                             \
  X(IpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags))        \
  X(IpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr address))                                                  \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream))  \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream))        \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream))  \
  X(MemcpyPeerAsync, "cuMemcpyPeerAsync",                                                                             \
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, std::size_t bytes,               \
     CUstream stream))                                                                                                \
  X(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr to, unsigned char byte, std::size_t bytes, CUstream stream))       \
  X(StreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream * stream, unsigned flags, int priority))        \
  X(CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                            \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                           \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                                      \
  X(StreamQuery, "cuStreamQuery", (CUstream stream))                                                                  \
  X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))                           \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                                       \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                                       \
  X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                                                \
    (CUstream stream, int* status, std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes, std::size_t* count)) \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec * exec, CUgraph graph, unsigned long long flags))   \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                                                \
  X(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                                                \
    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params))                                      \
  X(GraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams",                                                   \
    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context))                   \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                                                       \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                                                  \
  X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                                  \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                                               \
  X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                                   \
  X(EventQuery, "cuEventQuery", (CUevent event))                                                                      \
  X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                                          \
  X(EventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent start, CUevent end))                        \
  X(ModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void* image))                                       \
  X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                                                \
  X(ModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char* name))             \
  X(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))                          \
  X(LaunchKernelEx, "cuLaunchKernelEx",                                                                               \
    (const CUlaunchConfig* config, CUfunction function, void** params, void** extra))                                 \
  X(LaunchKernel, "cuLaunchKernel",                                                                                   \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,      \
     unsigned block_z, unsigned shared_bytes, CUstream stream, void** params, void** extra))

struct Driver {
// NOLINTBEGIN(bugprone-macro-parentheses): names and lists of parameters
#define TERN_CUDA_MEMBER(member, symbol, parameters) CUresult(*member) parameters = nullptr;
  TERN_CUDA_DRIVER(TERN_CUDA_MEMBER)
#undef TERN_CUDA_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};

// The driver's functions; throws Error, with the mend, where the library isn't there or lacks one. Opened once.
[[nodiscard]] const Driver& driver();
// Why there is none, with the mend; "": it is there.
[[nodiscard]] const std::string& missing_driver();

}  // namespace tern::cuda
