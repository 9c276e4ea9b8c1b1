// layer_norm and its gradient, of sums and elements in fp32: CANN's LayerNorm gives its statistics in the dtype of x.
#include "backends/npu/norm.h"

namespace tern::npu {
namespace {

View centred(Composer& c, const View& x, const View& mean) {
  const View out = c.temp(ACL_FLOAT, x.shape);
  c.add(x, mean, out, -1.0);
  return out;
}

void forward(Composer& c) {
  if (c.arg(TERN_LAYER_NORM_Y).elements() == 0) return;
  const View s = with_residual(c, TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_SUM);
  const double share = 1.0 / static_cast<double>(s.dim(1));
  const View mean = row_means(c, s, share);
  const View t = centred(c, s, mean);
  const View squares = c.temp(ACL_FLOAT, s.shape);
  c.mul(t, t, squares);
  const View rstd = row_means(c, squares, share);
  c.adds(rstd, c.attrs<tern_layer_norm_attrs>().eps, rstd);
  c.call(TERN_NPU_OP(Sqrt), rstd, rstd);
  c.call(TERN_NPU_OP(Reciprocal), rstd, rstd);
  c.mul(t, rstd, t);
  c.mul(t, c.f32(c.arg(TERN_LAYER_NORM_WEIGHT)), t);
  if (c.present(TERN_LAYER_NORM_BIAS)) c.add(t, c.f32(c.arg(TERN_LAYER_NORM_BIAS)), t);
  c.finish(TERN_LAYER_NORM_Y, t);
  if (!c.present(TERN_LAYER_NORM_RSTD)) return;
  c.copy(c.arg(TERN_LAYER_NORM_MEAN), mean.reshaped({s.dim(0)}));
  c.copy(c.arg(TERN_LAYER_NORM_RSTD), rstd.reshaped({s.dim(0)}));
}

void store_sum(Composer& c, const View& terms, int out) {
  if (!c.present(out)) return;
  const View sum = c.temp(ACL_FLOAT, {terms.dim(1)});
  c.reduce_sum(terms, {0}, sum);
  c.finish(out, sum);
}

// With n = (x - mean) rstd: dx = rstd (g - mean(g) - n mean(g n)).
void backward(Composer& c) {
  const View dy = c.f32(c.arg_like(TERN_LAYER_NORM_BACKWARD_DY, c.arg(TERN_LAYER_NORM_BACKWARD_X)));
  const View rstd = c.arg(TERN_LAYER_NORM_BACKWARD_RSTD).unsqueezed(1);
  const View n = c.temp(ACL_FLOAT, dy.shape);
  const View g = c.temp(ACL_FLOAT, dy.shape);
  const View t = c.temp(ACL_FLOAT, dy.shape);
  c.add(c.f32(c.arg(TERN_LAYER_NORM_BACKWARD_X)), c.arg(TERN_LAYER_NORM_BACKWARD_MEAN).unsqueezed(1), n, -1.0);
  c.mul(n, rstd, n);
  c.mul(dy, n, t);
  store_sum(c, t, TERN_LAYER_NORM_BACKWARD_DWEIGHT);
  store_sum(c, dy, TERN_LAYER_NORM_BACKWARD_DBIAS);
  if (dy.elements() == 0) return;
  const double share = 1.0 / static_cast<double>(dy.dim(1));
  c.mul(dy, c.f32(c.arg(TERN_LAYER_NORM_BACKWARD_WEIGHT)), g);
  c.mul(g, n, t);
  const View along = row_means(c, t, share);
  const View mean = row_means(c, g, share);
  c.mul(n, along, t);
  c.add(g, t, g, -1.0);
  c.add(g, mean, g, -1.0);
  c.mul(g, rstd, g);
  finish_gradient(c, g, TERN_LAYER_NORM_BACKWARD_DSUM, TERN_LAYER_NORM_BACKWARD_DX);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_LAYER_NORM, "elements", forward},
    {TERN_OP_LAYER_NORM_BACKWARD, "elements", backward},
};

}  // namespace

KernelList layer_norm_kernels() { return kKernels; }

}  // namespace tern::npu
