// Comparisons, truths, and choices by them.
#include "backends/npu/cann/ops_elementwise.h"
#include "backends/npu/cann/ops_movement.h"
#include "elementwise.h"

namespace fake {
namespace {

double at_least(double a, double b) { return a >= b ? 1 : 0; }
double more(double a, double b) { return a > b ? 1 : 0; }
double at_most(double a, double b) { return a <= b ? 1 : 0; }
double less(double a, double b) { return a < b ? 1 : 0; }
double equal(double a, double b) { return a == b ? 1 : 0; }
double unequal(double a, double b) { return a != b ? 1 : 0; }
double both(double a, double b) { return a != 0 && b != 0 ? 1 : 0; }
double either(double a, double b) { return a != 0 || b != 0 ? 1 : 0; }

void masked_fill(Op& op, const aclTensor* self, const aclTensor* mask, const std::function<double(Run&)>& value) {
  const Tensor x = op.out("selfRef", self, anything);
  const Tensor hidden = op.in("mask", mask, truths);
  op.need(broadcast_shape(op, x.shape(), hidden.shape()) == x.shape(), "mask should broadcast to the shape of selfRef");
  op.run([=](Run& run) {
    const double filling = value(run);
    numerics::map(
        run.view(x), [filling](double old, double m) { return m != 0 ? filling : old; }, run.view(x), run.view(hidden));
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(GeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnGeScalar", workspaceSize, executor,
              [&](Op& op) { compare_scalar(op, self, other, out, at_least); });
}
FAKE_OP(GtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnGtScalar", workspaceSize, executor, [&](Op& op) { compare_scalar(op, self, other, out, more); });
}
FAKE_OP(LeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnLeScalar", workspaceSize, executor, [&](Op& op) { compare_scalar(op, self, other, out, at_most); });
}
FAKE_OP(LtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnLtScalar", workspaceSize, executor, [&](Op& op) { compare_scalar(op, self, other, out, less); });
}
FAKE_OP(EqScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnEqScalar", workspaceSize, executor, [&](Op& op) { compare_scalar(op, self, other, out, equal); });
}
FAKE_OP(NeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnNeScalar", workspaceSize, executor, [&](Op& op) { compare_scalar(op, self, other, out, unequal); });
}
FAKE_OP(GeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnGeTensor", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, at_least); });
}
FAKE_OP(GtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnGtTensor", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, more); });
}
FAKE_OP(LeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnLeTensor", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, at_most); });
}
FAKE_OP(LtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnLtTensor", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, less); });
}
FAKE_OP(EqTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnEqTensor", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, equal); });
}
FAKE_OP(NeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnNeTensor", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, unequal); });
}
FAKE_OP(LogicalAnd, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnLogicalAnd", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, both); });
}
FAKE_OP(LogicalOr, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnLogicalOr", workspaceSize, executor, [&](Op& op) { compare(op, self, other, out, either); });
}

FAKE_OP(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnSWhere", workspaceSize, executor, [&](Op& op) {
    const Tensor choice = op.in("condition", condition, bytes_or_truths);
    const Tensor yes = op.in("self", self, anything);
    const Tensor no = op.in("other", other, anything);
    const Tensor y = op.out("out", out, anything);
    op.shape(y, broadcast_shape(op, choice.shape(), broadcast_shape(op, yes.shape(), no.shape())));
    require_castable(op, promoted(yes.dtype(), no.dtype()), y);
    op.run([=](Run& run) {
      numerics::map(
          run.view(y), [](double c, double a, double b) { return c != 0 ? a : b; }, run.view(choice), run.view(yes),
          run.view(no));
    });
  });
}
FAKE_OP(InplaceMaskedFillScalar, aclTensor* selfRef, const aclTensor* mask, const aclScalar* value) {
  return plan("aclnnInplaceMaskedFillScalar", workspaceSize, executor, [&](Op& op) {
    const double filling = op.number("value", value);
    masked_fill(op, selfRef, mask, [filling](Run&) { return filling; });
  });
}
FAKE_OP(InplaceMaskedFillTensor, aclTensor* selfRef, const aclTensor* mask, const aclTensor* value) {
  return plan("aclnnInplaceMaskedFillTensor", workspaceSize, executor, [&](Op& op) {
    const Tensor filling = op.in("value", value, anything);
    op.need(filling.count() == 1, "value should have one element");
    masked_fill(op, selfRef, mask, [filling](Run& run) { return numerics::load_doubles(run.view(filling)).front(); });
  });
}
