// Functions of one element, and their gradients.
#include <cmath>
#include <cstring>

#include "backends/npu/cann/ops_elementwise.h"
#include "backends/npu/cann/ops_nn.h"
#include "elementwise.h"
#include "numerics_norm.h"

namespace fake {
namespace {

double absolute(double x) { return std::fabs(x); }
double negative(double x) { return -x; }
double exponential(double x) { return std::exp(x); }
double logarithm(double x) { return std::log(x); }
double binary_logarithm(double x) { return std::log2(x); }
double root(double x) { return std::sqrt(x); }
double inverse_root(double x) { return 1 / std::sqrt(x); }
double inverse(double x) { return 1 / x; }
double hyperbolic_tangent(double x) { return std::tanh(x); }
double down(double x) { return std::floor(x); }
double up(double x) { return std::ceil(x); }
double nearest(double x) { return std::nearbyint(x); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }
double error_function(double x) { return std::erf(x); }
double rectified(double x) { return x > 0 || std::isnan(x) ? x : 0; }
double silu(double x) { return x * numerics::sigmoid(x); }
double gelu_by_tanh(double x) { return numerics::gelu(x, true); }
double gelu_by_erf(double x) { return numerics::gelu(x, false); }
double opposite(double x) { return x != 0 ? 0 : 1; }
double finite(double x) { return std::isfinite(x) ? 1 : 0; }
double complement(double x) { return static_cast<double>(~static_cast<std::int64_t>(x)); }

// Of a float's values, which a wider type holds too, what an op that looks at all types gives as bool.
void judge(Call& call, const aclTensor* self, const aclTensor* out, Unary function) {
  const Argument x = call.tensor("self", self, anything);
  const Argument y = call.tensor("out", out, anything);
  call.require_shape(y, x.shape);
  call.run([=](const Run& run) { numerics::map(run.view(y), function, run.view(x)); });
}

struct Softplus {
  double beta, threshold;
};
Softplus softplus_of(Call& call, const aclScalar* beta, const aclScalar* threshold) {
  return {call.number("beta", beta), call.number("threshold", threshold)};
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(Abs, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, absolute, numbers); });
}
FAKE_OP(Neg, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, negative, numbers); });
}
FAKE_OP(InplaceNeg, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, negative, numbers); });
}
FAKE_OP(Exp, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, exponential); });
}
FAKE_OP(InplaceExp, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, exponential); });
}
FAKE_OP(Log, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, logarithm); });
}
FAKE_OP(InplaceLog, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, logarithm); });
}
FAKE_OP(Log2, const aclTensor* self, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, binary_logarithm); });
}
FAKE_OP(Sqrt, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, root); });
}
FAKE_OP(InplaceSqrt, aclTensor* self) {
  FAKE_PLAN([&](Call& call) { unary(call, self, self, root); });
}
FAKE_OP(Rsqrt, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, inverse_root); });
}
FAKE_OP(InplaceRsqrt, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, inverse_root); });
}
FAKE_OP(Reciprocal, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, inverse); });
}
FAKE_OP(InplaceReciprocal, const aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, inverse); });
}
FAKE_OP(Tanh, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, hyperbolic_tangent); });
}
FAKE_OP(InplaceTanh, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, hyperbolic_tangent); });
}
FAKE_OP(Sigmoid, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, numerics::sigmoid); });
}
FAKE_OP(InplaceSigmoid, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, numerics::sigmoid); });
}
FAKE_OP(Floor, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, down); });
}
FAKE_OP(Ceil, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, up); });
}
FAKE_OP(Round, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, nearest); });
}
FAKE_OP(Sign, const aclTensor* self, aclTensor* result) {
  FAKE_PLAN([&](Call& call) { unary(call, self, result, sign, numbers); });
}
FAKE_OP(Sin, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, sine); });
}
FAKE_OP(Cos, const aclTensor* input, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, input, out, cosine); });
}
FAKE_OP(Erf, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, error_function); });
}
FAKE_OP(Relu, const aclTensor* self, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, rectified, numbers); });
}
FAKE_OP(InplaceRelu, aclTensor* selfRef) {
  FAKE_PLAN([&](Call& call) { unary(call, selfRef, selfRef, rectified, numbers); });
}
FAKE_OP(Silu, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, silu); });
}
// Without a mode, gelu is that of tanh (nn: gelu).
FAKE_OP(Gelu, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { unary(call, self, out, gelu_by_tanh); });
}
FAKE_OP(GeluV2, const aclTensor* x, int64_t approximate, aclTensor* y) {
  FAKE_PLAN([&](Call& call) {
    call.require(approximate == 0 || approximate == 1, "approximate should be 0 or 1");
    unary(call, x, y, approximate == 1 ? gelu_by_tanh : gelu_by_erf);
  });
}
FAKE_OP(LogicalNot, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { judge(call, self, out, opposite); });
}
FAKE_OP(IsFinite, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    static_cast<void>(call.tensor("out", out, truths));
    judge(call, self, out, finite);
  });
}
FAKE_OP(BitwiseNot, const aclTensor* self, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("self", self, anything);
    unary(call, self, out, x.element == Element::kBool ? opposite : complement, anything);
  });
}
FAKE_OP(Softplus, const aclTensor* self, const aclScalar* beta, const aclScalar* threshold, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Softplus shape = softplus_of(call, beta, threshold);
    const Argument x = call.tensor("self", self, floats);
    const Argument y = call.tensor("out", out, floats);
    call.require_shape(y, x.shape);
    call.run([=](const Run& run) {
      numerics::map(
          run.view(y),
          [shape](double a) {
            const double scaled = a * shape.beta;
            return scaled > shape.threshold ? a : std::log1p(std::exp(scaled)) / shape.beta;
          },
          run.view(x));
    });
  });
}
FAKE_OP(SoftplusBackward, const aclTensor* gradOutput, const aclTensor* self, const aclScalar* beta,
        const aclScalar* threshold, aclTensor* gradInput) {
  FAKE_PLAN([&](Call& call) {
    const Softplus shape = softplus_of(call, beta, threshold);
    unary_backward(call, gradOutput, self, gradInput, [shape](double g, double a) {
      const double scaled = a * shape.beta;
      return scaled > shape.threshold ? g : g * numerics::sigmoid(scaled);
    });
  });
}
FAKE_OP(SiluBackward, const aclTensor* gradOutput, const aclTensor* self, aclTensor* gradInput) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_310p);  // "Silu all; SiluBackward not 310P"
    unary_backward(call, gradOutput, self, gradInput, [](double g, double a) { return g * numerics::silu_slope(a); });
  });
}
FAKE_OP(GeluBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* gradInput) {
  FAKE_PLAN([&](Call& call) {
    unary_backward(call, gradOutput, self, gradInput,
                   [](double g, double a) { return g * numerics::gelu_slope(a, true); });
  });
}
FAKE_OP(GeluBackwardV2, const aclTensor* gradOutput, const aclTensor* self, char* approximate, aclTensor* gradInput) {
  FAKE_PLAN([&](Call& call) {
    const bool by_tanh = approximate != nullptr && std::strcmp(approximate, "tanh") == 0;
    call.require(by_tanh || approximate == nullptr || std::strcmp(approximate, "none") == 0,
                 "approximate should be none or tanh");
    unary_backward(call, gradOutput, self, gradInput,
                   [by_tanh](double g, double a) { return g * numerics::gelu_slope(a, by_tanh); });
  });
}
FAKE_OP(SigmoidBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput) {
  FAKE_PLAN([&](Call& call) {
    unary_backward(call, gradOutput, output, gradInput, [](double g, double y) { return g * y * (1 - y); });
  });
}
FAKE_OP(TanhBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput) {
  FAKE_PLAN([&](Call& call) {
    unary_backward(call, gradOutput, output, gradInput, [](double g, double y) { return g * (1 - y * y); });
  });
}
FAKE_OP(ThresholdBackward, const aclTensor* gradOutput, const aclTensor* self, const aclScalar* threshold,
        aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const double limit = call.number("threshold", threshold);
    unary_backward(call, gradOutput, self, out, [limit](double g, double x) { return x > limit ? g : 0; });
  });
}
