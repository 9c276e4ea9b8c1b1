// NVIDIA's collectives (libnccl.so.2), as far as this backend uses them: declared here, and opened at run time. Numbers
// and layouts are those of nccl.h 2.18 and later; tests/unit/backend_cuda/nccl_header_test.cpp compares them with the
// real header where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backends/cuda/driver.h"

namespace tern::cuda {

using ncclComm_t = struct ncclComm*;

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};
struct ncclUniqueId {
  char internal[128];
};
// As of 2.14: what later versions have behind it keeps its defaults.
struct ncclConfig_t {
  std::size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

#define TERN_CUDA_NCCL(X)                                                                                              \
  X(GetVersion, (int* version))                                                                                        \
  X(GetUniqueId, (ncclUniqueId * id))                                                                                  \
  X(CommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config))               \
  X(CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config))                          \
  X(CommFinalize, (ncclComm_t comm))                                                                                   \
  X(CommDestroy, (ncclComm_t comm))                                                                                    \
  X(CommAbort, (ncclComm_t comm))                                                                                      \
  X(CommGetAsyncError, (ncclComm_t comm, ncclResult_t * state))                                                        \
  X(CommCount, (ncclComm_t comm, int* ranks))                                                                          \
  X(CommUserRank, (ncclComm_t comm, int* rank))                                                                        \
  X(AllReduce, (const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,  \
                CUstream stream))                                                                                      \
  X(AllGather,                                                                                                         \
    (const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclComm_t comm, CUstream stream))           \
  X(ReduceScatter, (const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,               \
                    ncclComm_t comm, CUstream stream))                                                                 \
  X(Broadcast,                                                                                                         \
    (const void* from, void* to, std::size_t count, ncclDataType_t dtype, int root, ncclComm_t comm, CUstream stream)) \
  X(Send, (const void* from, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, CUstream stream))     \
  X(Recv, (void* to, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, CUstream stream))             \
  X(GroupStart, ())                                                                                                    \
  X(GroupEnd, ())

struct Nccl {
// NOLINTBEGIN(bugprone-macro-parentheses): names and lists of parameters
#define TERN_CUDA_MEMBER(member, parameters) ncclResult_t(*member) parameters = nullptr;
  TERN_CUDA_NCCL(TERN_CUDA_MEMBER)
#undef TERN_CUDA_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
  const char* (*GetErrorString)(ncclResult_t result) = nullptr;
};

// Why there is none, with the mend; "": it is there.
[[nodiscard]] const std::string& missing_nccl();
// Throws Error where it is missing. Opened once.
[[nodiscard]] const Nccl& nccl();
// Throws Error where a result is a failure; one that is in progress isn't.
void check_nccl(ncclResult_t result, std::string_view what);

// Names the library where it isn't on the loader's path.
inline constexpr const char* kNcclPath = "TERN_CUDA_NCCL";

}  // namespace tern::cuda
