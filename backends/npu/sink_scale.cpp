#include <limits>

#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void compose(Composer& c) {
  Algebra algebra(c);
  const View x = c.f32(c.arg(TERN_SINK_SCALE_X)), lse = c.arg(TERN_SINK_SCALE_LSE);
  const View sinks = c.arg(TERN_SINK_SCALE_SINKS).unsqueezed(0);
  const View share = algebra.sigmoid(algebra.sub(lse, sinks));  // 0 where lse is -infinity
  const View out = c.result(TERN_SINK_SCALE_OUT);
  algebra.mul(x, share.unsqueezed(2), out);
  const View unseen = algebra.equals(lse, -kInfinity);  // the row saw no key: whatever x holds, 0
  algebra.put_where(out, unseen.unsqueezed(2), 0.0);
  c.finish(TERN_SINK_SCALE_OUT, out);
  if (!c.present(TERN_SINK_SCALE_LSE_OUT)) return;
  const View top = algebra.maximum(lse, sinks);
  const View a = algebra.exp(algebra.sub(lse, top)), b = algebra.exp(algebra.sub(sinks, top));
  const View joined = algebra.add(algebra.log(algebra.add(a, b)), top);
  algebra.put_where(joined, unseen, -kInfinity);
  c.copy(c.arg(TERN_SINK_SCALE_LSE_OUT), joined);
}

void compose_backward(Composer& c) {
  Algebra algebra(c);
  const View dout = c.f32(c.arg(TERN_SINK_SCALE_BACKWARD_DOUT)), out = c.f32(c.arg(TERN_SINK_SCALE_BACKWARD_OUT));
  const View lse = c.arg(TERN_SINK_SCALE_BACKWARD_LSE);
  const View sinks = c.arg(TERN_SINK_SCALE_BACKWARD_SINKS).unsqueezed(0);
  const View share = algebra.exp(algebra.sub(sinks, lse));
  algebra.put_where(share, algebra.equals(lse, -kInfinity), 0.0);
  const View product = algebra.mul(dout, out);
  const View delta = algebra.sum(product, 2).reshaped({product.dim(0), product.dim(1)});
  algebra.mul(delta, share, delta);
  const View total = algebra.sum(delta, 0).reshaped({delta.dim(1)});
  algebra.muls(total, -1.0, total);
  c.finish(TERN_SINK_SCALE_BACKWARD_DSINKS, total);
}

constexpr KernelEntry kEntries[] = {{TERN_OP_SINK_SCALE, "composed", compose, true},
                                    {TERN_OP_SINK_SCALE_BACKWARD, "composed", compose_backward, false}};

}  // namespace

KernelList sink_scale_kernels() { return kEntries; }

}  // namespace tern::npu
