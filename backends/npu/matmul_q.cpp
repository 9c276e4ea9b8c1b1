// dequantize, and products by quantised weights, which are expanded panel by panel on the way.
#include "backends/npu/expand.h"
#include "backends/npu/product.h"

namespace tern::npu {
namespace {

void dequantize(Composer& c) {
  const View y = c.arg(TERN_DEQUANTIZE_Y);
  if (y.elements() == 0) return;
  const std::int64_t rows = panel_rows(c, TERN_DEQUANTIZE_W);
  for (std::int64_t from = 0; from < y.dim(0); from += rows) {
    const std::int64_t mark = c.mark();
    const std::int64_t count = std::min(rows, y.dim(0) - from);
    c.copy(y.slice(0, from, count), expand_rows(c, TERN_DEQUANTIZE_W, from, count));
    c.rewind(mark);
  }
}

void multiply(Composer& c) {
  const auto& attrs = c.attrs<tern_matmul_q_attrs>();
  const View y = c.arg(TERN_MATMUL_Q_Y);
  if (attrs.compute > TERN_COMPUTE_BF16) c.refuse("compute: this device has no products in x15 and int8");
  if (y.elements() == 0) return;
  const std::int64_t outputs = c.desc(TERN_MATMUL_Q_W).shape[0];
  const View x = c.f32(narrowed(c, c.arg(TERN_MATMUL_Q_X), attrs.compute));
  const View product = c.result(TERN_MATMUL_Q_Y);
  const std::int64_t rows = panel_rows(c, TERN_MATMUL_Q_W);
  const View part = attrs.transpose_w == 0 && rows < outputs ? c.temp(ACL_FLOAT, y.shape) : View{};
  for (std::int64_t from = 0; from < outputs; from += rows) {
    const std::int64_t mark = c.mark();
    const std::int64_t count = std::min(rows, outputs - from);
    const View w = c.f32(narrowed(c, expand_rows(c, TERN_MATMUL_Q_W, from, count), attrs.compute));
    if (attrs.transpose_w != 0) {
      multiply_f32(c, x, w.transposed(0, 1), product.slice(1, from, count));
    } else {
      const View to = from == 0 ? product : part;
      multiply_f32(c, x.slice(1, from, count), w, to);
      if (from > 0) c.add(product, part, product);
    }
    c.rewind(mark);
  }
  if (outputs == 0) c.zero(product);
  if (c.present(TERN_MATMUL_Q_BIAS)) c.add(product, c.f32(c.arg(TERN_MATMUL_Q_BIAS)), product);
  c.finish(TERN_MATMUL_Q_Y, product);
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_DEQUANTIZE, "elements", dequantize, true},
    {TERN_OP_MATMUL_Q, "expand_mm", multiply},
};

}  // namespace

KernelList matmul_q_kernels() { return kKernels; }

}  // namespace tern::npu
