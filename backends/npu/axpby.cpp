// axpby: out = a x + b y.
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_axpby_attrs>();
  const View out = c.result(TERN_AXPBY_OUT);
  const View x = c.f32(c.arg_like(TERN_AXPBY_X, out));
  if (!c.present(TERN_AXPBY_Y)) {
    c.muls(x, attrs.a, out);
  } else {
    const View y = c.f32(c.arg_like(TERN_AXPBY_Y, out));
    const View scaled = attrs.a == 1.0F ? x : c.temp(ACL_FLOAT, x.shape);
    if (attrs.a != 1.0F) c.muls(x, attrs.a, scaled);
    c.add(scaled, y, out, attrs.b);
  }
  c.finish(TERN_AXPBY_OUT, out);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_AXPBY, "axpby", compose, true}};

}  // namespace

KernelList axpby_kernels() { return kKernels; }

}  // namespace tern::npu
