#pragma once
// libopapi.so (8.x; split by kind in 9.x): copies, fills, views made real, gathers and scatters.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(InplaceCopy, aclTensor* selfRef, const aclTensor* src);
ACLNN_OP(InplaceFillScalar, aclTensor* selfRef, const aclScalar* value);
ACLNN_OP(InplaceFillTensor, aclTensor* selfRef, const aclTensor* value);
ACLNN_OP(InplaceZero, aclTensor* selfRef);
ACLNN_OP(InplaceOne, const aclTensor* selfRef);
ACLNN_OP(Arange, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out);
ACLNN_OP(Range, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out);
ACLNN_OP(Eye, int64_t n, int64_t m, aclTensor* out);
ACLNN_OP(Permute, const aclTensor* self, const aclIntArray* dims, aclTensor* out);
ACLNN_OP(Expand, const aclTensor* self, const aclIntArray* size, aclTensor* out);
ACLNN_OP(Repeat, const aclTensor* self, const aclIntArray* repeats, aclTensor* out);
ACLNN_OP(Cat, const aclTensorList* tensors, int64_t dim, aclTensor* out);
ACLNN_OP(Stack, const aclTensorList* tensors, int64_t dim, aclTensor* out);
ACLNN_OP(SplitTensor, const aclTensor* self, uint64_t splitSections, int64_t dim, aclTensorList* out);
ACLNN_OP(SplitWithSize, const aclTensor* self, const aclIntArray* splitSize, int64_t dim, aclTensorList* out);
ACLNN_OP(Slice, const aclTensor* self, int64_t dim, int64_t start, int64_t end, int64_t step, aclTensor* out);
ACLNN_OP(SliceV2, const aclTensor* self, const aclIntArray* starts, const aclIntArray* ends, const aclIntArray* axes,
         const aclIntArray* steps, aclTensor* out);
ACLNN_OP(Roll, const aclTensor* x, const aclIntArray* shifts, const aclIntArray* dims, aclTensor* out);
ACLNN_OP(Flip, const aclTensor* self, const aclIntArray* dims, aclTensor* out);
ACLNN_OP(Tril, const aclTensor* self, int64_t diagonal, aclTensor* out);
ACLNN_OP(Triu, const aclTensor* self, int64_t diagonal, aclTensor* out);
ACLNN_OP(InplaceTril, const aclTensor* selfRef, int64_t diagonal);
ACLNN_OP(InplaceTriu, aclTensor* selfRef, int64_t diagonal);
ACLNN_OP(ConstantPadNd, const aclTensor* self, const aclIntArray* pad, const aclScalar* value, aclTensor* out);
ACLNN_OP(InplaceMaskedFillScalar, aclTensor* selfRef, const aclTensor* mask, const aclScalar* value);
ACLNN_OP(InplaceMaskedFillTensor, aclTensor* selfRef, const aclTensor* mask, const aclTensor* value);
ACLNN_OP(Gather, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out);
ACLNN_OP(GatherV2, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out);
ACLNN_OP(IndexSelect, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out);
ACLNN_OP(Index, const aclTensor* self, const aclTensorList* indices, aclTensor* out);
ACLNN_OP(IndexAdd, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* source,
         const aclScalar* alpha, aclTensor* out);
ACLNN_OP(InplaceIndexCopy, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclTensor* source);
ACLNN_OP(IndexPutImpl, aclTensor* selfRef, const aclTensorList* indices, const aclTensor* values, bool accumulate,
         bool unsafe);
ACLNN_OP(Scatter, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src, int64_t reduce,
         aclTensor* out);
ACLNN_OP(InplaceScatter, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclTensor* src, int64_t reduce);
ACLNN_OP(ScatterValue, const aclTensor* self, int64_t dim, const aclTensor* index, const aclScalar* value,
         int64_t reduce, aclTensor* out);
ACLNN_OP(InplaceScatterValue, aclTensor* selfRef, int64_t dim, const aclTensor* index, const aclScalar* value,
         int64_t reduce);
ACLNN_OP(ScatterAdd, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src, aclTensor* out);
ACLNN_OP(InplaceScatterUpdate, aclTensor* data, const aclTensor* indices, const aclTensor* updates, int64_t axis);
ACLNN_OP(ScatterNdUpdate, aclTensor* varRef, const aclTensor* indices, const aclTensor* updates);
ACLNN_OP(OneHot, const aclTensor* self, int numClasses, const aclTensor* onValue, const aclTensor* offValue,
         int64_t axis, aclTensor* out);
}
