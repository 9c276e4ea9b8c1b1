// rms_norm and its gradient, by RmsNorm and RmsNormGrad where the chip has them, else of sums and elements.
#include "backends/npu/norm.h"

namespace tern::npu {

View row_means(Composer& c, const View& x, double factor) {
  const View means = c.temp(ACL_FLOAT, {x.dim(0), 1});
  c.reduce_sum(x, {1}, means.reshaped({x.dim(0)}));
  c.muls(means, factor, means);
  return means;
}

View with_residual(Composer& c, int x, int residual, int sum) {
  const View from = c.f32(c.arg(x));
  if (!c.present(residual)) return from;
  const View total = c.temp(ACL_FLOAT, from.shape);
  const View out = c.arg(sum);
  c.add(from, c.f32(c.arg(residual)), total);
  c.copy(out, total);
  return out.dtype == ACL_FLOAT ? total : c.f32(out);
}

View norm_weight(Composer& c, int arg, float offset) {
  const View weight = c.f32(c.arg(arg));
  if (offset == 0.0F) return weight;
  const View moved = c.temp(ACL_FLOAT, weight.shape);
  c.adds(weight, offset, moved);
  return moved;
}

void finish_gradient(Composer& c, const View& dx, int dsum, int out) {
  if (c.present(dsum)) c.add(dx, c.f32(c.arg(dsum)), dx);
  c.finish(out, dx);
}

namespace {

// The 910 has none, and that of the 310P takes no infinity.
bool has_fused(const Composer& c) { return c.chip().family != Family::a910 && c.chip().family != Family::a310p; }

// y and rstd by CANN's own. It wants one dtype, or fp32 weights.
void fused(Composer& c) {
  const auto& attrs = c.attrs<tern_rms_norm_attrs>();
  if (!has_fused(c)) c.refuse("CANN has no RmsNorm for all numbers on this chip");
  const View y = c.arg(TERN_RMS_NORM_Y);
  if (y.elements() == 0) return;
  const View rstd =
      c.present(TERN_RMS_NORM_RSTD) ? c.arg(TERN_RMS_NORM_RSTD).unsqueezed(1) : c.temp(ACL_FLOAT, {y.dim(0), 1});
  const View weight = c.arg(TERN_RMS_NORM_WEIGHT);
  const View x = c.arg(TERN_RMS_NORM_X);
  const bool same = x.dtype == y.dtype && (weight.dtype == x.dtype || weight.dtype == ACL_FLOAT);
  if (same && y.is16() && attrs.weight_offset == 0.0F && !c.present(TERN_RMS_NORM_RESIDUAL)) {
    const View out = c.temp(y.dtype, y.shape);  // y may lie where x does
    c.call(TERN_NPU_OP(RmsNorm), x, weight, static_cast<double>(attrs.eps), out, rstd);
    c.copy(y, out);
    return;
  }
  const View s = with_residual(c, TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_SUM);
  const View out = c.temp(ACL_FLOAT, y.shape);
  c.call(TERN_NPU_OP(RmsNorm), s, norm_weight(c, TERN_RMS_NORM_WEIGHT, attrs.weight_offset),
         static_cast<double>(attrs.eps), out, rstd);
  c.finish(TERN_RMS_NORM_Y, out);
}

void composed(Composer& c) {
  const auto& attrs = c.attrs<tern_rms_norm_attrs>();
  if (c.arg(TERN_RMS_NORM_Y).elements() == 0) return;
  const View s = with_residual(c, TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_SUM);
  const View t = c.temp(ACL_FLOAT, s.shape);
  c.mul(s, s, t);
  const View rstd = row_means(c, t, 1.0 / static_cast<double>(s.dim(1)));
  c.adds(rstd, attrs.eps, rstd);
  c.call(TERN_NPU_OP(Sqrt), rstd, rstd);
  c.call(TERN_NPU_OP(Reciprocal), rstd, rstd);
  c.mul(s, rstd, t);
  c.mul(t, norm_weight(c, TERN_RMS_NORM_WEIGHT, attrs.weight_offset), t);
  c.finish(TERN_RMS_NORM_Y, t);
  if (c.present(TERN_RMS_NORM_RSTD)) c.copy(c.arg(TERN_RMS_NORM_RSTD), rstd.reshaped({s.dim(0)}));
}

void store_dweight(Composer& c, const View& dweight) {
  if (c.present(TERN_RMS_NORM_BACKWARD_DWEIGHT)) c.finish(TERN_RMS_NORM_BACKWARD_DWEIGHT, dweight);
}

// No rows: nothing is added to the weight's gradient.
bool is_empty(Composer& c, const View& dy) {
  if (dy.elements() > 0) return false;
  if (c.present(TERN_RMS_NORM_BACKWARD_DWEIGHT) && !c.accumulates(TERN_RMS_NORM_BACKWARD_DWEIGHT)) {
    c.zero(c.arg(TERN_RMS_NORM_BACKWARD_DWEIGHT));
  }
  return true;
}

void fused_backward(Composer& c) {
  if (!has_fused(c)) c.refuse("CANN has no RmsNormGrad on this chip");
  const View dy = c.f32(c.arg(TERN_RMS_NORM_BACKWARD_DY));
  if (is_empty(c, dy)) return;
  const View x = c.f32(c.arg(TERN_RMS_NORM_BACKWARD_X));
  const View weight =
      norm_weight(c, TERN_RMS_NORM_BACKWARD_WEIGHT, c.attrs<tern_rms_norm_backward_attrs>().weight_offset);
  const View dx = c.temp(ACL_FLOAT, dy.shape);
  const View dweight = c.temp(ACL_FLOAT, weight.shape);
  c.call(TERN_NPU_OP(RmsNormGrad), dy, x, c.arg(TERN_RMS_NORM_BACKWARD_RSTD).unsqueezed(1), weight, dx, dweight);
  finish_gradient(c, dx, TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX);
  store_dweight(c, dweight);
}

// With n = x rstd: dx = rstd (g - n mean(g n)), dweight = sum of dy n.
void composed_backward(Composer& c) {
  const View dy = c.f32(c.arg_like(TERN_RMS_NORM_BACKWARD_DY, c.arg(TERN_RMS_NORM_BACKWARD_X)));
  if (is_empty(c, dy)) return;
  const View x = c.f32(c.arg(TERN_RMS_NORM_BACKWARD_X));
  const View rstd = c.arg(TERN_RMS_NORM_BACKWARD_RSTD).unsqueezed(1);
  const View weight =
      norm_weight(c, TERN_RMS_NORM_BACKWARD_WEIGHT, c.attrs<tern_rms_norm_backward_attrs>().weight_offset);
  const View n = c.temp(ACL_FLOAT, dy.shape);
  const View g = c.temp(ACL_FLOAT, dy.shape);
  const View t = c.temp(ACL_FLOAT, dy.shape);
  c.mul(x, rstd, n);
  if (c.present(TERN_RMS_NORM_BACKWARD_DWEIGHT)) {
    const View dweight = c.temp(ACL_FLOAT, weight.shape);
    c.mul(dy, n, t);
    c.reduce_sum(t, {0}, dweight);
    store_dweight(c, dweight);
  }
  c.mul(dy, weight, g);
  c.mul(g, n, t);
  const View mean = row_means(c, t, 1.0 / static_cast<double>(dy.dim(1)));
  c.mul(n, mean, t);
  c.add(g, t, g, -1.0);
  c.mul(g, rstd, g);
  finish_gradient(c, g, TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_RMS_NORM, "rms_norm", fused},
    {TERN_OP_RMS_NORM, "elements", composed},
    {TERN_OP_RMS_NORM_BACKWARD, "rms_norm_grad", fused_backward},
    {TERN_OP_RMS_NORM_BACKWARD, "elements", composed_backward},
};

}  // namespace

KernelList rms_norm_kernels() { return kKernels; }

}  // namespace tern::npu
