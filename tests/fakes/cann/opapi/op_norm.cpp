// Norms, gated units and rotary positions. RmsNorm, SwiGlu and RotaryPositionEmbeddingGrad are generated ops.
#include <cmath>

#include "arguments.h"
#include "backends/npu/cann/ops_nn.h"
#include "backends/npu/cann/ops_transformer.h"
#include "numerics_norm.h"

namespace fake {
namespace {

bool ends_with(const Shape& shape, const Shape& end) {
  return end.size() <= shape.size() &&
         std::equal(end.begin(), end.end(), shape.end() - static_cast<std::int64_t>(end.size()));
}

Shape leading(const Shape& shape, std::size_t trailing) {
  return {shape.begin(), shape.end() - static_cast<std::int64_t>(trailing)};
}

// A view of any strides as [rows, width], by way of a copy where it doesn't lie densely.
struct Matrix {
  Matrix(const View& whole, std::int64_t width) : original(whole), data(numerics::load(whole)) {
    seen = numerics::view_of(data, {width > 0 ? numerics::count_of(whole) / width : 0, width});
  }
  void write() const { numerics::store(original, std::span<const float>(data)); }
  View original;
  std::vector<float> data;
  View seen;
};

View flat(std::vector<float>& values) { return numerics::view_of(values, {static_cast<std::int64_t>(values.size())}); }

// "rstd FP32, rank of x, normed dims 1".
Shape statistics_shape(const Shape& x, std::size_t trailing) {
  Shape shape = x;
  std::fill(shape.end() - static_cast<std::int64_t>(trailing), shape.end(), 1);
  return shape;
}

// "one dtype, or (not 310P) FP16/BF16 x,y with FP32 gamma; gamma = trailing dims".
void require_norm(Op& op, const Tensor& x, const Tensor& gamma, const Tensor& y) {
  op.same_dtype(x, y);
  const bool mixed = gamma.dtype() == ACL_FLOAT && !op.on({Family::k310P});
  if (gamma.dtype() != x.dtype() && !mixed) op.same_dtype(x, gamma);
  op.need(gamma.rank() >= 1 && ends_with(x.shape(), gamma.shape()), "gamma should be the trailing dimensions of x");
  op.shape(y, x.shape());
  // "310P: last dim >= 32 B".
  op.need(!op.on({Family::k310P}) || x.dim(-1) * bits_of(x.dtype()) / 8 >= 32,
          "the last dimension should be 32 bytes at least on this SoC");
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(RmsNorm, const aclTensor* x_given, const aclTensor* gamma_given, double epsilon, const aclTensor* yOut,
        const aclTensor* rstdOut) {
  return plan("aclnnRmsNorm", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor x = op.in("x", x_given, floats);
    const Tensor gamma = op.in("gamma", gamma_given, floats);
    const Tensor y = op.out("y", yOut, floats);
    const Tensor rstd = op.in("rstd", rstdOut, fp32);
    require_norm(op, x, gamma, y);
    op.shape(rstd, statistics_shape(x.shape(), gamma.shape().size()));
    const bool no_infinity = op.on({Family::k310P});
    op.run([=](Run& run) {
      Matrix in(run.view(x), gamma.count());
      if (no_infinity) {  // "310P: no Inf/NaN"
        for (float& value : in.data) value = std::isfinite(value) ? value : std::nanf("");
      }
      std::vector<float> factors = numerics::load(run.view(gamma));
      std::vector<float> inverses(static_cast<std::size_t>(rstd.count()));
      const View to = flat(inverses);
      numerics::rms_norm(in.seen, flat(factors), epsilon, false, in.seen, &to);
      numerics::store(run.view(y), std::span<const float>(in.data));
      numerics::store(run.view(rstd), std::span<const float>(inverses));
    });
  });
}
FAKE_OP(RmsNormGrad, const aclTensor* dy_given, const aclTensor* x_given, const aclTensor* rstd_given,
        const aclTensor* gamma_given, const aclTensor* dxOut, const aclTensor* dgammaOut) {
  return plan("aclnnRmsNormGrad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor dy = op.in("dy", dy_given, floats);
    const Tensor x = op.in("x", x_given, floats);
    const Tensor rstd = op.in("rstd", rstd_given, fp32);
    const Tensor gamma = op.in("gamma", gamma_given, floats);
    const Tensor dx = op.out("dx", dxOut, floats);
    const Tensor dgamma = op.out("dgamma", dgammaOut, fp32);  // "dgamma ALWAYS FP32"
    op.same_dtype(dy, x);
    require_norm(op, x, gamma, dx);
    op.shape(dy, x.shape());
    op.need(x.rank() >= 2, "x should have two dimensions at least");  // "Grad: rank 2-8"
    // "rstd = x dims before gamma's"; the forward's own has ones after them.
    op.need(rstd.shape() == leading(x.shape(), gamma.shape().size()) ||
                rstd.shape() == statistics_shape(x.shape(), gamma.shape().size()),
            "rstd should be the dimensions of x before those of gamma");
    op.shape(dgamma, gamma.shape());
    op.workspace(scratch);
    op.run([=](Run& run) {
      const Matrix gradient(run.view(dy), gamma.count());
      const Matrix in(run.view(x), gamma.count());
      Matrix out(run.view(dx), gamma.count());
      std::vector<float> factors = numerics::load(run.view(gamma));
      std::vector<float> inverses = numerics::load(run.view(rstd));
      std::vector<float> sums(factors.size());
      numerics::rms_norm_gradient({gradient.seen, in.seen, flat(inverses), flat(factors), run.shuffle()}, out.seen,
                                  flat(sums));
      out.write();
      numerics::store(run.view(dgamma), std::span<const float>(sums));
    });
  });
}
FAKE_OP(AddRmsNorm, const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma_given, double epsilon,
        const aclTensor* yOut, const aclTensor* rstdOut, const aclTensor* xOut) {
  return plan("aclnnAddRmsNorm", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor one = op.in("x1", x1, floats);
    const Tensor two = op.in("x2", x2, floats);
    const Tensor gamma = op.in("gamma", gamma_given, floats);
    const Tensor y = op.out("y", yOut, floats);
    const Tensor sum = op.in("x", xOut, floats);
    // "null rstd only for FP16/BF16 with gamma [1,last]"
    if (rstdOut == nullptr && (one.dtype() == ACL_FLOAT || gamma.rank() != 2 || gamma.dim(0) != 1)) {
      refuse(ACLNN_ERR_PARAM_NULLPTR, "rstd is null");
    }
    const Tensor rstd = op.optional("rstd", rstdOut, fp32);
    const Shape normed = rstdOut == nullptr ? Shape{gamma.dim(-1)} : gamma.shape();
    for (const Tensor* other : {&two, &gamma, &y, &sum}) op.same_dtype(one, *other);  // "one dtype"
    for (const Tensor* other : {&two, &y, &sum}) op.shape(*other, one.shape());
    op.need(ends_with(one.shape(), normed), "gamma should be the trailing dimensions of x1");
    op.shape(rstd, statistics_shape(one.shape(), normed.size()));
    const bool valid_statistics = !op.on({Family::k310P});  // "310P: rstd not valid"
    op.run([=](Run& run) {
      numerics::map(
          run.view(sum), [](double a, double b) { return a + b; }, run.view(one), run.view(two));
      Matrix in(run.view(sum), numerics::count_of(normed));
      std::vector<float> factors = numerics::load(run.view(gamma));
      std::vector<float> inverses(static_cast<std::size_t>(in.seen.shape[0]));
      const View to = flat(inverses);
      numerics::rms_norm(in.seen, flat(factors), epsilon, false, in.seen, &to);
      numerics::store(run.view(y), std::span<const float>(in.data));
      if (rstd && valid_statistics) numerics::store(run.view(rstd), std::span<const float>(inverses));
    });
  });
}
FAKE_OP(LayerNorm, const aclTensor* input, const aclIntArray* normalizedShape, const aclTensor* weightOptional,
        const aclTensor* biasOptional, double eps, aclTensor* out, aclTensor* meanOutOptional,
        aclTensor* rstdOutOptional) {
  return plan("aclnnLayerNorm", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("input", input, floats);
    const Shape normed = op.array("normalizedShape", normalizedShape);
    const Tensor weight = op.optional("weight", weightOptional, floats);
    const Tensor bias = op.optional("bias", biasOptional, floats);
    const Tensor y = op.out("out", out, floats);
    const Tensor mean = op.optional("mean", meanOutOptional, floats);
    const Tensor rstd = op.optional("rstd", rstdOutOptional, floats);
    op.need(!normed.empty() && ends_with(x.shape(), normed),
            "normalizedShape should be the trailing dimensions of input");
    op.same_dtype(x, y);
    op.shape(y, x.shape());
    for (const Tensor& factor : {weight, bias}) op.shape(factor, normed);
    for (const Tensor& statistic : {mean, rstd}) op.shape(statistic, statistics_shape(x.shape(), normed.size()));
    op.run([=](Run& run) {
      Matrix in(run.view(x), numerics::count_of(normed));
      std::vector<float> factors = weight ? numerics::load(run.view(weight)) : std::vector<float>{};
      std::vector<float> shifts = bias ? numerics::load(run.view(bias)) : std::vector<float>{};
      std::vector<float> means(static_cast<std::size_t>(in.seen.shape[0]));
      std::vector<float> inverses(means.size());
      const View by = flat(factors);
      const View plus = flat(shifts);
      const View center = flat(means);
      const View inverse = flat(inverses);
      numerics::layer_norm(in.seen, weight ? &by : nullptr, bias ? &plus : nullptr, eps, in.seen, &center, &inverse);
      numerics::store(run.view(y), std::span<const float>(in.data));
      if (mean) numerics::store(run.view(mean), std::span<const float>(means));
      if (rstd) numerics::store(run.view(rstd), std::span<const float>(inverses));
    });
  });
}
FAKE_OP(LayerNormBackward, const aclTensor* gradOut, const aclTensor* input, const aclIntArray* normalizedShape,
        const aclTensor* mean_given, const aclTensor* rstd_given, const aclTensor* weightOptional,
        const aclTensor* biasOptional, const aclBoolArray* outputMask, aclTensor* gradInputOut,
        aclTensor* gradWeightOut, aclTensor* gradBiasOut) {
  return plan("aclnnLayerNormBackward", workspaceSize, executor, [&](Op& op) {
    const Tensor dy = op.in("gradOut", gradOut, floats);
    const Tensor x = op.in("input", input, floats);
    const Shape normed = op.array("normalizedShape", normalizedShape);
    const Tensor mean = op.in("mean", mean_given, floats);
    const Tensor rstd = op.in("rstd", rstd_given, floats);
    const Tensor weight = op.optional("weight", weightOptional, floats);
    const Tensor bias = op.optional("bias", biasOptional, floats);
    const std::vector<bool> wanted = op.truths("outputMask", outputMask);
    op.need(wanted.size() == 3, "outputMask should have three elements");
    op.need(!normed.empty() && ends_with(x.shape(), normed),
            "normalizedShape should be the trailing dimensions of input");
    op.shape(dy, x.shape());
    op.shape(mean, statistics_shape(x.shape(), normed.size()));
    op.shape(rstd, mean.shape());
    const Tensor dx = wanted[0] ? op.out("gradInput", gradInputOut, floats) : Tensor{};
    const Tensor dweight = wanted[1] ? op.out("gradWeight", gradWeightOut, floats) : Tensor{};
    const Tensor dbias = wanted[2] ? op.out("gradBias", gradBiasOut, floats) : Tensor{};
    op.shape(dx, x.shape());
    op.shape(dweight, normed);
    op.shape(dbias, normed);
    op.run([=](Run& run) {
      const std::int64_t width = numerics::count_of(normed);
      const Matrix gradient(run.view(dy), width);
      const Matrix in(run.view(x), width);
      std::vector<float> results(in.data.size());
      std::vector<float> factors = weight ? numerics::load(run.view(weight)) : std::vector<float>{};
      std::vector<float> means = numerics::load(run.view(mean));
      std::vector<float> inverses = numerics::load(run.view(rstd));
      std::vector<float> weight_sums(static_cast<std::size_t>(width));
      std::vector<float> bias_sums(static_cast<std::size_t>(width));
      const View by = flat(factors);
      const View to_x = numerics::view_of(results, in.seen.shape);
      const View to_weight = flat(weight_sums);
      const View to_bias = flat(bias_sums);
      numerics::layer_norm_gradient(
          {gradient.seen, in.seen, flat(means), flat(inverses), weight ? &by : nullptr, run.shuffle()}, &to_x,
          &to_weight, &to_bias);
      if (dx) numerics::store(run.view(dx), std::span<const float>(results));
      if (dweight) numerics::store(run.view(dweight), std::span<const float>(weight_sums));
      if (dbias) numerics::store(run.view(dbias), std::span<const float>(bias_sums));
    });
  });
}

namespace fake {
namespace {

// "SwiGlu(+Grad): split dim even ... 310P, and Grad everywhere: shape on 64 B, no empty."
void require_gate(Op& op, const Tensor& x, std::int64_t dimension, bool aligned) {
  (void)op.dimension(dimension, x.rank());
  op.need(x.rank() > 0 && x.dim(dimension) % 2 == 0, "the size along dim should be even");
  if (aligned) {
    op.need(x.count() > 0, "x should not be empty");
    op.need(x.dim(dimension) / 2 * bits_of(x.dtype()) / 8 % 32 == 0, "halves of dim should lie on 32 bytes");
  }
}

Shape halved(const Tensor& x, std::int64_t dimension) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] /= 2;
  return shape;
}

}  // namespace
}  // namespace fake

FAKE_OP(SwiGlu, const aclTensor* x_given, int64_t dim, const aclTensor* out) {
  return plan("aclnnSwiGlu", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor x = op.in("x", x_given, floats);
    const Tensor y = op.out("out", out, floats);
    op.same_dtype(x, y);
    require_gate(op, x, dim, op.on({Family::k310P}));
    op.shape(y, halved(x, dim));
    op.run([=](Run& run) { numerics::swish_gate(run.view(x), dim, run.view(y)); });
  });
}
FAKE_OP(SwiGluGrad, const aclTensor* yGrad, const aclTensor* x_given, int64_t dim, const aclTensor* out) {
  return plan("aclnnSwiGluGrad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor dy = op.in("yGrad", yGrad, floats);
    const Tensor x = op.in("x", x_given, floats);
    const Tensor dx = op.out("out", out, floats);
    op.same_dtype(dy, x);
    op.same_dtype(dx, x);
    require_gate(op, x, dim, true);
    op.shape(dy, halved(x, dim));
    op.shape(dx, x.shape());
    op.run([=](Run& run) { numerics::swish_gate_gradient(run.view(dy), run.view(x), dim, run.view(dx)); });
  });
}
