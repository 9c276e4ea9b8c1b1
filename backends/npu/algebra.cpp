#include "backends/npu/algebra.h"

#include <algorithm>
#include <limits>

namespace tern::npu {

Dims broadcast(const Dims& a, const Dims& b) {
  Dims out;
  const int rank = std::max(a.rank, b.rank);
  for (int d = 0; d < rank; ++d) {
    const int da = d - (rank - a.rank), db = d - (rank - b.rank);
    const std::int64_t from_a = da < 0 ? 1 : a[da], from_b = db < 0 ? 1 : b[db];
    out.push(from_a == 1 ? from_b : from_a);
  }
  return out;
}

View permuted(const View& view, std::initializer_list<int> order) {
  View out = view;
  int d = 0;
  for (const int from : order) {
    out.shape[d] = view.shape[from];
    out.strides[d] = view.strides[from];
    ++d;
  }
  return out;
}

View Algebra::room(const View& out, aclDataType dtype, const Dims& shape) {
  return out.present() ? out : composer_.temp(dtype, shape);
}

template <typename First>
View Algebra::binary(Op<First> op, const View& a, const View& b, const View& out) {
  const View to = room(out, a.dtype, broadcast(a.shape, b.shape));
  if (to.elements() > 0) composer_.call(op, a, b, to);
  return to;
}

template <typename First>
View Algebra::unary(Op<First> op, const View& a, const View& out) {
  const View to = room(out, a.dtype, a.shape);
  if (to.elements() > 0) composer_.call(op, a, to);
  return to;
}

template <typename First>
View Algebra::compare(Op<First> op, const View& a, const View& b) {
  const View to = composer_.temp(ACL_BOOL, broadcast(a.shape, b.shape));
  if (to.elements() > 0) composer_.call(op, a, b, to);
  return to;
}

template <typename First>
View Algebra::compare_scalar(Op<First> op, const View& a, double value) {
  const View to = composer_.temp(ACL_BOOL, a.shape);
  if (to.elements() > 0) composer_.call(op, a, Number{value, a.dtype}, to);
  return to;
}

View Algebra::add(const View& a, const View& b, const View& out) {
  const View to = room(out, a.dtype, broadcast(a.shape, b.shape));
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Add), a, b, Number{1.0, a.dtype}, to);
  return to;
}

View Algebra::sub(const View& a, const View& b, const View& out) {
  const View to = room(out, a.dtype, broadcast(a.shape, b.shape));
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Sub), a, b, Number{1.0, a.dtype}, to);
  return to;
}

View Algebra::mul(const View& a, const View& b, const View& out) { return binary(TERN_NPU_OP(Mul), a, b, out); }
View Algebra::div(const View& a, const View& b, const View& out) { return binary(TERN_NPU_OP(Div), a, b, out); }
View Algebra::maximum(const View& a, const View& b, const View& out) { return binary(TERN_NPU_OP(Maximum), a, b, out); }
View Algebra::minimum(const View& a, const View& b, const View& out) { return binary(TERN_NPU_OP(Minimum), a, b, out); }

View Algebra::muls(const View& a, double factor, const View& out) {
  const View to = room(out, a.dtype, a.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Muls), a, Number{factor, a.dtype}, to);
  return to;
}

View Algebra::adds(const View& a, double term, const View& out) {
  const View to = room(out, a.dtype, a.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Adds), a, Number{term, a.dtype}, Number{1.0, a.dtype}, to);
  return to;
}

View Algebra::at_least(const View& a, double bound, const View& out) {
  const View to = room(out, a.dtype, a.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(ClampMin), a, Number{bound, a.dtype}, to);
  return to;
}

View Algebra::at_most(const View& a, double bound, const View& out) {
  const View to = room(out, a.dtype, a.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(ClampMax), a, Number{bound, a.dtype}, to);
  return to;
}

View Algebra::exp(const View& a, const View& out) { return unary(TERN_NPU_OP(Exp), a, out); }
View Algebra::log(const View& a, const View& out) { return unary(TERN_NPU_OP(Log), a, out); }
View Algebra::sigmoid(const View& a, const View& out) { return unary(TERN_NPU_OP(Sigmoid), a, out); }
View Algebra::tanh(const View& a, const View& out) { return unary(TERN_NPU_OP(Tanh), a, out); }
View Algebra::relu(const View& a, const View& out) { return unary(TERN_NPU_OP(Relu), a, out); }

View Algebra::floor_divide(const View& a, std::int64_t divisor) {
  if (divisor == 1) return a;
  const View to = composer_.temp(a.dtype, a.shape);
  if (to.elements() > 0) {
    composer_.call(TERN_NPU_OP(FloorDivides), a, Number{static_cast<double>(divisor), a.dtype}, to);
  }
  return to;
}

View Algebra::equal(const View& a, const View& b) { return compare(TERN_NPU_OP(EqTensor), a, b); }
View Algebra::greater(const View& a, const View& b) { return compare(TERN_NPU_OP(GtTensor), a, b); }
View Algebra::less(const View& a, const View& b) { return compare(TERN_NPU_OP(LtTensor), a, b); }
View Algebra::at_least(const View& a, const View& b) { return compare(TERN_NPU_OP(GeTensor), a, b); }
View Algebra::equals(const View& a, double value) { return compare_scalar(TERN_NPU_OP(EqScalar), a, value); }
View Algebra::differs(const View& a, double value) { return compare_scalar(TERN_NPU_OP(NeScalar), a, value); }
View Algebra::above(const View& a, double value) { return compare_scalar(TERN_NPU_OP(GtScalar), a, value); }
View Algebra::below(const View& a, double value) { return compare_scalar(TERN_NPU_OP(LtScalar), a, value); }
View Algebra::both(const View& a, const View& b) { return compare(TERN_NPU_OP(LogicalAnd), a, b); }
View Algebra::either(const View& a, const View& b) { return compare(TERN_NPU_OP(LogicalOr), a, b); }
View Algebra::negate(const View& a) {
  const View to = composer_.temp(ACL_BOOL, a.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(LogicalNot), a, to);
  return to;
}

View Algebra::select(const View& condition, const View& yes, const View& no, const View& out) {
  const View to = room(out, yes.dtype, broadcast(condition.shape, broadcast(yes.shape, no.shape)));
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(SWhere), condition, yes, no, to);
  return to;
}

void Algebra::put_where(const View& target, const View& condition, double value) {
  if (target.elements() > 0) {
    composer_.call(TERN_NPU_OP(InplaceMaskedFillScalar), target, condition, Number{value, target.dtype});
  }
}

View Algebra::sum(const View& a, int dim) {
  Dims shape = a.shape;
  shape[dim] = 1;
  const View to = composer_.temp(ACL_FLOAT, shape);
  if (to.elements() == 0) return to;
  if (a.elements() == 0) {
    composer_.zero(to);
  } else {
    composer_.call(TERN_NPU_OP(ReduceSum), a, Ints{dim}, true, ACL_FLOAT, to);
  }
  return to;
}

View Algebra::largest(const View& a, int dim) {
  Dims shape = a.shape;
  shape[dim] = 1;
  const View to = composer_.temp(a.dtype, shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Amax), a, Ints{dim}, true, to);
  return to;
}

View Algebra::cumulative(const View& a, int dim) {
  const View to = composer_.temp(a.dtype, a.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Cumsum), a, dim, a.dtype, to);
  return to;
}

View Algebra::softmax(const View& a) {
  const int last = a.rank() - 1;
  const View out = composer_.temp(ACL_FLOAT, a.shape);
  const View top = largest(a, last);
  // A row of -infinity alone: its exponentials are 0 against any finite number.
  at_least(top, -std::numeric_limits<float>::max(), top);
  sub(a, top, out);
  exp(out, out);
  const View total = sum(out, last);
  at_least(total, std::numeric_limits<float>::min(), total);
  return div(out, total, out);
}

Algebra::Sorted Algebra::sort(const View& a, bool descending) {
  const Sorted out{composer_.temp(a.dtype, a.shape), composer_.temp(ACL_INT64, a.shape)};
  if (a.elements() > 0) {
    composer_.call(TERN_NPU_OP(Sort), a, true, a.rank() - 1, descending, out.values, out.places);
  }
  return out;
}

View Algebra::range(std::int64_t first, std::int64_t count, aclDataType dtype) {
  const View out = composer_.temp(dtype, {count});
  if (count > 0) {
    composer_.call(TERN_NPU_OP(Arange), Number{static_cast<double>(first), dtype},
                   Number{static_cast<double>(first + count), dtype}, Number{1.0, dtype}, out);
  }
  return out;
}

View Algebra::constant(double value, aclDataType dtype) {
  const View out = composer_.temp(dtype, {1});
  composer_.call(TERN_NPU_OP(InplaceFillScalar), out, Number{value, dtype});
  return out;
}

View Algebra::take_rows(const View& table, const View& index, const View& out) {
  Dims shape = table.shape;
  shape[0] = index.elements();
  const View to = room(out, table.dtype, shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(IndexSelect), table, 0, index, to);
  return to;
}

void Algebra::put_rows(const View& table, const View& index, const View& rows) {
  if (rows.elements() == 0) return;
  const Family family = composer_.chip().family;
  if (family != Family::a910 && family != Family::a310p) {
    composer_.call(TERN_NPU_OP(InplaceIndexCopy), table, 0, index, rows);
    return;
  }
  // These chips have no copy by rows: each element says where it goes.
  const View places = composer_.cast(index, ACL_INT64).reshaped({index.dim(0), 1}).expanded(1, rows.dim(1));
  composer_.call(TERN_NPU_OP(InplaceScatter), table, 0, places, rows, 0);
}

View Algebra::pick(const View& a, const View& index) {
  const View to = composer_.temp(a.dtype, index.shape);
  if (to.elements() > 0) composer_.call(TERN_NPU_OP(Gather), a, a.rank() - 1, index, to);
  return to;
}

// Where the matrix unit knows fp16 alone: the vector unit multiplies each pair of rows and sums, a panel at a time.
View Algebra::product_by_elements(const View& a, const View& b, const View& out) {
  constexpr std::int64_t kPanel = std::int64_t{1} << 23;  // elements
  const std::int64_t m = out.dim(-2), n = out.dim(-1), k = a.dim(-1);
  const std::int64_t batch = out.elements() / (m * n);
  // As much in each panel as at the planned sizes, so that smaller ones never need more.
  const std::int64_t mark = composer_.mark();
  const View memory = composer_.temp(ACL_FLOAT, {std::min(kPanel, batch * m * n * k)});
  const std::int64_t columns = std::clamp<std::int64_t>(kPanel / std::max<std::int64_t>(1, batch * k), 1, n);
  const std::int64_t rows = std::clamp<std::int64_t>(kPanel / std::max<std::int64_t>(1, batch * k * columns), 1, m);
  const int rank = out.rank();
  const View right = b.transposed(b.rank() - 2, b.rank() - 1);
  for (std::int64_t i = 0; i < m; i += rows) {
    for (std::int64_t j = 0; j < n; j += columns) {
      const View left_part = a.slice(a.rank() - 2, i, std::min(rows, m - i)).unsqueezed(a.rank() - 1);
      const View right_part = right.slice(right.rank() - 2, j, std::min(columns, n - j)).unsqueezed(right.rank() - 2);
      const View to = out.slice(rank - 2, i, std::min(rows, m - i)).slice(rank - 1, j, std::min(columns, n - j));
      const View terms =
          contiguous_view(memory.place, memory.offset, ACL_FLOAT, broadcast(left_part.shape, right_part.shape));
      mul(left_part, right_part, terms);
      composer_.call(TERN_NPU_OP(ReduceSum), terms, Ints{terms.rank() - 1}, false, ACL_FLOAT, to);
    }
  }
  composer_.rewind(mark);
  return out;
}

View Algebra::product(const View& a, const View& b, const View& out) {
  const int rank = a.rank();
  const Dims batch_a = Dims(a.shape.span().first(static_cast<std::size_t>(rank - 2)));
  const Dims batch_b = Dims(b.shape.span().first(static_cast<std::size_t>(b.rank() - 2)));
  Dims shape = broadcast(batch_a, batch_b);
  shape.push(a.dim(-2));
  shape.push(b.dim(-1));
  const View to = room(out, ACL_FLOAT, shape);
  if (to.elements() == 0) return to;
  if (a.dim(-1) == 0) {
    composer_.zero(to);
    return to;
  }
  if (!composer_.chip().has_fp32_products()) return product_by_elements(a, b, to);
  const View dense = to.contiguous() ? to : composer_.temp(ACL_FLOAT, to.shape);  // what has gaps is copied there
  composer_.call(TERN_NPU_OP(Matmul), a, b, dense, static_cast<std::int8_t>(0));
  if (!to.contiguous()) composer_.copy(to, dense);
  return to;
}

}  // namespace tern::npu
