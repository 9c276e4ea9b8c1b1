// The driver's interface as backends/cuda/driver.h declares it, against NVIDIA's own header where that is installed. If
// this fails, a call hands the driver numbers, structs or arguments that it reads otherwise.
#include "backends/cuda/driver.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace tern::test {
namespace {

// Macros in NVIDIA's header, so they're taken before it is read.
namespace ours {
constexpr long k_CU_MEMHOSTALLOC_PORTABLE = tern::cuda::CU_MEMHOSTALLOC_PORTABLE;
constexpr long k_CU_MEMHOSTREGISTER_PORTABLE = tern::cuda::CU_MEMHOSTREGISTER_PORTABLE;
constexpr long k_CU_MEMHOSTREGISTER_DEVICEMAP = tern::cuda::CU_MEMHOSTREGISTER_DEVICEMAP;
constexpr long k_CU_MEMHOSTREGISTER_READ_ONLY = tern::cuda::CU_MEMHOSTREGISTER_READ_ONLY;
}  // namespace ours

// What both declare by the same name, but for the two functions of which a newer header has newer versions only.
#define TERN_SAME_FUNCTIONS(X)                                                                                         \
  X(Init, cuInit)                                                                                                      \
  X(DriverGetVersion, cuDriverGetVersion)                                                                              \
  X(GetErrorName, cuGetErrorName)                                                                                      \
  X(GetErrorString, cuGetErrorString) X(DeviceGetCount, cuDeviceGetCount) X(DeviceGet, cuDeviceGet) X(                 \
      DeviceGetName, cuDeviceGetName) X(DeviceGetPCIBusId, cuDeviceGetPCIBusId) X(DeviceGetAttribute,                  \
                                                                                  cuDeviceGetAttribute)                \
      X(DeviceTotalMem, cuDeviceTotalMem) X(DeviceCanAccessPeer, cuDeviceCanAccessPeer) X(                             \
          DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain) X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease)      \
          X(CtxSetCurrent, cuCtxSetCurrent) X(CtxGetCurrent, cuCtxGetCurrent) X(CtxSynchronize, cuCtxSynchronize) X(   \
              CtxEnablePeerAccess, cuCtxEnablePeerAccess) X(MemGetInfo, cuMemGetInfo) X(MemAlloc, cuMemAlloc)          \
              X(MemFree, cuMemFree) X(MemHostAlloc, cuMemHostAlloc) X(MemFreeHost, cuMemFreeHost) X(                   \
                  MemHostRegister, cuMemHostRegister) X(MemHostUnregister, cuMemHostUnregister)                        \
                  X(MemHostGetDevicePointer, cuMemHostGetDevicePointer) X(MemAddressReserve, cuMemAddressReserve) X(   \
                      MemAddressFree, cuMemAddressFree) X(MemGetAllocationGranularity, cuMemGetAllocationGranularity)  \
                      X(MemCreate, cuMemCreate) X(MemRelease, cuMemRelease) X(MemMap, cuMemMap) X(                     \
                          MemUnmap, cuMemUnmap) X(MemSetAccess, cuMemSetAccess) X(IpcGetMemHandle, cuIpcGetMemHandle)  \
                          X(IpcOpenMemHandle, cuIpcOpenMemHandle) X(IpcCloseMemHandle, cuIpcCloseMemHandle)            \
                              X(MemcpyHtoDAsync, cuMemcpyHtoDAsync) X(MemcpyDtoHAsync, cuMemcpyDtoHAsync) X(           \
                                  MemcpyDtoDAsync, cuMemcpyDtoDAsync) X(MemcpyPeerAsync, cuMemcpyPeerAsync)            \
                                  X(MemsetD8Async, cuMemsetD8Async) X(StreamCreateWithPriority,                        \
                                                                      cuStreamCreateWithPriority)                      \
                                      X(CtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange) X(                     \
                                          StreamDestroy, cuStreamDestroy) X(StreamSynchronize, cuStreamSynchronize)    \
                                          X(StreamQuery, cuStreamQuery) X(StreamWaitEvent, cuStreamWaitEvent) X(       \
                                              StreamBeginCapture, cuStreamBeginCapture)                                \
                                              X(StreamEndCapture, cuStreamEndCapture) X(                               \
                                                  GraphInstantiate, cuGraphInstantiate) X(GraphLaunch, cuGraphLaunch)  \
                                                  X(GraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams) X(   \
                                                      GraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams)    \
                                                      X(GraphExecDestroy, cuGraphExecDestroy) X(                       \
                                                          GraphDestroy, cuGraphDestroy) X(EventCreate, cuEventCreate)  \
                                                          X(EventDestroy, cuEventDestroy) X(                           \
                                                              EventRecord, cuEventRecord) X(EventQuery, cuEventQuery)  \
                                                              X(EventSynchronize, cuEventSynchronize)                  \
                                                                  X(ModuleLoadData, cuModuleLoadData)                  \
                                                                      X(ModuleUnload, cuModuleUnload)                  \
                                                                          X(ModuleGetFunction, cuModuleGetFunction) X( \
                                                                              FuncSetAttribute, cuFuncSetAttribute)    \
                                                                              X(LaunchKernel, cuLaunchKernel)          \
                                                                                  X(LaunchKernelEx, cuLaunchKernelEx)
#define TERN_SAME_NUMBERS(X)                                                                                           \
  X(CUDA_SUCCESS)                                                                                                      \
  X(CUDA_ERROR_INVALID_VALUE)                                                                                          \
  X(CUDA_ERROR_OUT_OF_MEMORY)                                                                                          \
  X(CUDA_ERROR_NOT_INITIALIZED) X(CUDA_ERROR_STUB_LIBRARY) X(CUDA_ERROR_NO_DEVICE) X(CUDA_ERROR_INVALID_DEVICE) X(     \
      CUDA_ERROR_INVALID_IMAGE) X(CUDA_ERROR_INVALID_CONTEXT) X(CUDA_ERROR_NO_BINARY_FOR_GPU)                          \
      X(CUDA_ERROR_ECC_UNCORRECTABLE) X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION) X(CUDA_ERROR_INVALID_HANDLE) X(            \
          CUDA_ERROR_NOT_FOUND) X(CUDA_ERROR_NOT_READY) X(CUDA_ERROR_ILLEGAL_ADDRESS)                                  \
          X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) X(CUDA_ERROR_LAUNCH_TIMEOUT) X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) \
              X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) X(CUDA_ERROR_LAUNCH_FAILED) X(CUDA_ERROR_NOT_SUPPORTED) X(  \
                  CUDA_ERROR_SYSTEM_NOT_READY) X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)                                    \
                  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) X(                 \
                      CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)                       \
                      X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) X(                  \
                          CUDA_ERROR_CAPTURED_EVENT) X(CUDA_ERROR_UNKNOWN)                                             \
                          X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) X( \
                              CU_DEVICE_ATTRIBUTE_INTEGRATED) X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)                        \
                              X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) X(  \
                                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                                        \
                                  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) X(                          \
                                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)                         \
                                      X(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) X(                                           \
                                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) X(CU_STREAM_NON_BLOCKING)   \
                                          X(CU_EVENT_DEFAULT) X(CU_EVENT_DISABLE_TIMING) X(CU_EVENT_INTERPROCESS)      \
                                              X(CU_STREAM_CAPTURE_MODE_GLOBAL) X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)  \
                                                  X(CU_STREAM_CAPTURE_MODE_RELAXED) X(CU_STREAM_CAPTURE_STATUS_NONE)   \
                                                      X(CU_STREAM_CAPTURE_STATUS_ACTIVE)                               \
                                                          X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                        \
                                                              X(CU_MEM_ALLOCATION_TYPE_PINNED)                         \
                                                                  X(CU_MEM_LOCATION_TYPE_DEVICE)                       \
                                                                      X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
#define TERN_SAME_MACROS(X)                                       \
  X(CU_MEMHOSTALLOC_PORTABLE, k_CU_MEMHOSTALLOC_PORTABLE)         \
  X(CU_MEMHOSTREGISTER_PORTABLE, k_CU_MEMHOSTREGISTER_PORTABLE)   \
  X(CU_MEMHOSTREGISTER_DEVICEMAP, k_CU_MEMHOSTREGISTER_DEVICEMAP) \
  X(CU_MEMHOSTREGISTER_READ_ONLY, k_CU_MEMHOSTREGISTER_READ_ONLY)

}  // namespace
}  // namespace tern::test

#ifdef TERN_HAS_CUDA_H
#include <cuda.h>

namespace tern::test {
namespace {

// Whether two types are passed alike: addresses, numbers of a size, structs of a size.
template <typename T>
constexpr bool kNumber = std::is_integral_v<T> || std::is_enum_v<T>;
template <typename A, typename B>
constexpr bool kAlike = (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                        (sizeof(A) == sizeof(B) &&
                         ((kNumber<A> && kNumber<B>) || (std::is_class_v<A> && std::is_class_v<B>)));

template <typename A, typename B>
struct SameFunction : std::false_type {};
template <typename R, typename... As, typename S, typename... Bs>
requires(sizeof...(As) == sizeof...(Bs)) struct SameFunction<R (*)(As...), S (*)(Bs...)>
    : std::bool_constant<kAlike<R, S> && (kAlike<As, Bs> && ...)> {
};

#define TERN_CHECK_FUNCTION(member, function) \
  static_assert(SameFunction<decltype(tern::cuda::Driver::member), decltype(&::function)>::value);
TERN_SAME_FUNCTIONS(TERN_CHECK_FUNCTION)

#define TERN_CHECK_NUMBER(name) static_assert(static_cast<long>(tern::cuda::name) == static_cast<long>(::name));
TERN_SAME_NUMBERS(TERN_CHECK_NUMBER)

#define TERN_CHECK_MACRO(name, kept) static_assert(ours::kept == static_cast<long>(name));
TERN_SAME_MACROS(TERN_CHECK_MACRO)

#define TERN_CHECK_MEMBER(type, member)                                           \
  static_assert(offsetof(tern::cuda::type, member) == offsetof(::type, member) && \
                sizeof(tern::cuda::type::member) == sizeof(::type::member));
#define TERN_CHECK_SIZE(type) \
  static_assert(sizeof(tern::cuda::type) == sizeof(::type) && alignof(tern::cuda::type) == alignof(::type));
TERN_CHECK_SIZE(CUDA_KERNEL_NODE_PARAMS)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, func)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, gridDimX)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, gridDimY)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, gridDimZ)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, blockDimX)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, blockDimY)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, blockDimZ)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, kernelParams)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, extra)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, kern)
TERN_CHECK_MEMBER(CUDA_KERNEL_NODE_PARAMS, ctx)
TERN_CHECK_SIZE(CUlaunchAttribute)
TERN_CHECK_MEMBER(CUlaunchAttribute, id)
TERN_CHECK_MEMBER(CUlaunchAttribute, value)
TERN_CHECK_SIZE(CUlaunchConfig)
TERN_CHECK_MEMBER(CUlaunchConfig, gridDimX)
TERN_CHECK_MEMBER(CUlaunchConfig, blockDimX)
TERN_CHECK_MEMBER(CUlaunchConfig, sharedMemBytes)
TERN_CHECK_MEMBER(CUlaunchConfig, hStream)
TERN_CHECK_MEMBER(CUlaunchConfig, attrs)
TERN_CHECK_MEMBER(CUlaunchConfig, numAttrs)
static_assert(tern::cuda::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ==
              static_cast<int>(::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
TERN_CHECK_SIZE(CUDA_MEMSET_NODE_PARAMS)
TERN_CHECK_MEMBER(CUDA_MEMSET_NODE_PARAMS, dst)
TERN_CHECK_MEMBER(CUDA_MEMSET_NODE_PARAMS, pitch)
TERN_CHECK_MEMBER(CUDA_MEMSET_NODE_PARAMS, value)
TERN_CHECK_MEMBER(CUDA_MEMSET_NODE_PARAMS, elementSize)
TERN_CHECK_MEMBER(CUDA_MEMSET_NODE_PARAMS, width)
TERN_CHECK_MEMBER(CUDA_MEMSET_NODE_PARAMS, height)
TERN_CHECK_SIZE(CUmemAllocationProp)
TERN_CHECK_MEMBER(CUmemAllocationProp, type)
TERN_CHECK_MEMBER(CUmemAllocationProp, requestedHandleTypes)
TERN_CHECK_MEMBER(CUmemAllocationProp, location)
TERN_CHECK_MEMBER(CUmemAllocationProp, win32HandleMetaData)
TERN_CHECK_MEMBER(CUmemAllocationProp, allocFlags)
TERN_CHECK_SIZE(CUmemLocation)
TERN_CHECK_MEMBER(CUmemLocation, type)
TERN_CHECK_MEMBER(CUmemLocation, id)
TERN_CHECK_SIZE(CUmemAccessDesc)
TERN_CHECK_MEMBER(CUmemAccessDesc, location)
TERN_CHECK_MEMBER(CUmemAccessDesc, flags)
TERN_CHECK_SIZE(CUuuid)
TERN_CHECK_SIZE(CUipcMemHandle)

#define TERN_TEXT(symbol) #symbol
#define TERN_TEXT_OF(symbol) TERN_TEXT(symbol)

// The symbol that the header's macros make of a function's name, and "" of the two that aren't compared.
std::string symbol_in_header(const std::string& member) {
#define TERN_GIVE_SYMBOL(name, function) \
  if (member == #name) return TERN_TEXT_OF(function);
  TERN_SAME_FUNCTIONS(TERN_GIVE_SYMBOL)
  return {};
}

TEST(CudaDriverHeader, SymbolsAreOfTheVersionsThatTheHeaderDeclares) {
#define TERN_CHECK_SYMBOL(member, symbol, parameters)                                \
  {                                                                                  \
    const std::string there = symbol_in_header(#member);                             \
    const std::string name = #member;                                                \
    const bool newer = name == "StreamGetCaptureInfo" || name == "EventElapsedTime"; \
    EXPECT_EQ(there, newer ? "" : symbol);                                           \
  }
  TERN_CUDA_DRIVER(TERN_CHECK_SYMBOL)
}

}  // namespace
}  // namespace tern::test
#else
TEST(CudaDriverHeader, SymbolsAreOfTheVersionsThatTheHeaderDeclares) {
  GTEST_SKIP() << "cuda.h, of the CUDA toolkit, is not installed";
}
#endif
