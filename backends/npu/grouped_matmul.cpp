#include "backends/npu/algebra.h"
#include "backends/npu/cann/ops_transformer.h"
#include "backends/npu/kernel.h"
#include "backends/npu/rounding.h"

namespace tern::npu {
namespace {

constexpr std::int64_t kWidest = 65535;  // GroupedMatmulV4: last dimensions below 65,536
constexpr std::int64_t kMostGroups = 1024;

// Rows of x that belong to expert e, [rows, 1] bool, by the offsets that lie on the device.
View rows_of(Algebra& algebra, const View& offsets, std::int64_t expert, std::int64_t rows) {
  const View numbers = algebra.range(0, rows, ACL_INT32);
  const View begun = algebra.at_least(numbers, offsets.slice(0, expert, 1));
  const View open = algebra.less(numbers, offsets.slice(0, expert + 1, 1));
  return algebra.both(begun, open).reshaped({rows, 1});
}

bool has_grouped_products(const Composer& c, aclDataType dtype) {
  const Family family = c.chip().family;
  if (family == Family::a910) return false;
  return (family != Family::a310p || dtype == ACL_FLOAT16) && c.has("aclnnGroupedMatmulV4");
}

void multiply_groups(Composer& c, const View& x, const View& w, const Views& bias, const View& offsets, const View& y,
                     std::int64_t type) {
  const View ends = c.cast(offsets.slice(0, 1, offsets.dim(0) - 1), ACL_INT64);
  const auto call = [&](const auto& given) {
    c.call(TERN_NPU_OP(GroupedMatmulV4), Views{{x}}, Views{{w}}, given, nullptr, nullptr, nullptr, nullptr, nullptr,
           ends, nullptr, nullptr, nullptr, 3, type, 0, 0, Views{{y}}, nullptr, nullptr);
  };
  if (bias.values.empty()) {
    call(nullptr);
  } else {
    call(bias);
  }
}

struct Operands {
  View x;        // [rows, inner]
  View w;        // [experts, inner, outer]
  View bias;     // [experts, outer]; may be absent
  View offsets;  // [experts + 1]
};

Operands operands(Composer& c, std::int32_t compute, bool round) {
  const auto& attrs = c.attrs<tern_grouped_matmul_attrs>();
  const auto ready = [&](const View& view) { return round ? rounded_f32(c, view, compute) : view; };
  const View x = c.arg(TERN_GROUPED_MATMUL_X), w = c.arg(TERN_GROUPED_MATMUL_W);
  Operands out;
  out.x = c.dense(ready(x)).reshaped({x.dim(0) * x.dim(1), x.dim(2)});
  out.w = attrs.transpose_w != 0 ? ready(w).transposed(1, 2) : ready(w);
  out.bias = c.arg(TERN_GROUPED_MATMUL_BIAS);
  out.offsets = c.arg(TERN_GROUPED_MATMUL_OFFSETS);
  return out;
}

// 16-bit tensors as they are: one grouped product, rounded once.
void compose_direct(Composer& c) {
  const auto& attrs = c.attrs<tern_grouped_matmul_attrs>();
  const aclDataType dtype = compute_dtype(c, attrs.compute);
  const View x = c.arg(TERN_GROUPED_MATMUL_X), w = c.arg(TERN_GROUPED_MATMUL_W), y = c.arg(TERN_GROUPED_MATMUL_Y);
  if (dtype == ACL_FLOAT || x.dtype != dtype || w.dtype != dtype || y.dtype != dtype) {
    c.refuse("it multiplies 16-bit tensors of one dtype alone");
  }
  if (c.accumulates(TERN_GROUPED_MATMUL_Y)) c.refuse("it doesn't accumulate");
  if (!has_grouped_products(c, dtype)) c.refuse("this chip has no grouped product of this dtype");
  if (std::max({x.dim(2), y.dim(2)}) > kWidest || w.dim(0) > kMostGroups) c.refuse("it is too wide");
  const Operands in = operands(c, attrs.compute, false);
  c.zero(y);  // rows of no expert aren't written
  if (y.elements() == 0) return;
  const View flat = y.contiguous() ? y.reshaped({in.x.dim(0), y.dim(2)}) : c.temp(dtype, {in.x.dim(0), y.dim(2)});
  if (!y.contiguous()) c.zero(flat);
  Views bias;
  if (in.bias.present()) bias.values.push_back(c.dense(c.cast(in.bias, dtype == ACL_BF16 ? ACL_FLOAT : dtype)));
  multiply_groups(c, in.x, in.w, bias, in.offsets, flat, 0);
  if (!y.contiguous()) c.copy(y, flat.reshaped(y.shape));
}

// y [rows, outer] fp32, zeros so far: expert by expert over all rows, those of others left out.
void multiply_each(Algebra& algebra, const Operands& in, const View& y) {
  Composer& c = algebra.composer();
  for (std::int64_t expert = 0; expert < in.w.dim(0); ++expert) {
    const std::int64_t mark = c.mark();
    View part = algebra.product(in.x, in.w.slice(0, expert, 1).reshaped({in.w.dim(1), in.w.dim(2)}));
    if (in.bias.present()) algebra.add(part, c.f32(in.bias.slice(0, expert, 1)), part);
    algebra.select(rows_of(algebra, in.offsets, expert, in.x.dim(0)), part, y, y);
    c.rewind(mark);
  }
}

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_grouped_matmul_attrs>();
  Algebra algebra(c);
  const Operands in = operands(c, attrs.compute, true);
  const View y = c.arg(TERN_GROUPED_MATMUL_Y);
  const View sums = c.temp(ACL_FLOAT, {in.x.dim(0), y.dim(2)});
  c.zero(sums);
  const bool fits = std::max(in.x.dim(1), y.dim(2)) <= kWidest && in.w.dim(0) <= kMostGroups;
  if (sums.elements() > 0 && fits && has_grouped_products(c, ACL_FLOAT)) {
    Views bias;
    if (in.bias.present()) bias.values.push_back(c.dense(c.f32(in.bias)));
    multiply_groups(c, in.x, in.w, bias, in.offsets, sums, 0);
  } else if (sums.elements() > 0) {
    multiply_each(algebra, in, sums);
  }
  c.finish(TERN_GROUPED_MATMUL_Y, sums.reshaped(y.shape));
}

void weight_gradient(Algebra& algebra, const View& dy, const View& x, const View& offsets) {
  Composer& c = algebra.composer();
  const View dw = c.arg(TERN_GROUPED_MATMUL_BACKWARD_DW);
  const View sums = c.temp(ACL_FLOAT, dw.shape);
  c.zero(sums);  // of experts without rows
  const bool fits = std::max({dy.dim(1), x.dim(1), x.dim(0)}) <= kWidest && dw.dim(0) <= kMostGroups;
  if (x.dim(0) > 0 && fits && has_grouped_products(c, ACL_FLOAT)) {
    multiply_groups(c, dy.transposed(0, 1), x, {}, offsets, sums, 2);
  } else if (x.dim(0) > 0) {
    const View none = algebra.constant(0.0);
    for (std::int64_t expert = 0; expert < dw.dim(0); ++expert) {
      const std::int64_t mark = c.mark();
      const View own = rows_of(algebra, offsets, expert, x.dim(0));
      const View left = algebra.select(own, dy, none), right = algebra.select(own, x, none);
      algebra.product(left.transposed(0, 1), right, sums.slice(0, expert, 1).reshaped({dw.dim(1), dw.dim(2)}));
      c.rewind(mark);
    }
  }
  c.finish(TERN_GROUPED_MATMUL_BACKWARD_DW, sums);
}

// Expert by expert, as a NaN of one expert's rows is none of another's.
void bias_gradient(Algebra& algebra, const View& dy, const View& offsets) {
  Composer& c = algebra.composer();
  const View dbias = c.arg(TERN_GROUPED_MATMUL_BACKWARD_DBIAS);
  const View sums = c.temp(ACL_FLOAT, dbias.shape), none = algebra.constant(0.0);
  for (std::int64_t expert = 0; expert < dbias.dim(0); ++expert) {
    const std::int64_t mark = c.mark();
    const View own = algebra.select(rows_of(algebra, offsets, expert, dy.dim(0)), dy, none);
    c.reduce_sum(own, {0}, sums.slice(0, expert, 1).reshaped({dbias.dim(1)}));
    c.rewind(mark);
  }
  c.finish(TERN_GROUPED_MATMUL_BACKWARD_DBIAS, sums);
}

void compose_backward(Composer& c) {
  const auto& attrs = c.attrs<tern_grouped_matmul_backward_attrs>();
  Algebra algebra(c);
  const View dy = c.arg(TERN_GROUPED_MATMUL_BACKWARD_DY), x = c.arg(TERN_GROUPED_MATMUL_BACKWARD_X);
  const View offsets = c.arg(TERN_GROUPED_MATMUL_BACKWARD_OFFSETS);
  const auto flat = [&](const View& view) { return c.dense(view).reshaped({view.dim(0) * view.dim(1), view.dim(2)}); };
  if (c.present(TERN_GROUPED_MATMUL_BACKWARD_DW)) {
    weight_gradient(algebra, flat(rounded_f32(c, dy, attrs.compute)), flat(rounded_f32(c, x, attrs.compute)), offsets);
  }
  if (c.present(TERN_GROUPED_MATMUL_BACKWARD_DBIAS)) bias_gradient(algebra, flat(c.f32(dy)), offsets);
}

constexpr KernelEntry kEntries[] = {{TERN_OP_GROUPED_MATMUL, "grouped", compose_direct, false},
                                    {TERN_OP_GROUPED_MATMUL, "composed", compose, false},
                                    {TERN_OP_GROUPED_MATMUL_BACKWARD, "composed", compose_backward, false}};

}  // namespace

KernelList grouped_matmul_kernels() { return kEntries; }

}  // namespace tern::npu
