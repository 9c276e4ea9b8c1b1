#pragma once
// libopapi.so (8.x; split by kind in 9.x): routing to experts.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(MoeInitRoutingV2, const aclTensor* x, const aclTensor* expertIdx, int64_t activeNumOptional,
         int64_t expertCapacityOptional, int64_t expertNumOptional, int64_t dropPadModeOptional,
         int64_t expertTokensCountOrCumsumFlagOptional, bool expertTokensBeforeCapacityFlagOptional,
         const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut,
         const aclTensor* expertTokensCountOrCumsumOutOptional, const aclTensor* expertTokensBeforeCapacityOutOptional);
ACLNN_OP(MoeInitRoutingV2Grad, const aclTensor* gradExpandedX, const aclTensor* expandedRowIdx, int64_t topK,
         int64_t dropPadMode, int64_t activeNum, const aclTensor* out);
ACLNN_OP(MoeFinalizeRoutingV2, const aclTensor* expandedX, const aclTensor* expandedRowIdx, const aclTensor* x1Optional,
         const aclTensor* x2Optional, const aclTensor* biasOptional, const aclTensor* scalesOptional,
         const aclTensor* expertIdxOptional, int64_t dropPadMode, const aclTensor* out);
ACLNN_OP(MoeFinalizeRoutingV2Grad, const aclTensor* gradY, const aclTensor* expandedRowIdx,
         const aclTensor* expandedXOptional, const aclTensor* scalesOptional, const aclTensor* expertIdxOptional,
         const aclTensor* biasOptional, int64_t dropPadMode, int64_t activeNum, int64_t expertNum,
         int64_t expertCapacity, const aclTensor* gradExpandedXOut, const aclTensor* gradScalesOut);
ACLNN_OP(MoeGatingTopKSoftmax, const aclTensor* x, const aclTensor* finishedOptional, int64_t k, const aclTensor* yOut,
         const aclTensor* expertIdxOut, const aclTensor* rowIdxOut);
ACLNN_OP(MoeGatingTopKSoftmaxV2, const aclTensor* x, const aclTensor* finishedOptional, int64_t k, int64_t renorm,
         bool outputSoftmaxResultFlag, const aclTensor* yOut, const aclTensor* expertIdxOut,
         const aclTensor* softmaxResultOutOptional);
ACLNN_OP(MoeTokenPermute, const aclTensor* tokens, const aclTensor* indices, int64_t numOutTokens, bool paddedMode,
         const aclTensor* permuteTokensOut, const aclTensor* sortedIndicesOut);
ACLNN_OP(MoeTokenPermuteGrad, const aclTensor* permutedOutputGrad, const aclTensor* sortedIndices, int64_t numTopk,
         bool paddedMode, const aclTensor* out);
ACLNN_OP(MoeTokenUnpermute, const aclTensor* permutedTokens, const aclTensor* sortedIndices,
         const aclTensor* probsOptional, bool paddedMode, const aclIntArray* restoreShapeOptional,
         const aclTensor* out);
ACLNN_OP(MoeTokenUnpermuteGrad, const aclTensor* permutedTokens, const aclTensor* unpermutedTokensGrad,
         const aclTensor* sortedIndices, const aclTensor* probsOptional, bool paddedMode,
         const aclIntArray* restoreShapeOptional, const aclTensor* permutedTokensGradOut,
         const aclTensor* probsGradOut);

// Newer than 8.1.
}
