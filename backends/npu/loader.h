// CANN's libraries, opened at run time: which are there, and where each function is. Nothing here needs a driver to be
// built or loaded; what is missing has a reason that a user can act on.
#pragma once

#include <string>
#include <string_view>

#include "backends/npu/cann/meta.h"
#include "backends/npu/cann/runtime.h"

namespace tern::npu {

// The functions that no device can do without; a library that lacks one of them is no CANN.
#define TERN_NPU_REQUIRED(X)                                                                                       \
  X(aclInit)                                                                                                       \
  X(aclFinalize)                                                                                                   \
  X(aclrtSetDevice)                                                                                                \
  X(aclrtResetDevice)                                                                                              \
  X(aclrtGetDeviceCount) X(aclrtGetSocName) X(aclrtMalloc) X(aclrtFree) X(aclrtMallocHost) X(aclrtFreeHost)        \
      X(aclrtMemcpy) X(aclrtMemcpyAsync) X(aclrtMemsetAsync) X(aclrtCreateStream) X(aclrtDestroyStream)            \
          X(aclrtSynchronizeStream) X(aclrtStreamWaitEvent) X(aclrtCreateEventWithFlag) X(aclrtDestroyEvent)       \
              X(aclrtRecordEvent) X(aclrtSynchronizeEvent) X(aclrtQueryEventStatus) X(aclrtEventElapsedTime)       \
                  X(aclrtGetMemInfo) X(aclCreateTensor) X(aclDestroyTensor) X(aclCreateScalar) X(aclDestroyScalar) \
                      X(aclCreateIntArray) X(aclDestroyIntArray) X(aclCreateTensorList) X(aclDestroyTensorList)    \
                          X(aclDestroyAclOpExecutor)

// Those whose absence costs one capability.
#define TERN_NPU_OPTIONAL(X)                                                                                           \
  X(aclGetRecentErrMsg)                                                                                                \
  X(aclrtGetVersion)                                                                                                   \
  X(aclCreateBoolArray)                                                                                                \
  X(aclDestroyBoolArray)                                                                                               \
  X(aclSetAclOpExecutorRepeatable) X(aclrtCreateEventExWithFlag) X(aclrtCtxSetSysParamOpt) X(aclrtDeviceCanAccessPeer) \
      X(aclrtDeviceEnablePeerAccess) X(aclmdlRICaptureBegin) X(aclmdlRICaptureEnd) X(aclmdlRIExecuteAsync)             \
          X(aclmdlRIDestroy) X(aclmdlRICaptureTaskGrpBegin) X(aclmdlRICaptureTaskGrpEnd)                               \
              X(aclmdlRICaptureTaskUpdateBegin) X(aclmdlRICaptureTaskUpdateEnd) X(aclrtReserveMemAddress)              \
                  X(aclrtReleaseMemAddress) X(aclrtMallocPhysical) X(aclrtFreePhysical) X(aclrtMapMem)                 \
                      X(aclrtUnmapMem) X(aclrtMemGetAllocationGranularity)

struct Acl {
#define TERN_NPU_MEMBER(name) decltype(&::name) name = nullptr;
  TERN_NPU_REQUIRED(TERN_NPU_MEMBER)
  TERN_NPU_OPTIONAL(TERN_NPU_MEMBER)
#undef TERN_NPU_MEMBER
};

// Both phases of an aclnn op; null where the installed libraries have none.
struct OpSymbols {
  void* workspace = nullptr;  // phase 1: aclnnXGetWorkspaceSize
  void* run = nullptr;        // phase 2: aclnnX
  [[nodiscard]] bool present() const { return workspace != nullptr && run != nullptr; }
};

// The runtime, opened on first use and never closed. Null: `why` says what is missing and what to do.
[[nodiscard]] const Acl* acl(std::string& why);
// As above where a device is open already; throws tern_plugin::Error.
[[nodiscard]] const Acl& acl();
// Opens one library of the toolkit's; null: `why` is the loader's own text.
[[nodiscard]] void* open_library(const char* name, std::string& why);
[[nodiscard]] void* find_in(void* library, const char* name);
// The address of any function of the opened libraries (of the operators' too); null: none has it.
[[nodiscard]] void* find_symbol(const char* name);
// `name` is the op's: "aclnnAdd". The answer is remembered.
[[nodiscard]] OpSymbols find_op(const char* name);
// Of the runtime (AscendCL), such as "1.14.0"; or "unknown".
[[nodiscard]] std::string cann_version();

}  // namespace tern::npu
