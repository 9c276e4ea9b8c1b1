// HCCL's functions, opened when a communicator is first asked for.
#pragma once

#include <string>

#include "backends/npu/cann/hccl_calls.h"
#include "backends/npu/loader.h"
#include "tern/accel.h"

namespace tern::npu {

#define TERN_NPU_HCCL(X)                                                                                \
  X(HcclGetRootInfo)                                                                                    \
  X(HcclCommInitRootInfo)                                                                               \
  X(HcclCommDestroy)                                                                                    \
  X(HcclGetCommAsyncError) X(HcclGetErrorString) X(HcclAllReduce) X(HcclAllGather) X(HcclReduceScatter) \
      X(HcclBroadcast) X(HcclAlltoAllV) X(HcclSend) X(HcclRecv)

struct Hccl {
#define TERN_NPU_MEMBER(name) decltype(&::name) name = nullptr;
  TERN_NPU_HCCL(TERN_NPU_MEMBER)
#undef TERN_NPU_MEMBER
};

// Null: `why` says what is missing and what to do.
[[nodiscard]] const Hccl* hccl(std::string& why);
// As above; throws tern_plugin::Error.
[[nodiscard]] const Hccl& hccl();
// Throws where a result isn't HCCL_SUCCESS.
void check_hccl(HcclResult result, const char* what);

// Device memory that one communicator takes: HCCL's buffers to send and to receive.
[[nodiscard]] std::uint64_t comm_bytes();

}  // namespace tern::npu
