#include "ops/ref/oracle.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {

// torch.optim.SGD, and what torch.optim.Muon makes of a gradient before it is orthogonalised.
void sgd(Call& call) {
  Tensor& param = call.args[TERN_SGD_PARAM];
  Tensor& buf = call.args[TERN_SGD_BUF];
  const Tensor& grad = input(call, TERN_SGD_GRAD);
  const std::vector<double>& hyper = input(call, TERN_SGD_HYPER).real;
  const double lr = hyper.at(0);
  const double keep = hyper.at(1);
  const double momentum = hyper.at(2);
  const double rest = hyper.at(3);
  const double decay = hyper.at(4);
  const double take_grad = hyper.at(5);
  const double take_buf = hyper.at(6);
  const double grad_scale = hyper.at(7);
  param.slack.assign(param.real.size(), 0.0);
  if (buf.present()) buf.slack.assign(buf.real.size(), 0.0);
  for (std::size_t i = 0; i < param.real.size(); ++i) {
    const double g = grad.real[i] * grad_scale + decay * param.real[i];
    const double g_roundings = std::fabs(grad.real[i] * grad_scale) + 2.0 * std::fabs(decay * param.real[i]);
    double step = take_grad * g;
    double step_roundings = 2.0 * std::fabs(take_grad) * g_roundings;
    if (buf.present()) {
      const double b_roundings = std::fabs(momentum * buf.real[i]) + 2.0 * std::fabs(rest) * g_roundings;
      buf.real[i] = momentum * buf.real[i] + rest * g;
      buf.slack[i] = slack_of(b_roundings, 1);
      step += take_buf * buf.real[i];
      step_roundings += 2.0 * std::fabs(take_buf) * b_roundings;
    }
    const double roundings =
        std::fabs(keep * param.real[i]) + std::fabs(lr) * (step_roundings + std::fabs(step));
    param.real[i] = keep * param.real[i] - lr * step;
    param.slack[i] = slack_of(roundings, 1);
  }
}

}  // namespace tern::ops::ref
