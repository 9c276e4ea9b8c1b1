#pragma once
// libopapi.so (8.x; split by kind in 9.x): element by element, with broadcasting where there are two operands.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(Cast, const aclTensor* self, aclDataType dtype, aclTensor* out);
ACLNN_OP(Add, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out);
ACLNN_OP(Adds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out);
ACLNN_OP(InplaceAdd, const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha);
ACLNN_OP(InplaceAdds, const aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha);
ACLNN_OP(Sub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out);
ACLNN_OP(Subs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out);
ACLNN_OP(InplaceSub, aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha);
ACLNN_OP(InplaceSubs, aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha);
ACLNN_OP(Mul, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(Muls, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(InplaceMul, aclTensor* selfRef, const aclTensor* other);
ACLNN_OP(InplaceMuls, aclTensor* selfRef, const aclScalar* other);
ACLNN_OP(Div, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(Divs, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(InplaceDiv, aclTensor* selfRef, const aclTensor* other);
ACLNN_OP(InplaceDivs, aclTensor* selfRef, const aclScalar* other);
ACLNN_OP(Abs, const aclTensor* self, aclTensor* out);
ACLNN_OP(Neg, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceNeg, aclTensor* selfRef);
ACLNN_OP(Exp, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceExp, aclTensor* selfRef);
ACLNN_OP(Log, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceLog, aclTensor* selfRef);
ACLNN_OP(Log2, const aclTensor* self, const aclTensor* out);
ACLNN_OP(Sqrt, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceSqrt, aclTensor* self);
ACLNN_OP(Rsqrt, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceRsqrt, aclTensor* selfRef);
ACLNN_OP(Reciprocal, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceReciprocal, const aclTensor* selfRef);
ACLNN_OP(Tanh, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceTanh, aclTensor* selfRef);
ACLNN_OP(Sigmoid, const aclTensor* self, aclTensor* out);
ACLNN_OP(InplaceSigmoid, aclTensor* selfRef);
ACLNN_OP(Floor, const aclTensor* self, aclTensor* out);
ACLNN_OP(Ceil, const aclTensor* self, aclTensor* out);
ACLNN_OP(Round, const aclTensor* self, aclTensor* out);
ACLNN_OP(Sign, const aclTensor* self, aclTensor* result);
ACLNN_OP(Sin, const aclTensor* self, aclTensor* out);
ACLNN_OP(Cos, const aclTensor* input, aclTensor* out);
ACLNN_OP(Erf, const aclTensor* self, aclTensor* out);
ACLNN_OP(Relu, const aclTensor* self, const aclTensor* out);
ACLNN_OP(InplaceRelu, aclTensor* selfRef);
ACLNN_OP(Silu, const aclTensor* self, aclTensor* out);
ACLNN_OP(Gelu, const aclTensor* self, aclTensor* out);
ACLNN_OP(GeluV2, const aclTensor* x, int64_t approximate, aclTensor* y);
ACLNN_OP(Softplus, const aclTensor* self, const aclScalar* beta, const aclScalar* threshold, aclTensor* out);
ACLNN_OP(Maximum, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(Minimum, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(Clamp, const aclTensor* self, const aclScalar* clipValueMin, const aclScalar* clipValueMax, aclTensor* out);
ACLNN_OP(ClampMin, const aclTensor* self, const aclScalar* clipValueMin, aclTensor* out);
ACLNN_OP(ClampMax, const aclTensor* self, const aclScalar* clipValueMax, aclTensor* out);
ACLNN_OP(ClampTensor, const aclTensor* self, const aclTensor* clipValueMin, const aclTensor* clipValueMax,
         aclTensor* out);
ACLNN_OP(ClampMinTensor, const aclTensor* self, const aclTensor* clipValueMin, aclTensor* out);
ACLNN_OP(ClampMaxTensor, const aclTensor* self, const aclTensor* max, aclTensor* out);
ACLNN_OP(InplaceClampMax, const aclTensor* selfRef, const aclScalar* clipValueMax);
ACLNN_OP(GeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(GtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(LeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(LtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(EqScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(NeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(GeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(GtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(LeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(LtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(EqTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(NeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(LogicalAnd, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(LogicalOr, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(LogicalNot, const aclTensor* self, aclTensor* out);
ACLNN_OP(BitwiseAndScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(BitwiseOrScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(BitwiseAndTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(BitwiseOrTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(BitwiseNot, const aclTensor* self, aclTensor* out);
ACLNN_OP(FloorDivide, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(FloorDivides, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(RemainderTensorScalar, const aclTensor* self, const aclScalar* other, aclTensor* out);
ACLNN_OP(RemainderTensorTensor, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(Rsub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out);
ACLNN_OP(Rsubs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out);
ACLNN_OP(Addcmul, const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2, const aclScalar* value,
         aclTensor* out);
ACLNN_OP(InplaceAddcmul, const aclTensor* selfRef, const aclTensor* tensor1, const aclTensor* tensor2,
         const aclScalar* value);
ACLNN_OP(Addcdiv, const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2, const aclScalar* value,
         const aclTensor* out);
ACLNN_OP(InplaceAddcdiv, const aclTensor* selfRef, const aclTensor* tensor1, const aclTensor* tensor2,
         const aclScalar* value);
ACLNN_OP(Lerps, const aclTensor* self, const aclTensor* end, const aclScalar* weight, aclTensor* out);
ACLNN_OP(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(IsFinite, const aclTensor* self, aclTensor* out);
ACLNN_OP(LogAddExp, const aclTensor* self, const aclTensor* other, aclTensor* out);
ACLNN_OP(PowTensorScalar, const aclTensor* self, const aclScalar* exponent, const aclTensor* out);
ACLNN_OP(PowTensorTensor, const aclTensor* self, const aclTensor* exponent, aclTensor* out);
}
