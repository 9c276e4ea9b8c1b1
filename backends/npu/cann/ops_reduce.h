#pragma once
// libopapi.so (8.x; split by kind in 9.x): sums, extremes, scans, sorts and softmax.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(ReduceSum, const aclTensor* self, const aclIntArray* dims, bool keepDims, aclDataType dtype, aclTensor* out);
ACLNN_OP(Sum, const aclTensorList* tensors, aclTensor* out);
ACLNN_OP(Mean, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype, aclTensor* out);
ACLNN_OP(Prod, const aclTensor* self, aclDataType dtype, aclTensor* out);
ACLNN_OP(Amax, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out);
ACLNN_OP(Amin, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out);
ACLNN_OP(Max, const aclTensor* self, aclTensor* out);
ACLNN_OP(Min, const aclTensor* self, aclTensor* out);
ACLNN_OP(MaxDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* indices);
ACLNN_OP(MinDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* indices);
ACLNN_OP(ArgMax, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out);
ACLNN_OP(ArgMin, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out);
ACLNN_OP(Any, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out);
ACLNN_OP(All, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out);
ACLNN_OP(Cumsum, const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out);
ACLNN_OP(CumsumV2, const aclTensor* self, int64_t dim, bool exclusive, bool reverse, aclTensor* out);
ACLNN_OP(LogSumExp, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out);
ACLNN_OP(Topk, const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor* valuesOut,
         aclTensor* indicesOut);
ACLNN_OP(Sort, const aclTensor* self, bool stable, int64_t dim, bool descending, aclTensor* valuesOut,
         aclTensor* indicesOut);
ACLNN_OP(Argsort, const aclTensor* self, int64_t dim, bool descending, aclTensor* out);
ACLNN_OP(SearchSorted, const aclTensor* sortedSequence, const aclTensor* self, bool outInt32, bool right,
         const aclTensor* sorter, aclTensor* out);
ACLNN_OP(SearchSorteds, const aclTensor* sortedSequence, const aclScalar* self, bool outInt32, bool right,
         const aclTensor* sorter, aclTensor* out);
ACLNN_OP(Bincount, const aclTensor* self, const aclTensor* weights, int64_t minlength, aclTensor* out);
ACLNN_OP(Softmax, const aclTensor* self, int64_t dim, aclTensor* out);
ACLNN_OP(LogSoftmax, const aclTensor* self, int64_t dim, aclTensor* out);
ACLNN_OP(SoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out);
ACLNN_OP(LogSoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim, aclTensor* out);
}
