#pragma once
// libopapi.so (8.x; split by kind in 9.x): random numbers and dropout.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(InplaceNormal, const aclTensor* selfRef, float mean, float std, int64_t seed, int64_t offset);
ACLNN_OP(InplaceUniform, const aclTensor* selfRef, double from, double to, uint64_t seed, uint64_t offset);
ACLNN_OP(InplaceRandom, const aclTensor* selfRef, int64_t from, int64_t to, int64_t seed, int64_t offset);
ACLNN_OP(DropoutGenMask, const aclIntArray* shape, double prob, int64_t seed, int64_t offset, aclTensor* out);
ACLNN_OP(DropoutGenMaskV2, const aclIntArray* shape, double prob, int64_t seed, int64_t offset,
         aclDataType probDataType, aclTensor* out);
ACLNN_OP(DropoutDoMask, const aclTensor* self, const aclTensor* mask, double prob, aclTensor* out);
}
