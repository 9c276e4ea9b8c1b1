#pragma once
// A two-phase operator: the first phase checks its arguments, says how much device memory it works in and gives an
// executor; the second launches the executor on a stream, and ends it unless aclSetAclOpExecutorRepeatable kept it.
#include "backends/npu/cann/types.h"

// Both phases of aclnnNAME, of which the arguments after the name are the first phase's own. Where 8.1 has "const
// aclTensor*" for an output, so it stays here.
#define ACLNN_OP(name, ...)                                                                                  \
  aclnnStatus aclnn##name##GetWorkspaceSize(__VA_ARGS__, uint64_t* workspaceSize, aclOpExecutor** executor); \
  aclnnStatus aclnn##name(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)
