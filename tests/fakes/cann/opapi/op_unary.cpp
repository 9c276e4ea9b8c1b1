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
void judge(Op& op, const aclTensor* self, const aclTensor* out, Unary function) {
  const Tensor x = op.in("self", self, anything);
  const Tensor y = op.out("out", out, anything);
  op.shape(y, x.shape());
  op.run([=](Run& run) { numerics::map(run.view(y), function, run.view(x)); });
}

struct Softplus {
  double beta, threshold;
};
Softplus softplus_of(Op& op, const aclScalar* beta, const aclScalar* threshold) {
  return {op.number("beta", beta), op.number("threshold", threshold)};
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(Abs, const aclTensor* self, aclTensor* out) {
  return plan("aclnnAbs", workspaceSize, executor, [&](Op& op) { unary(op, self, out, absolute, numbers); });
}
FAKE_OP(Neg, const aclTensor* self, aclTensor* out) {
  return plan("aclnnNeg", workspaceSize, executor, [&](Op& op) { unary(op, self, out, negative, numbers); });
}
FAKE_OP(InplaceNeg, aclTensor* selfRef) {
  return plan("aclnnInplaceNeg", workspaceSize, executor,
              [&](Op& op) { unary(op, selfRef, selfRef, negative, numbers); });
}
FAKE_OP(Exp, const aclTensor* self, aclTensor* out) {
  return plan("aclnnExp", workspaceSize, executor, [&](Op& op) { unary(op, self, out, exponential); });
}
FAKE_OP(InplaceExp, aclTensor* selfRef) {
  return plan("aclnnInplaceExp", workspaceSize, executor, [&](Op& op) { unary(op, selfRef, selfRef, exponential); });
}
FAKE_OP(Log, const aclTensor* self, aclTensor* out) {
  return plan("aclnnLog", workspaceSize, executor, [&](Op& op) { unary(op, self, out, logarithm); });
}
FAKE_OP(InplaceLog, aclTensor* selfRef) {
  return plan("aclnnInplaceLog", workspaceSize, executor, [&](Op& op) { unary(op, selfRef, selfRef, logarithm); });
}
FAKE_OP(Log2, const aclTensor* self, const aclTensor* out) {
  return plan("aclnnLog2", workspaceSize, executor, [&](Op& op) { unary(op, self, out, binary_logarithm); });
}
FAKE_OP(Sqrt, const aclTensor* self, aclTensor* out) {
  return plan("aclnnSqrt", workspaceSize, executor, [&](Op& op) { unary(op, self, out, root); });
}
FAKE_OP(InplaceSqrt, aclTensor* self) {
  return plan("aclnnInplaceSqrt", workspaceSize, executor, [&](Op& op) { unary(op, self, self, root); });
}
FAKE_OP(Rsqrt, const aclTensor* self, aclTensor* out) {
  return plan("aclnnRsqrt", workspaceSize, executor, [&](Op& op) { unary(op, self, out, inverse_root); });
}
FAKE_OP(InplaceRsqrt, aclTensor* selfRef) {
  return plan("aclnnInplaceRsqrt", workspaceSize, executor, [&](Op& op) { unary(op, selfRef, selfRef, inverse_root); });
}
FAKE_OP(Reciprocal, const aclTensor* self, aclTensor* out) {
  return plan("aclnnReciprocal", workspaceSize, executor, [&](Op& op) { unary(op, self, out, inverse); });
}
FAKE_OP(InplaceReciprocal, const aclTensor* selfRef) {
  return plan("aclnnInplaceReciprocal", workspaceSize, executor, [&](Op& op) { unary(op, selfRef, selfRef, inverse); });
}
FAKE_OP(Tanh, const aclTensor* self, aclTensor* out) {
  return plan("aclnnTanh", workspaceSize, executor, [&](Op& op) { unary(op, self, out, hyperbolic_tangent); });
}
FAKE_OP(InplaceTanh, aclTensor* selfRef) {
  return plan("aclnnInplaceTanh", workspaceSize, executor,
              [&](Op& op) { unary(op, selfRef, selfRef, hyperbolic_tangent); });
}
FAKE_OP(Sigmoid, const aclTensor* self, aclTensor* out) {
  return plan("aclnnSigmoid", workspaceSize, executor, [&](Op& op) { unary(op, self, out, numerics::sigmoid); });
}
FAKE_OP(InplaceSigmoid, aclTensor* selfRef) {
  return plan("aclnnInplaceSigmoid", workspaceSize, executor,
              [&](Op& op) { unary(op, selfRef, selfRef, numerics::sigmoid); });
}
FAKE_OP(Floor, const aclTensor* self, aclTensor* out) {
  return plan("aclnnFloor", workspaceSize, executor, [&](Op& op) { unary(op, self, out, down); });
}
FAKE_OP(Ceil, const aclTensor* self, aclTensor* out) {
  return plan("aclnnCeil", workspaceSize, executor, [&](Op& op) { unary(op, self, out, up); });
}
FAKE_OP(Round, const aclTensor* self, aclTensor* out) {
  return plan("aclnnRound", workspaceSize, executor, [&](Op& op) { unary(op, self, out, nearest); });
}
FAKE_OP(Sign, const aclTensor* self, aclTensor* result) {
  return plan("aclnnSign", workspaceSize, executor, [&](Op& op) { unary(op, self, result, sign, numbers); });
}
FAKE_OP(Sin, const aclTensor* self, aclTensor* out) {
  return plan("aclnnSin", workspaceSize, executor, [&](Op& op) { unary(op, self, out, sine); });
}
FAKE_OP(Cos, const aclTensor* input, aclTensor* out) {
  return plan("aclnnCos", workspaceSize, executor, [&](Op& op) { unary(op, input, out, cosine); });
}
FAKE_OP(Erf, const aclTensor* self, aclTensor* out) {
  return plan("aclnnErf", workspaceSize, executor, [&](Op& op) { unary(op, self, out, error_function); });
}
FAKE_OP(Relu, const aclTensor* self, const aclTensor* out) {
  return plan("aclnnRelu", workspaceSize, executor, [&](Op& op) { unary(op, self, out, rectified, numbers); });
}
FAKE_OP(InplaceRelu, aclTensor* selfRef) {
  return plan("aclnnInplaceRelu", workspaceSize, executor,
              [&](Op& op) { unary(op, selfRef, selfRef, rectified, numbers); });
}
FAKE_OP(Silu, const aclTensor* self, aclTensor* out) {
  return plan("aclnnSilu", workspaceSize, executor, [&](Op& op) { unary(op, self, out, silu); });
}
// Without a mode, gelu is that of tanh (nn: gelu).
FAKE_OP(Gelu, const aclTensor* self, aclTensor* out) {
  return plan("aclnnGelu", workspaceSize, executor, [&](Op& op) { unary(op, self, out, gelu_by_tanh); });
}
FAKE_OP(GeluV2, const aclTensor* x, int64_t approximate, aclTensor* y) {
  return plan("aclnnGeluV2", workspaceSize, executor, [&](Op& op) {
    op.need(approximate == 0 || approximate == 1, "approximate should be 0 or 1");
    unary(op, x, y, approximate == 1 ? gelu_by_tanh : gelu_by_erf);
  });
}
FAKE_OP(LogicalNot, const aclTensor* self, aclTensor* out) {
  return plan("aclnnLogicalNot", workspaceSize, executor, [&](Op& op) { judge(op, self, out, opposite); });
}
FAKE_OP(IsFinite, const aclTensor* self, aclTensor* out) {
  return plan("aclnnIsFinite", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(op.out("out", out, truths));
    judge(op, self, out, finite);
  });
}
FAKE_OP(BitwiseNot, const aclTensor* self, aclTensor* out) {
  return plan("aclnnBitwiseNot", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self, anything);
    unary(op, self, out, x.dtype() == ACL_BOOL ? opposite : complement, anything);
  });
}
FAKE_OP(Softplus, const aclTensor* self, const aclScalar* beta, const aclScalar* threshold, aclTensor* out) {
  return plan("aclnnSoftplus", workspaceSize, executor, [&](Op& op) {
    const Softplus shape = softplus_of(op, beta, threshold);
    const Tensor x = op.in("self", self, floats);
    const Tensor y = op.out("out", out, floats);
    op.shape(y, x.shape());
    op.run([=](Run& run) {
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
  return plan("aclnnSoftplusBackward", workspaceSize, executor, [&](Op& op) {
    const Softplus shape = softplus_of(op, beta, threshold);
    unary_backward(op, gradOutput, self, gradInput, [shape](double g, double a) {
      const double scaled = a * shape.beta;
      return scaled > shape.threshold ? g : g * numerics::sigmoid(scaled);
    });
  });
}
FAKE_OP(SiluBackward, const aclTensor* gradOutput, const aclTensor* self, aclTensor* gradInput) {
  return plan("aclnnSiluBackward", workspaceSize, executor, [&](Op& op) {
    op.chips(not_310p);  // "Silu all; SiluBackward not 310P"
    unary_backward(op, gradOutput, self, gradInput, [](double g, double a) { return g * numerics::silu_slope(a); });
  });
}
FAKE_OP(GeluBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* gradInput) {
  return plan("aclnnGeluBackward", workspaceSize, executor, [&](Op& op) {
    unary_backward(op, gradOutput, self, gradInput,
                   [](double g, double a) { return g * numerics::gelu_slope(a, true); });
  });
}
FAKE_OP(GeluBackwardV2, const aclTensor* gradOutput, const aclTensor* self, char* approximate, aclTensor* gradInput) {
  return plan("aclnnGeluBackwardV2", workspaceSize, executor, [&](Op& op) {
    const bool by_tanh = approximate != nullptr && std::strcmp(approximate, "tanh") == 0;
    op.need(by_tanh || approximate == nullptr || std::strcmp(approximate, "none") == 0,
            "approximate should be none or tanh");
    unary_backward(op, gradOutput, self, gradInput,
                   [by_tanh](double g, double a) { return g * numerics::gelu_slope(a, by_tanh); });
  });
}
FAKE_OP(SigmoidBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput) {
  return plan("aclnnSigmoidBackward", workspaceSize, executor, [&](Op& op) {
    unary_backward(op, gradOutput, output, gradInput, [](double g, double y) { return g * y * (1 - y); });
  });
}
FAKE_OP(TanhBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput) {
  return plan("aclnnTanhBackward", workspaceSize, executor, [&](Op& op) {
    unary_backward(op, gradOutput, output, gradInput, [](double g, double y) { return g * (1 - y * y); });
  });
}
FAKE_OP(ThresholdBackward, const aclTensor* gradOutput, const aclTensor* self, const aclScalar* threshold,
        aclTensor* out) {
  return plan("aclnnThresholdBackward", workspaceSize, executor, [&](Op& op) {
    const double limit = op.number("threshold", threshold);
    unary_backward(op, gradOutput, self, out, [limit](double g, double x) { return x > limit ? g : 0; });
  });
}
