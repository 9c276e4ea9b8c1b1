#include "ops/ref/oracle.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {

// Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2.
void lion(Call& call) {
  Tensor& param = call.args[TERN_LION_PARAM];
  Tensor& m = call.args[TERN_LION_M];
  const Tensor& grad = input(call, TERN_LION_GRAD);
  const std::vector<double>& hyper = input(call, TERN_LION_HYPER).real;
  const double lr = hyper.at(0);
  const double keep = hyper.at(1);
  const double beta1 = hyper.at(2);
  const double rest1 = hyper.at(3);
  const double beta2 = hyper.at(4);
  const double rest2 = hyper.at(5);
  const double grad_scale = hyper.at(6);
  param.slack.assign(param.real.size(), 0.0);
  param.others.assign(param.real.size(), {});
  m.slack.assign(m.real.size(), 0.0);
  for (std::size_t i = 0; i < param.real.size(); ++i) {
    const double g = grad.real[i] * grad_scale;
    const double sum = beta1 * m.real[i] + rest1 * g;
    const double kept = keep * param.real[i];
    const double sign = sum > 0 ? 1.0 : sum < 0 ? -1.0 : std::isnan(sum) ? sum : 0.0;
    param.real[i] = kept - lr * sign;
    param.slack[i] = slack_of(std::fabs(kept) + std::fabs(lr), 1);
    if (std::fabs(sum) <= slack_of(std::fabs(beta1 * m.real[i]) + 2.0 * std::fabs(rest1 * g), 1)) {
      param.others[i] = {kept - lr, kept, kept + lr};
    }
    const double roundings = std::fabs(beta2 * m.real[i]) + 2.0 * std::fabs(rest2 * g);
    m.real[i] = beta2 * m.real[i] + rest2 * g;
    m.slack[i] = slack_of(roundings, 1);
  }
}

}  // namespace tern::ops::ref
