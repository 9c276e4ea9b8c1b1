// act_mul and its gradient: the gated MLP. CANN's SwiGlu wants both halves in one tensor; ours are two.
#include "backends/npu/activation.h"

namespace tern::npu {
namespace {

// gate and up within the limit, in fp32.
struct Inputs {
  View gate, up;
  View gate_beyond, up_beyond;  // bool; absent without a limit
};

template <typename Attrs>
Inputs take(Composer& c, const Attrs& attrs, int gate, int up) {
  Inputs in{c.f32(c.arg(gate)), c.f32(c.arg(up)), {}, {}};
  if (attrs.limit == 0.0F) return in;
  const double limit = attrs.limit;
  in.gate_beyond = c.temp(ACL_BOOL, in.gate.shape);
  in.up_beyond = c.temp(ACL_BOOL, in.gate.shape);
  const View gate_within = c.temp(ACL_FLOAT, in.gate.shape);
  const View up_within = c.temp(ACL_FLOAT, in.gate.shape);
  const View size = c.temp(ACL_FLOAT, in.gate.shape);
  c.call(TERN_NPU_OP(GtScalar), in.gate, Number{limit}, in.gate_beyond);
  c.call(TERN_NPU_OP(Abs), in.up, size);
  c.call(TERN_NPU_OP(GtScalar), size, Number{limit}, in.up_beyond);
  c.call(TERN_NPU_OP(ClampMax), in.gate, Number{limit}, gate_within);
  c.call(TERN_NPU_OP(Clamp), in.up, Number{-limit}, Number{limit}, up_within);
  in.gate = gate_within;
  in.up = up_within;
  return in;
}

View with_offset(Composer& c, const View& up, float offset) {
  if (offset == 0.0F) return up;
  const View moved = c.temp(ACL_FLOAT, up.shape);
  c.adds(up, offset, moved);
  return moved;
}

void forward(Composer& c) {
  const auto& attrs = c.attrs<tern_act_mul_attrs>();
  if (c.arg(TERN_ACT_MUL_Y).elements() == 0) return;
  const Inputs in = take(c, attrs, TERN_ACT_MUL_GATE, TERN_ACT_MUL_UP);
  const View gated = c.temp(ACL_FLOAT, in.gate.shape);
  activate(c, attrs.kind, in.gate, gated);
  const View y = c.result(TERN_ACT_MUL_Y);
  c.mul(gated, with_offset(c, in.up, attrs.up_offset), y);
  c.finish(TERN_ACT_MUL_Y, y);
}

void backward(Composer& c) {
  const auto& attrs = c.attrs<tern_act_mul_backward_attrs>();
  const View dy = c.f32(c.arg(TERN_ACT_MUL_BACKWARD_DY));
  if (dy.elements() == 0) return;
  const Inputs in = take(c, attrs, TERN_ACT_MUL_BACKWARD_GATE, TERN_ACT_MUL_BACKWARD_UP);
  // Both are made before either output is written, as outputs may lie where inputs do.
  const View dgate = c.temp(ACL_FLOAT, dy.shape);
  const View dup = c.temp(ACL_FLOAT, dy.shape);
  differentiate(c, attrs.kind, in.gate, dgate);
  c.mul(dgate, dy, dgate);
  c.mul(dgate, with_offset(c, in.up, attrs.up_offset), dgate);
  activate(c, attrs.kind, in.gate, dup);
  c.mul(dup, dy, dup);
  if (in.gate_beyond.present()) {
    c.call(TERN_NPU_OP(InplaceMaskedFillScalar), dgate, in.gate_beyond, Number{0.0});
    c.call(TERN_NPU_OP(InplaceMaskedFillScalar), dup, in.up_beyond, Number{0.0});
  }
  c.finish(TERN_ACT_MUL_BACKWARD_DGATE, dgate);
  c.finish(TERN_ACT_MUL_BACKWARD_DUP, dup);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_ACT_MUL, "elements", forward, true},
    {TERN_OP_ACT_MUL_BACKWARD, "elements", backward, true},
};

}  // namespace

KernelList act_mul_kernels() { return kKernels; }

}  // namespace tern::npu
