// Losses, random numbers, the optimiser's step, quantisation of activations, convolution.
#pragma once

#include "numerics_view.h"

namespace fake::numerics {

struct ClassLoss {
  std::vector<std::int64_t> targets;  // [rows]
  const View* weight = nullptr;       // [classes]
  std::int64_t ignored = -100;
  double smoothing = 0;
  enum class Over { kNone, kMean, kSum } over = Over::kMean;
};
// The loss of log probabilities [rows, classes] into [rows] or one element; total is the sum of the weights that count.
void class_loss(const View& log_probabilities, const ClassLoss& loss, const View& out, double* total);
// Gradient by the log probabilities themselves (NLLLoss), or by the logits behind them (cross entropy).
void class_loss_gradient(const View& gradient, const View& log_probabilities, const ClassLoss& loss, bool of_logits,
                         const View& out);

// Philox 4x32-10 by place: draws don't depend on strides. Uniform in [0, 1).
[[nodiscard]] std::vector<double> uniform_draws(std::int64_t count, std::uint64_t seed, std::uint64_t offset);
[[nodiscard]] std::vector<double> normal_draws(std::int64_t count, std::uint64_t seed, std::uint64_t offset);

struct AdamStep {
  double step, rate, beta1, beta2, decay, epsilon;
  bool maximize = false;
};
void adam(const View& weight, const View& first, const View& second, const View* largest, const View& gradient,
          const AdamStep& step);

// y = round(x smooth / scale) with scale = max |x smooth| / limit over the last dimension.
void dynamic_quantise(const View& x, const View* smooth, double limit, const View& y, const View& scale);

// NCL or NCHW convolution as NCHW: the op makes lines of height 1 of what has one dimension.
struct Convolution {
  std::array<std::int64_t, 2> stride, padding, dilation;
  std::int64_t groups = 1;
};
void convolve(const View& x, const View& weight, const View* bias, const Convolution& shape, const View& out);
void convolve_gradient(const View& dy, const View& x, const View& weight, const Convolution& shape, const View* dx,
                       const View* dweight, const View* dbias);

}  // namespace fake::numerics
