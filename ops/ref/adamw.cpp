#include "ops/ref/oracle.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {

// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2; torch.optim.AdamW.
void adamw(Call& call) {
  Tensor& param = call.args[TERN_ADAMW_PARAM];
  Tensor& m = call.args[TERN_ADAMW_M];
  Tensor& v = call.args[TERN_ADAMW_V];
  const Tensor& grad = input(call, TERN_ADAMW_GRAD);
  const Tensor& hyper = input(call, TERN_ADAMW_HYPER);
  Output copy(call, TERN_ADAMW_COPY);
  const double lr = hyper.real.at(0);
  const double beta1 = hyper.real.at(1);
  const double beta2 = hyper.real.at(2);
  const double rest1 = hyper.real.at(3);
  const double rest2 = hyper.real.at(4);
  const double eps = hyper.real.at(5);
  const double decay = hyper.real.at(6);
  const double correction1 = hyper.real.at(7);
  const double correction2 = hyper.real.at(8);
  const double grad_scale = hyper.real.at(9);
  for (Tensor* state : {&param, &m, &v}) state->slack.assign(state->real.size(), 0.0);
  for (std::size_t i = 0; i < param.real.size(); ++i) {
    const double g = grad.real[i] * grad_scale;
    const double m_roundings = std::fabs(beta1 * m.real[i]) + 2.0 * std::fabs(rest1 * g);
    m.real[i] = beta1 * m.real[i] + rest1 * g;
    v.real[i] = beta2 * v.real[i] + rest2 * g * g;
    m.slack[i] = slack_of(m_roundings, 1);
    v.slack[i] = slack_of(2.0 * std::fabs(v.real[i]), 1);
    const double denominator = std::sqrt(v.real[i] / correction2) + eps;
    const double step = lr * (m.real[i] / correction1) / denominator;
    const double step_roundings = 6.0 * std::fabs(step) + std::fabs(lr / correction1 / denominator) * m_roundings;
    const double kept = param.real[i] * (1.0 - lr * decay);
    const double roundings = std::fabs(param.real[i]) * (1.0 + 2.0 * std::fabs(lr * decay)) + step_roundings;
    param.slack[i] = slack_of(roundings, 1);
    param.real[i] = kept - step;
    copy.add(static_cast<std::int64_t>(i), param.real[i], {.roundings = roundings});
  }
}

}  // namespace tern::ops::ref
