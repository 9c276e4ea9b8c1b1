#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void act(Call& call) {
  const auto attrs = attrs_of<tern_act_attrs>(call);
  const Tensor& x = input(call, TERN_ACT_X);
  Output y(call, TERN_ACT_Y);
  for (std::size_t i = 0; i < x.real.size(); ++i) {
    const Activation act = activate(attrs.kind, x.real[i]);
    y.add(static_cast<std::int64_t>(i), act.value, {.roundings = act.value_error + std::fabs(act.value)});
  }
}

void act_backward(Call& call) {
  const auto attrs = attrs_of<tern_act_backward_attrs>(call);
  const Tensor& dy = input(call, TERN_ACT_BACKWARD_DY);
  const Tensor& x = input(call, TERN_ACT_BACKWARD_X);
  Output dx(call, TERN_ACT_BACKWARD_DX);
  for (std::size_t i = 0; i < x.real.size(); ++i) {
    const Activation act = activate(attrs.kind, x.real[i]);
    dx.add(static_cast<std::int64_t>(i), dy.real[i] * act.slope,
           {.roundings = std::fabs(dy.real[i]) * (act.slope_error + std::fabs(act.slope))});
  }
}

}  // namespace tern::ops::ref
