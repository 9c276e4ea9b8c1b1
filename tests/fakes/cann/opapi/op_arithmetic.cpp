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

void require_divisible(Call& call, const aclTensor* out) {
  // Div without a rounding mode gives floats, whatever it divides.
  static_cast<void>(
      call.tensor("out", out, {Element::kFloat32, Element::kFloat16, Element::kBfloat16, Element::kFloat64}));
}

void add_product(Call& call, const aclTensor* self, const aclTensor* one, const aclTensor* two, const aclScalar* value,
                 const aclTensor* out, Binary function) {
  const Argument x = call.tensor("self", self, numbers);
  const Argument a = call.tensor("tensor1", one, numbers);
  const Argument b = call.tensor("tensor2", two, numbers);
  const double factor = call.number("value", value);
  const Argument y = call.tensor("out", out, numbers);
  call.require_shape(y, broadcast_shape(call, x.shape, broadcast_shape(call, a.shape, b.shape)));
  require_castable(call, promoted(x.element, promoted(a.element, b.element)), y);
  call.run([=](const Run& run) {
    numerics::map(
        run.view(y), [&](double base, double p, double q) { return base + factor * function(p, q); }, run.view(x),
        run.view(a), run.view(b));
  });
}

double product(double a, double b) { return a * b; }

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(Adds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  FAKE_PLAN(
      [&](Call& call) { with_scalar(call, self, other, out, numbers, weighted(1, call.number("alpha", alpha))); });
}
FAKE_OP(InplaceAdd, const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha) {
  FAKE_PLAN([&](Call& call) { in_place(call, selfRef, other, numbers, weighted(1, call.number("alpha", alpha))); });
}
FAKE_OP(InplaceAdds, const aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha) {
  FAKE_PLAN([&](Call& call) {
    with_scalar(call, selfRef, other, selfRef, numbers, weighted(1, call.number("alpha", alpha)));
  });
}
FAKE_OP(Sub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, numbers, weighted(1, -call.number("alpha", alpha))); });
}
FAKE_OP(Subs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  FAKE_PLAN(
      [&](Call& call) { with_scalar(call, self, other, out, numbers, weighted(1, -call.number("alpha", alpha))); });
}
FAKE_OP(InplaceSub, aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha) {
  FAKE_PLAN([&](Call& call) { in_place(call, selfRef, other, numbers, weighted(1, -call.number("alpha", alpha))); });
}
FAKE_OP(InplaceSubs, aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha) {
  FAKE_PLAN([&](Call& call) {
    with_scalar(call, selfRef, other, selfRef, numbers, weighted(1, -call.number("alpha", alpha)));
  });
}
FAKE_OP(Rsub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, numbers, weighted(-call.number("alpha", alpha), 1)); });
}
FAKE_OP(Rsubs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  FAKE_PLAN(
      [&](Call& call) { with_scalar(call, self, other, out, numbers, weighted(-call.number("alpha", alpha), 1)); });
}
FAKE_OP(InplaceMul, aclTensor* selfRef, const aclTensor* other) {
  FAKE_PLAN([&](Call& call) { in_place(call, selfRef, other, anything, product); });
}
FAKE_OP(InplaceMuls, aclTensor* selfRef, const aclScalar* other) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, selfRef, other, selfRef, numbers, product); });
}
FAKE_OP(Div, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    require_divisible(call, out);
    binary(call, self, other, out, numbers, divide);
  });
}
FAKE_OP(Divs, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    require_divisible(call, out);
    with_scalar(call, self, other, out, numbers, divide);
  });
}
FAKE_OP(InplaceDiv, aclTensor* selfRef, const aclTensor* other) {
  FAKE_PLAN([&](Call& call) {
    require_divisible(call, selfRef);
    in_place(call, selfRef, other, numbers, divide);
  });
}
FAKE_OP(InplaceDivs, aclTensor* selfRef, const aclScalar* other) {
  FAKE_PLAN([&](Call& call) {
    require_divisible(call, selfRef);
    with_scalar(call, selfRef, other, selfRef, numbers, divide);
  });
}
FAKE_OP(FloorDivide, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, numbers, floor_divide); });
}
FAKE_OP(FloorDivides, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, self, other, out, numbers, floor_divide); });
}
FAKE_OP(RemainderTensorTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, numbers, modulo); });
}
FAKE_OP(RemainderTensorScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, self, other, out, numbers, modulo); });
}
FAKE_OP(PowTensorScalar, const aclTensor* self, const aclScalar* exponent, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    with_scalar(call, self, exponent, out, numbers, [](double a, double b) { return std::pow(a, b); });
  });
}
FAKE_OP(PowTensorTensor, const aclTensor* self, const aclTensor* exponent, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    binary(call, self, exponent, out, numbers, [](double a, double b) { return std::pow(a, b); });
  });
}
FAKE_OP(Maximum, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, anything, larger); });
}
FAKE_OP(Minimum, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, anything, smaller); });
}
FAKE_OP(ClampMin, const aclTensor* self, const aclScalar* clipValueMin, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, self, clipValueMin, out, numbers, larger); });
}
FAKE_OP(ClampMax, const aclTensor* self, const aclScalar* clipValueMax, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, self, clipValueMax, out, numbers, smaller); });
}
FAKE_OP(InplaceClampMax, const aclTensor* selfRef, const aclScalar* clipValueMax) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, selfRef, clipValueMax, selfRef, numbers, smaller); });
}
FAKE_OP(ClampMinTensor, const aclTensor* self, const aclTensor* clipValueMin, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, clipValueMin, out, numbers, larger); });
}
FAKE_OP(ClampMaxTensor, const aclTensor* self, const aclTensor* max, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, max, out, numbers, smaller); });
}
FAKE_OP(Clamp, const aclTensor* self, const aclScalar* clipValueMin, const aclScalar* clipValueMax, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    // One of the limits may be missing, not both (math: clamp).
    if (clipValueMin == nullptr && clipValueMax == nullptr)
      call.refuse(ACLNN_ERR_PARAM_NULLPTR, "clipValueMin and clipValueMax are null");
    const double low = clipValueMin != nullptr ? call.number("clipValueMin", clipValueMin) : -INFINITY;
    const double high = clipValueMax != nullptr ? call.number("clipValueMax", clipValueMax) : INFINITY;
    with_scalar(call, self, clipValueMin != nullptr ? clipValueMin : clipValueMax, out, numbers,
                [low, high](double a, double) { return smaller(larger(a, low), high); });
  });
}
FAKE_OP(ClampTensor, const aclTensor* self, const aclTensor* clipValueMin, const aclTensor* clipValueMax,
        aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, numbers);
    const Argument low = call.tensor("clipValueMin", clipValueMin, numbers);
    const Argument high = call.tensor("clipValueMax", clipValueMax, numbers);
    const Argument y = call.tensor("out", out, numbers);
    call.require_shape(y, broadcast_shape(call, x.shape, broadcast_shape(call, low.shape, high.shape)));
    call.run([=](const Run& run) {
      numerics::map(
          run.view(y), [](double a, double b, double c) { return smaller(larger(a, b), c); }, run.view(x),
          run.view(low), run.view(high));
    });
  });
}
FAKE_OP(LogAddExp, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, floats, log_add_exp); });
}
FAKE_OP(BitwiseAndTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, integers, bitwise_and); });
}
FAKE_OP(BitwiseOrTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { binary(call, self, other, out, integers, bitwise_or); });
}
FAKE_OP(BitwiseAndScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, self, other, out, integers, bitwise_and); });
}
FAKE_OP(BitwiseOrScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { with_scalar(call, self, other, out, integers, bitwise_or); });
}
FAKE_OP(Addcmul, const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2, const aclScalar* value,
        aclTensor* out) {
  FAKE_PLAN([&](Call& call) { add_product(call, self, tensor1, tensor2, value, out, product); });
}
FAKE_OP(InplaceAddcmul, const aclTensor* selfRef, const aclTensor* tensor1, const aclTensor* tensor2,
        const aclScalar* value) {
  FAKE_PLAN([&](Call& call) { add_product(call, selfRef, tensor1, tensor2, value, selfRef, product); });
}
FAKE_OP(Addcdiv, const aclTensor* self, const aclTensor* tensor1, const aclTensor* tensor2, const aclScalar* value,
        const aclTensor* out) {
  FAKE_PLAN([&](Call& call) { add_product(call, self, tensor1, tensor2, value, out, divide); });
}
FAKE_OP(InplaceAddcdiv, const aclTensor* selfRef, const aclTensor* tensor1, const aclTensor* tensor2,
        const aclScalar* value) {
  FAKE_PLAN([&](Call& call) { add_product(call, selfRef, tensor1, tensor2, value, selfRef, divide); });
}
FAKE_OP(Lerps, const aclTensor* self, const aclTensor* end, const aclScalar* weight, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const double share = call.number("weight", weight);
    binary(call, self, end, out, floats, [share](double a, double b) { return a + share * (b - a); });
  });
}
