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
ACLNN_OP(DynamicQuant, const aclTensor* x, const aclTensor* smoothScalesOptional, const aclTensor* yOut,
         const aclTensor* scaleOut);
ACLNN_OP(ConvertWeightToINT4Pack, const aclTensor* weight, aclTensor* weightInt4Pack);

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                             uint64_t* weightTensorSize);  // in elements

// Newer than 8.1. The caller delete[]s dstShape.
aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor, int dstFormat, int additionalDtype,
                                                     int64_t** dstShape, uint64_t* dstShapeSize, int* actualFormat);
}
