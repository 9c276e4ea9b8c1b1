#include "ops/ref/oracle.h"

namespace tern::ops::ref {

void act_mul_backward(Call& call) {
  const auto attrs = attrs_of<tern_act_mul_backward_attrs>(call);
  const Tensor& dy = input(call, TERN_ACT_MUL_BACKWARD_DY);
  const Tensor& gate = input(call, TERN_ACT_MUL_BACKWARD_GATE);
  const Tensor& up = input(call, TERN_ACT_MUL_BACKWARD_UP);
  Output dgate(call, TERN_ACT_MUL_BACKWARD_DGATE);
  Output dup(call, TERN_ACT_MUL_BACKWARD_DUP);
  for (std::size_t i = 0; i < dy.real.size(); ++i) {
    const Activation act = activate(attrs.kind, gate.real[i]);
    const double through = dy.real[i] * up.real[i];
    dgate.add(static_cast<std::int64_t>(i), through * act.slope,
              {.roundings = std::fabs(through) * (act.slope_error + 2.0 * std::fabs(act.slope))});
    dup.add(static_cast<std::int64_t>(i), dy.real[i] * act.value,
            {.roundings = std::fabs(dy.real[i]) * (act.value_error + std::fabs(act.value))});
  }
}

}  // namespace tern::ops::ref
