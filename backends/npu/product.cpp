#include "backends/npu/product.h"

#include <algorithm>

namespace tern::npu {
namespace {

// On chips without fp32 products: [m, k, 1] times [1, k, n], summed over k, in pieces of rows.
constexpr std::int64_t kPieceElements = std::int64_t{1} << 22;

void multiply_on_vectors(Composer& c, const View& a, const View& b, const View& out) {
  const std::int64_t m = a.dim(0);
  const std::int64_t k = a.dim(1);
  const std::int64_t n = b.dim(1);
  const std::int64_t inner = std::clamp<std::int64_t>(kPieceElements / std::max<std::int64_t>(1, n), 1, k);
  const std::int64_t rows = std::clamp<std::int64_t>(kPieceElements / std::max<std::int64_t>(1, inner * n), 1, m);
  const View terms = c.temp(ACL_FLOAT, {rows, inner, n});
  const View part = c.temp(ACL_FLOAT, {rows, n});
  for (std::int64_t row = 0; row < m; row += rows) {
    const std::int64_t height = std::min(rows, m - row);
    const View to = out.slice(0, row, height);
    for (std::int64_t from = 0; from < k; from += inner) {
      const std::int64_t depth = std::min(inner, k - from);
      const View left = a.slice(0, row, height).slice(1, from, depth).unsqueezed(2);
      const View right = b.slice(0, from, depth).unsqueezed(0);
      const View piece = contiguous_view(terms.place, terms.offset, ACL_FLOAT, {height, depth, n});
      c.mul(left, right, piece);
      const View sum = contiguous_view(part.place, part.offset, ACL_FLOAT, {height, n});
      c.reduce_sum(piece, {1}, from == 0 ? to : sum);
      if (from != 0) c.add(to, sum, to);
    }
  }
}

void call_product(Composer& c, const View& a, const View& b, const View& out, std::int8_t kind) {
  // A product writes dense memory; what has gaps is copied there.
  const View dense = out.contiguous() ? out : c.temp(out.dtype, out.shape);
  c.call(TERN_NPU_OP(Matmul), a, b, dense, kind);
  if (!out.contiguous()) c.copy(out, dense);
}

bool is_empty(Composer& c, const View& a, const View& out) {
  if (out.elements() == 0) return true;
  if (a.dim(-1) > 0) return false;
  c.zero(out);
  return true;
}

}  // namespace

void multiply_f32(Composer& c, const View& a, const View& b, const View& out) {
  if (is_empty(c, a, out)) return;
  if (c.chip().has_fp32_products()) {
    call_product(c, a, b, out, 0);
    return;
  }
  if (a.rank() == 2) {
    multiply_on_vectors(c, a, b, out);
    return;
  }
  for (std::int64_t i = 0; i < a.dim(0); ++i) {
    const auto matrix = [i](const View& view) {
      View one = view.slice(0, view.strides[0] == 0 ? 0 : i, 1);
      one.shape = Dims{view.dim(1), view.dim(2)};
      one.strides = Dims{view.strides[1], view.strides[2]};
      return one;
    };
    const std::int64_t mark = c.mark();
    multiply_on_vectors(c, matrix(a), matrix(b), matrix(out));
    c.rewind(mark);
  }
}

void multiply_16(Composer& c, const View& a, const View& b, const View& out) {
  if (!is_empty(c, a, out)) call_product(c, a, b, out, c.chip().has_fp32_products() ? 0 : 1);
}

View narrowed(Composer& c, const View& view, tern_compute compute) {
  if (compute == TERN_COMPUTE_F32) return view;
  const aclDataType narrow = compute == TERN_COMPUTE_F16 ? ACL_FLOAT16 : ACL_BF16;
  if (compute != TERN_COMPUTE_F16 && compute != TERN_COMPUTE_BF16) c.refuse("compute: expected f32, f16 or bf16");
  if (narrow == ACL_BF16 && !c.chip().has_bf16()) c.refuse("compute: this chip has no bf16");
  if (view.dtype == narrow) return view;
  return c.cast(view.is16() ? c.f32(view) : view, narrow);
}

}  // namespace tern::npu
