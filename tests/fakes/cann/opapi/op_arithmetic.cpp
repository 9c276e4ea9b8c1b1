// Sums, products, extremes and bits, of two tensors or of one and a scalar.
#include <cmath>

#include "backends/npu/cann/ops_elementwise.h"
#include "elementwise.h"

namespace fake {
namespace {

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double divide(double a, double b) { return a / b; }
double floor_divide(double a, double b) { return std::floor(a / b); }
double modulo(double a, double b) { return a - std::floor(a / b) * b; }
double bitwise_and(double a, double b) {
  return static_cast<double>(static_cast<std::int64_t>(a) & static_cast<std::int64_t>(b));
}
double bitwise_or(double a, double b) {
  return static_cast<double>(static_cast<std::int64_t>(a) | static_cast<std::int64_t>(b));
}
double log_add_exp(double a, double b) {
  const double top = larger(a, b);
  return std::isinf(top) ? top : top + std::log1p(std::exp(smaller(a, b) - top));
}

// a + factor b, or factor a + b where it is the other way round.
std::function<double(double, double)> weighted(double one, double other) {
  return [one, other](double a, double b) { return one * a + other * b; };
}

void require_divisible(Op& op, const aclTensor* out) {
  // Div without a rounding mode gives floats, whatever it divides.
  static_cast<void>(op.out("out", out, wide_floats));
}

void add_product(Op& op, const aclTensor* self, const aclTensor* one, const aclTensor* two, const aclScalar* value,
                 const aclTensor* out, Binary function) {
  const Tensor x = op.in("self", self, numbers);
  const Tensor a = op.in("tensor1", one, numbers);
  const Tensor b = op.in("tensor2", two, numbers);
  const double factor = op.number("value", value);
  const Tensor y = op.out("out", out, numbers);
  op.shape(y, broadcast_shape(op, x.shape(), broadcast_shape(op, a.shape(), b.shape())));
  require_castable(op, promoted(x.dtype(), promoted(a.dtype(), b.dtype())), y);
  op.run([=](Run& run) {
    numerics::map(
        run.view(y), [&](double base, double p, double q) { return base + factor * function(p, q); }, run.view(x),
        run.view(a), run.view(b));
  });
}

double multiplied(double a, double b) { return a * b; }

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(Adds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnAdds", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, numbers, weighted(1, op.number("alpha", alpha))); });
}
FAKE_OP(InplaceAdds, const aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha) {
  return plan("aclnnInplaceAdds", workspaceSize, executor, [&](Op& op) {
    with_scalar(op, selfRef, other, selfRef, numbers, weighted(1, op.number("alpha", alpha)));
  });
}
FAKE_OP(Sub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnSub", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, numbers, weighted(1, -op.number("alpha", alpha))); });
}
FAKE_OP(Subs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnSubs", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, numbers, weighted(1, -op.number("alpha", alpha))); });
}
FAKE_OP(InplaceSub, aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha) {
  return plan("aclnnInplaceSub", workspaceSize, executor,
              [&](Op& op) { in_place(op, selfRef, other, numbers, weighted(1, -op.number("alpha", alpha))); });
}
FAKE_OP(InplaceSubs, aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha) {
  return plan("aclnnInplaceSubs", workspaceSize, executor, [&](Op& op) {
    with_scalar(op, selfRef, other, selfRef, numbers, weighted(1, -op.number("alpha", alpha)));
  });
}
FAKE_OP(Rsub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnRsub", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, numbers, weighted(-op.number("alpha", alpha), 1)); });
}
FAKE_OP(Rsubs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnRsubs", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, numbers, weighted(-op.number("alpha", alpha), 1)); });
}
FAKE_OP(InplaceMul, aclTensor* selfRef, const aclTensor* other) {
  return plan("aclnnInplaceMul", workspaceSize, executor,
              [&](Op& op) { in_place(op, selfRef, other, anything, multiplied); });
}
FAKE_OP(InplaceMuls, aclTensor* selfRef, const aclScalar* other) {
  return plan("aclnnInplaceMuls", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, selfRef, other, selfRef, numbers, multiplied); });
}
FAKE_OP(Div, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnDiv", workspaceSize, executor, [&](Op& op) {
    require_divisible(op, out);
    binary(op, self, other, out, numbers, divide);
  });
}
FAKE_OP(Divs, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnDivs", workspaceSize, executor, [&](Op& op) {
    require_divisible(op, out);
    with_scalar(op, self, other, out, numbers, divide);
  });
}
FAKE_OP(InplaceDiv, aclTensor* selfRef, const aclTensor* other) {
  return plan("aclnnInplaceDiv", workspaceSize, executor, [&](Op& op) {
    require_divisible(op, selfRef);
    in_place(op, selfRef, other, numbers, divide);
  });
}
FAKE_OP(InplaceDivs, aclTensor* selfRef, const aclScalar* other) {
  return plan("aclnnInplaceDivs", workspaceSize, executor, [&](Op& op) {
    require_divisible(op, selfRef);
    with_scalar(op, selfRef, other, selfRef, numbers, divide);
  });
}
FAKE_OP(FloorDivide, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnFloorDivide", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, numbers, floor_divide); });
}
FAKE_OP(FloorDivides, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnFloorDivides", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, numbers, floor_divide); });
}
FAKE_OP(RemainderTensorTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnRemainderTensorTensor", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, numbers, modulo); });
}
FAKE_OP(RemainderTensorScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnRemainderTensorScalar", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, numbers, modulo); });
}
FAKE_OP(PowTensorScalar, const aclTensor* self, const aclScalar* exponent, const aclTensor* out) {
  return plan("aclnnPowTensorScalar", workspaceSize, executor, [&](Op& op) {
    with_scalar(op, self, exponent, out, numbers, [](double a, double b) { return std::pow(a, b); });
  });
}
FAKE_OP(PowTensorTensor, const aclTensor* self, const aclTensor* exponent, aclTensor* out) {
  return plan("aclnnPowTensorTensor", workspaceSize, executor, [&](Op& op) {
    binary(op, self, exponent, out, numbers, [](double a, double b) { return std::pow(a, b); });
  });
}
FAKE_OP(Maximum, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnMaximum", workspaceSize, executor, [&](Op& op) { binary(op, self, other, out, anything, larger); });
}
FAKE_OP(Minimum, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnMinimum", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, anything, smaller); });
}
FAKE_OP(ClampMin, const aclTensor* self, const aclScalar* clipValueMin, aclTensor* out) {
  return plan("aclnnClampMin", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, clipValueMin, out, numbers, larger); });
}
FAKE_OP(ClampMax, const aclTensor* self, const aclScalar* clipValueMax, aclTensor* out) {
  return plan("aclnnClampMax", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, clipValueMax, out, numbers, smaller); });
}
FAKE_OP(InplaceClampMax, const aclTensor* selfRef, const aclScalar* clipValueMax) {
  return plan("aclnnInplaceClampMax", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, selfRef, clipValueMax, selfRef, numbers, smaller); });
}
FAKE_OP(ClampMinTensor, const aclTensor* self, const aclTensor* clipValueMin, aclTensor* out) {
  return plan("aclnnClampMinTensor", workspaceSize, executor,
              [&](Op& op) { binary(op, self, clipValueMin, out, numbers, larger); });
}
FAKE_OP(ClampMaxTensor, const aclTensor* self, const aclTensor* max, aclTensor* out) {
  return plan("aclnnClampMaxTensor", workspaceSize, executor,
              [&](Op& op) { binary(op, self, max, out, numbers, smaller); });
}
FAKE_OP(Clamp, const aclTensor* self, const aclScalar* clipValueMin, const aclScalar* clipValueMax, aclTensor* out) {
  return plan("aclnnClamp", workspaceSize, executor, [&](Op& op) {
    // One of the limits may be missing, not both (math: clamp).
    if (clipValueMin == nullptr && clipValueMax == nullptr)
      refuse(ACLNN_ERR_PARAM_NULLPTR, "clipValueMin and clipValueMax are null");
    const double low = clipValueMin != nullptr ? op.number("clipValueMin", clipValueMin) : -INFINITY;
    const double high = clipValueMax != nullptr ? op.number("clipValueMax", clipValueMax) : INFINITY;
    with_scalar(op, self, clipValueMin != nullptr ? clipValueMin : clipValueMax, out, numbers,
                [low, high](double a, double) { return smaller(larger(a, low), high); });
  });
}
FAKE_OP(ClampTensor, const aclTensor* self, const aclTensor* clipValueMin, const aclTensor* clipValueMax,
        aclTensor* out) {
  return plan("aclnnClampTensor", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, numbers);
    const Tensor low = op.in("clipValueMin", clipValueMin, numbers);
    const Tensor high = op.in("clipValueMax", clipValueMax, numbers);
    const Tensor y = op.out("out", out, numbers);
    op.shape(y, broadcast_shape(op, x.shape(), broadcast_shape(op, low.shape(), high.shape())));
    op.run([=](Run& run) {
      numerics::map(
          run.view(y), [](double a, double b, double c) { return smaller(larger(a, b), c); }, run.view(x),
          run.view(low), run.view(high));
    });
  });
}
FAKE_OP(LogAddExp, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnLogAddExp", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, floats, log_add_exp); });
}
FAKE_OP(BitwiseAndTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnBitwiseAndTensor", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, integers, bitwise_and); });
}
FAKE_OP(BitwiseOrTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnBitwiseOrTensor", workspaceSize, executor,
              [&](Op& op) { binary(op, self, other, out, integers, bitwise_or); });
}
FAKE_OP(BitwiseAndScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnBitwiseAndScalar", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, integers, bitwise_and); });
}
FAKE_OP(BitwiseOrScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnBitwiseOrScalar", workspaceSize, executor,
              [&](Op& op) { with_scalar(op, self, other, out, integers, bitwise_or); });
}
FAKE_OP(Addcmul, const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2, const aclScalar* value,
        aclTensor* out) {
  return plan("aclnnAddcmul", workspaceSize, executor,
              [&](Op& op) { add_product(op, self, tensor1, tensor2, value, out, multiplied); });
}
FAKE_OP(InplaceAddcmul, const aclTensor* selfRef, const aclTensor* tensor1, const aclTensor* tensor2,
        const aclScalar* value) {
  return plan("aclnnInplaceAddcmul", workspaceSize, executor,
              [&](Op& op) { add_product(op, selfRef, tensor1, tensor2, value, selfRef, multiplied); });
}
FAKE_OP(Addcdiv, const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2, const aclScalar* value,
        const aclTensor* out) {
  return plan("aclnnAddcdiv", workspaceSize, executor,
              [&](Op& op) { add_product(op, self, tensor1, tensor2, value, out, divide); });
}
FAKE_OP(InplaceAddcdiv, const aclTensor* selfRef, const aclTensor* tensor1, const aclTensor* tensor2,
        const aclScalar* value) {
  return plan("aclnnInplaceAddcdiv", workspaceSize, executor,
              [&](Op& op) { add_product(op, selfRef, tensor1, tensor2, value, selfRef, divide); });
}
FAKE_OP(Lerps, const aclTensor* self, const aclTensor* end, const aclScalar* weight, aclTensor* out) {
  return plan("aclnnLerps", workspaceSize, executor, [&](Op& op) {
    const double share = op.number("weight", weight);
    binary(op, self, end, out, floats, [share](double a, double b) { return a + share * (b - a); });
  });
}
