#pragma once
// libopapi.so (8.x; split by kind in 9.x): products with quantised weights, and weights in the cube's own layout.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(WeightQuantBatchMatmulV2, const aclTensor* x, const aclTensor* weight, const aclTensor* antiquantScale,
         const aclTensor* antiquantOffsetOptional, const aclTensor* quantScaleOptional,
         const aclTensor* quantOffsetOptional, const aclTensor* biasOptional, int antiquantGroupSize,
         const aclTensor* y);
ACLNN_OP(WeightQuantBatchMatmulV3, const aclTensor* x, const aclTensor* weight, const aclTensor* antiquantScale,
         const aclTensor* antiquantOffsetOptional, const aclTensor* quantScaleOptional,
         const aclTensor* quantOffsetOptional, const aclTensor* biasOptional, int antiquantGroupSize, int innerPrecise,
         const aclTensor* y);
ACLNN_OP(QuantMatmulV3, const aclTensor* x1, const aclTensor* x2, const aclTensor* scale, const aclTensor* offset,
         const aclTensor* bias, bool transposeX1, bool transposeX2, const aclTensor* out);
ACLNN_OP(QuantMatmulV4, const aclTensor* x1, const aclTensor* x2, const aclTensor* scale, const aclTensor* offset,
         const aclTensor* pertokenScaleOptional, const aclTensor* bias, bool transposeX1, bool transposeX2,
         const aclTensor* out);
ACLNN_OP(DynamicQuant, const aclTensor* x, const aclTensor* smoothScalesOptional, const aclTensor* yOut,
         const aclTensor* scaleOut);
ACLNN_OP(TransMatmulWeight, aclTensor* mmWeightRef);
ACLNN_OP(TransQuantParamV2, const aclTensor* scale, const aclTensor* offset, const aclTensor* out);
ACLNN_OP(ConvertWeightToINT4Pack, const aclTensor* weight, aclTensor* weightInt4Pack);
ACLNN_OP(AscendAntiQuant, const aclTensor* x, const aclTensor* scale, const aclTensor* offset, int64_t dstType,
         bool sqrtMode, const aclTensor* y);

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                             uint64_t* weightTensorSize);  // in elements

// Newer than 8.1. The caller delete[]s dstShape.
ACLNN_OP(NpuFormatCast, const aclTensor* srcTensor, aclTensor* dstTensor);
aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor, int dstFormat, int additionalDtype,
                                                     int64_t** dstShape, uint64_t* dstShapeSize, int* actualFormat);
}
