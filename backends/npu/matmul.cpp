// matmul: out = alpha op(a) op(b) + bias.
#include <algorithm>

#include "backends/npu/product.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

// Cuts the longer of two dimensions to the other, where they were planned alike.
void meet(const Composer& c, View& a, int a_dim, View& b, int b_dim) {
  if (c.planning() && a.dim(a_dim) != b.dim(b_dim)) {
    throw tern_plugin::Error(TERN_INVALID_ARGUMENT, "sizes that have to be equal are " + std::to_string(a.dim(a_dim)) +
                                                        " and " + std::to_string(b.dim(b_dim)));
  }
  const std::int64_t both = std::min(a.dim(a_dim), b.dim(b_dim));
  a = a.slice(a_dim, 0, both);
  b = b.slice(b_dim, 0, both);
}

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_matmul_attrs>();
  View out = c.arg(TERN_MATMUL_OUT);
  const int rank = out.rank();
  View a = narrowed(c, c.arg(TERN_MATMUL_A), attrs.compute);
  View b = narrowed(c, c.arg(TERN_MATMUL_B), attrs.compute);
  if (attrs.transpose_a != 0) a = a.transposed(rank - 2, rank - 1);
  if (attrs.transpose_b != 0) b = b.transposed(rank - 2, rank - 1);
  // A count may cut one of two that go together.
  meet(c, a, rank - 2, out, rank - 2);
  meet(c, a, rank - 1, b, rank - 2);
  meet(c, b, rank - 1, out, rank - 1);
  if (out.elements() == 0) return;
  const bool plain = attrs.alpha == 1.0F && !c.present(TERN_MATMUL_BIAS) && !c.accumulates(TERN_MATMUL_OUT);
  if (plain && out.is16() && a.dtype == out.dtype && b.dtype == out.dtype) {
    multiply_16(c, a, b, out);  // accumulated in fp32 and rounded once
    return;
  }
  // CANN gives a product in its factors' dtype; what is left to do here wants it in fp32.
  const bool direct = out.dtype == ACL_FLOAT && !c.accumulates(TERN_MATMUL_OUT);
  const View product = direct ? out : c.temp(ACL_FLOAT, out.shape);
  multiply_f32(c, c.f32(a), c.f32(b), product);
  if (attrs.alpha != 1.0F) c.muls(product, attrs.alpha, product);
  if (c.present(TERN_MATMUL_BIAS)) c.add(product, c.f32(c.arg(TERN_MATMUL_BIAS)), product);
  c.store(out, product, c.accumulates(TERN_MATMUL_OUT));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL, "mm", compose}};

}  // namespace

KernelList matmul_kernels() { return kKernels; }

}  // namespace tern::npu
