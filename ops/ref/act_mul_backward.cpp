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
    const GatedUnit at = gated_unit(gate.real[i], up.real[i], attrs.limit, attrs.up_offset);
    const Activation act = activate(attrs.kind, at.gate);
    const double size = std::fabs(dy.real[i]) * at.factor_size;
    const auto element = static_cast<std::int64_t>(i);
    if (at.gate_counts) {
      dgate.add(element, dy.real[i] * at.factor * act.slope,
                {.roundings = size * (act.slope_error + 2.0 * std::fabs(act.slope))});
    } else {
      dgate.add(element, 0.0, {});
    }
    if (at.up_counts) {
      dup.add(element, dy.real[i] * act.value,
              {.roundings = std::fabs(dy.real[i]) * (act.value_error + std::fabs(act.value))});
    } else {
      dup.add(element, 0.0, {});
    }
  }
}

}  // namespace tern::ops::ref
