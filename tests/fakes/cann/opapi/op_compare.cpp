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

void masked_fill(Call& call, const aclTensor* self, const aclTensor* mask,
                 const std::function<double(const Run&)>& value) {
  const Argument x = call.tensor("selfRef", self, anything);
  const Argument hidden = call.tensor("mask", mask, truths);
  call.require(broadcast_shape(call, x.shape, hidden.shape) == x.shape,
               "mask should broadcast to the shape of selfRef");
  call.run([=](const Run& run) {
    const double filling = value(run);
    numerics::map(
        run.view(x), [filling](double old, double m) { return m != 0 ? filling : old; }, run.view(x), run.view(hidden));
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(GeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare_scalar(call, self, other, out, at_least); });
}
FAKE_OP(GtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare_scalar(call, self, other, out, more); });
}
FAKE_OP(LeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare_scalar(call, self, other, out, at_most); });
}
FAKE_OP(LtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare_scalar(call, self, other, out, less); });
}
FAKE_OP(EqScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare_scalar(call, self, other, out, equal); });
}
FAKE_OP(NeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare_scalar(call, self, other, out, unequal); });
}
FAKE_OP(GeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, at_least); });
}
FAKE_OP(GtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, more); });
}
FAKE_OP(LeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, at_most); });
}
FAKE_OP(LtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, less); });
}
FAKE_OP(EqTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, equal); });
}
FAKE_OP(NeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, unequal); });
}
FAKE_OP(LogicalAnd, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, both); });
}
FAKE_OP(LogicalOr, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) { compare(call, self, other, out, either); });
}

FAKE_OP(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  FAKE_PLAN([&](Call& call) {
    const Argument choice = call.tensor("condition", condition, bytes_or_truths);
    const Argument yes = call.tensor("self", self, anything);
    const Argument no = call.tensor("other", other, anything);
    const Argument y = call.tensor("out", out, anything);
    call.require_shape(y, broadcast_shape(call, choice.shape, broadcast_shape(call, yes.shape, no.shape)));
    require_castable(call, promoted(yes.element, no.element), y);
    call.run([=](const Run& run) {
      numerics::map(
          run.view(y), [](double c, double a, double b) { return c != 0 ? a : b; }, run.view(choice), run.view(yes),
          run.view(no));
    });
  });
}
FAKE_OP(InplaceMaskedFillScalar, aclTensor* selfRef, const aclTensor* mask, const aclScalar* value) {
  FAKE_PLAN([&](Call& call) {
    const double filling = call.number("value", value);
    masked_fill(call, selfRef, mask, [filling](const Run&) { return filling; });
  });
}
FAKE_OP(InplaceMaskedFillTensor, aclTensor* selfRef, const aclTensor* mask, const aclTensor* value) {
  FAKE_PLAN([&](Call& call) {
    const Argument filling = call.tensor("value", value, anything);
    call.require(filling.count() == 1, "value should have one element");
    masked_fill(call, selfRef, mask,
                [filling](const Run& run) { return numerics::load_doubles(run.view(filling)).front(); });
  });
}
