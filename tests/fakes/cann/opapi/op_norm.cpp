// Norms, gated units and rotary positions. RmsNorm, SwiGlu and RotaryPositionEmbeddingGrad are generated ops.
#include <cmath>

#include "backends/npu/cann/ops_nn.h"
#include "backends/npu/cann/ops_transformer.h"
#include "call.h"
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
void require_norm(Call& call, const Argument& x, const Argument& gamma, const Argument& y) {
  call.require_same_type(x, y);
  const bool mixed = gamma.element == Element::kFloat32 && !call.on({Chip::k310P});
  if (gamma.element != x.element && !mixed) call.require_same_type(x, gamma);
  call.require(gamma.rank() >= 1 && ends_with(x.shape, gamma.shape), "gamma should be the trailing dimensions of x");
  call.require_shape(y, x.shape);
  // "310P: last dim >= 32 B".
  call.require(!call.on({Chip::k310P}) || x.size(-1) * numerics::bits_of(x.element) / 8 >= 32,
               "the last dimension should be 32 bytes at least on this SoC");
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(RmsNorm, const aclTensor* x_given, const aclTensor* gamma_given, double epsilon, const aclTensor* yOut,
        const aclTensor* rstdOut) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_910, Kind::kGenerated);
    const Argument x = call.tensor("x", x_given, floats);
    const Argument gamma = call.tensor("gamma", gamma_given, floats);
    const Argument y = call.tensor("y", yOut, floats);
    const Argument rstd = call.tensor("rstd", rstdOut, fp32);
    require_norm(call, x, gamma, y);
    call.require_shape(rstd, statistics_shape(x.shape, gamma.shape.size()));
    const bool no_infinity = call.on({Chip::k310P});
    call.run([=](const Run& run) {
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
  FAKE_PLAN([&](Call& call) {
    call.available(not_910, Kind::kGenerated);
    const Argument dy = call.tensor("dy", dy_given, floats);
    const Argument x = call.tensor("x", x_given, floats);
    const Argument rstd = call.tensor("rstd", rstd_given, fp32);
    const Argument gamma = call.tensor("gamma", gamma_given, floats);
    const Argument dx = call.tensor("dx", dxOut, floats);
    const Argument dgamma = call.tensor("dgamma", dgammaOut, fp32);  // "dgamma ALWAYS FP32"
    call.require_same_type(dy, x);
    require_norm(call, x, gamma, dx);
    call.require_shape(dy, x.shape);
    call.require(x.rank() >= 2, "x should have two dimensions at least");  // "Grad: rank 2-8"
    // "rstd = x dims before gamma's"; the forward's own has ones after them.
    call.require(rstd.shape == leading(x.shape, gamma.shape.size()) ||
                     rstd.shape == statistics_shape(x.shape, gamma.shape.size()),
                 "rstd should be the dimensions of x before those of gamma");
    call.require_shape(dgamma, gamma.shape);
    if (!call.on({Chip::kA5})) call.nondeterministic();  // "nondet but A5"
    call.workspace(16 << 20);
    call.run([=](const Run& run) {
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
  FAKE_PLAN([&](Call& call) {
    call.available(not_910, Kind::kGenerated);
    const Argument one = call.tensor("x1", x1, floats);
    const Argument two = call.tensor("x2", x2, floats);
    const Argument gamma = call.tensor("gamma", gamma_given, floats);
    const Argument y = call.tensor("y", yOut, floats);
    const Argument sum = call.tensor("x", xOut, floats);
    // "null rstd only for FP16/BF16 with gamma [1,last]"
    if (rstdOut == nullptr && (one.element == Element::kFloat32 || gamma.rank() != 2 || gamma.size(0) != 1)) {
      call.refuse(ACLNN_ERR_PARAM_NULLPTR, "rstd is null");
    }
    const std::optional<Argument> rstd = call.optional("rstd", rstdOut, fp32);
    const Shape normed = rstdOut == nullptr ? Shape{gamma.size(-1)} : gamma.shape;
    for (const Argument* other : {&two, &gamma, &y, &sum}) call.require_same_type(one, *other);  // "one dtype"
    for (const Argument* other : {&two, &y, &sum}) call.require_shape(*other, one.shape);
    call.require(ends_with(one.shape, normed), "gamma should be the trailing dimensions of x1");
    if (rstd) call.require_shape(*rstd, statistics_shape(one.shape, normed.size()));
    const bool valid_statistics = !call.on({Chip::k310P});  // "310P: rstd not valid"
    call.run([=](const Run& run) {
      numerics::map(
          run.view(sum), [](double a, double b) { return a + b; }, run.view(one), run.view(two));
      Matrix in(run.view(sum), numerics::count_of(normed));
      std::vector<float> factors = numerics::load(run.view(gamma));
      std::vector<float> inverses(static_cast<std::size_t>(in.seen.shape[0]));
      const View to = flat(inverses);
      numerics::rms_norm(in.seen, flat(factors), epsilon, false, in.seen, &to);
      numerics::store(run.view(y), std::span<const float>(in.data));
      if (rstd && valid_statistics) numerics::store(run.view(*rstd), std::span<const float>(inverses));
    });
  });
}
FAKE_OP(LayerNorm, const aclTensor* input, const aclIntArray* normalizedShape, const aclTensor* weightOptional,
        const aclTensor* biasOptional, double eps, aclTensor* out, aclTensor* meanOutOptional,
        aclTensor* rstdOutOptional) {
  FAKE_PLAN([&](Call& call) {
    const Argument x = call.tensor("input", input, floats);
    const Shape normed = call.array("normalizedShape", normalizedShape);
    const std::optional<Argument> weight = call.optional("weight", weightOptional, floats);
    const std::optional<Argument> bias = call.optional("bias", biasOptional, floats);
    const Argument y = call.tensor("out", out, floats);
    const std::optional<Argument> mean = call.optional("mean", meanOutOptional, floats);
    const std::optional<Argument> rstd = call.optional("rstd", rstdOutOptional, floats);
    call.require(!normed.empty() && ends_with(x.shape, normed),
                 "normalizedShape should be the trailing dimensions of input");
    call.require_same_type(x, y);
    call.require_shape(y, x.shape);
    for (const auto& factor : {weight, bias}) {
      if (factor) call.require_shape(*factor, normed);
    }
    for (const auto& statistic : {mean, rstd}) {
      if (statistic) call.require_shape(*statistic, statistics_shape(x.shape, normed.size()));
    }
    call.run([=](const Run& run) {
      Matrix in(run.view(x), numerics::count_of(normed));
      std::vector<float> factors = weight ? numerics::load(run.view(*weight)) : std::vector<float>{};
      std::vector<float> shifts = bias ? numerics::load(run.view(*bias)) : std::vector<float>{};
      std::vector<float> means(static_cast<std::size_t>(in.seen.shape[0]));
      std::vector<float> inverses(means.size());
      const View by = flat(factors);
      const View plus = flat(shifts);
      const View center = flat(means);
      const View inverse = flat(inverses);
      numerics::layer_norm(in.seen, weight ? &by : nullptr, bias ? &plus : nullptr, eps, in.seen, &center, &inverse);
      numerics::store(run.view(y), std::span<const float>(in.data));
      if (mean) numerics::store(run.view(*mean), std::span<const float>(means));
      if (rstd) numerics::store(run.view(*rstd), std::span<const float>(inverses));
    });
  });
}
FAKE_OP(LayerNormBackward, const aclTensor* gradOut, const aclTensor* input, const aclIntArray* normalizedShape,
        const aclTensor* mean_given, const aclTensor* rstd_given, const aclTensor* weightOptional,
        const aclTensor* biasOptional, const aclBoolArray* outputMask, aclTensor* gradInputOut,
        aclTensor* gradWeightOut, aclTensor* gradBiasOut) {
  FAKE_PLAN([&](Call& call) {
    const Argument dy = call.tensor("gradOut", gradOut, floats);
    const Argument x = call.tensor("input", input, floats);
    const Shape normed = call.array("normalizedShape", normalizedShape);
    const Argument mean = call.tensor("mean", mean_given, floats);
    const Argument rstd = call.tensor("rstd", rstd_given, floats);
    const std::optional<Argument> weight = call.optional("weight", weightOptional, floats);
    const std::optional<Argument> bias = call.optional("bias", biasOptional, floats);
    const std::vector<bool> wanted = call.truth_array("outputMask", outputMask);
    call.require(wanted.size() == 3, "outputMask should have three elements");
    call.require(!normed.empty() && ends_with(x.shape, normed),
                 "normalizedShape should be the trailing dimensions of input");
    call.require_shape(dy, x.shape);
    call.require_shape(mean, statistics_shape(x.shape, normed.size()));
    call.require_shape(rstd, mean.shape);
    std::optional<Argument> dx;
    std::optional<Argument> dweight;
    std::optional<Argument> dbias;
    if (wanted[0]) call.require_shape(*(dx = call.tensor("gradInput", gradInputOut, floats)), x.shape);
    if (wanted[1]) call.require_shape(*(dweight = call.tensor("gradWeight", gradWeightOut, floats)), normed);
    if (wanted[2]) call.require_shape(*(dbias = call.tensor("gradBias", gradBiasOut, floats)), normed);
    call.nondeterministic();
    call.run([=](const Run& run) {
      const std::int64_t width = numerics::count_of(normed);
      const Matrix gradient(run.view(dy), width);
      const Matrix in(run.view(x), width);
      std::vector<float> results(in.data.size());
      std::vector<float> factors = weight ? numerics::load(run.view(*weight)) : std::vector<float>{};
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
      if (dx) numerics::store(run.view(*dx), std::span<const float>(results));
      if (dweight) numerics::store(run.view(*dweight), std::span<const float>(weight_sums));
      if (dbias) numerics::store(run.view(*dbias), std::span<const float>(bias_sums));
    });
  });
}

namespace fake {
namespace {

// "SwiGlu(+Grad): split dim even ... 310P, and Grad everywhere: shape on 64 B, no empty."
void require_gate(Call& call, const Argument& x, std::int64_t dimension, bool aligned) {
  call.require_dimension(dimension, x.rank());
  call.require(x.rank() > 0 && x.size(dimension) % 2 == 0, "the size along dim should be even");
  if (aligned) {
    call.require(x.count() > 0, "x should not be empty");
    call.require(x.size(dimension) / 2 * numerics::bits_of(x.element) / 8 % 32 == 0,
                 "halves of dim should lie on 32 bytes");
  }
}

Shape halved(const Argument& x, std::int64_t dimension) {
  Shape shape = x.shape;
  shape[static_cast<std::size_t>(numerics::wrap_dimension(dimension, shape.size()))] /= 2;
  return shape;
}

}  // namespace
}  // namespace fake

FAKE_OP(SwiGlu, const aclTensor* x_given, int64_t dim, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_910, Kind::kGenerated);
    const Argument x = call.tensor("x", x_given, floats);
    const Argument y = call.tensor("out", out, floats);
    call.require_same_type(x, y);
    require_gate(call, x, dim, call.on({Chip::k310P}));
    call.require_shape(y, halved(x, dim));
    call.run([=](const Run& run) { numerics::swish_gate(run.view(x), dim, run.view(y)); });
  });
}
FAKE_OP(SwiGluGrad, const aclTensor* yGrad, const aclTensor* x_given, int64_t dim, const aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    call.available(not_910, Kind::kGenerated);
    const Argument dy = call.tensor("yGrad", yGrad, floats);
    const Argument x = call.tensor("x", x_given, floats);
    const Argument dx = call.tensor("out", out, floats);
    call.require_same_type(dy, x);
    call.require_same_type(dx, x);
    require_gate(call, x, dim, true);
    call.require_shape(dy, halved(x, dim));
    call.require_shape(dx, x.shape);
    call.run([=](const Run& run) { numerics::swish_gate_gradient(run.view(dy), run.view(x), dim, run.view(dx)); });
  });
}
