// Cast, Add, Mul and their kin, and Matmul.
#include "backends/npu/cann/ops_elementwise.h"
#include "backends/npu/cann/ops_nn.h"
#include "tests/fakes/cann/op/op.h"
#include "tests/fakes/cann/opapi/products.h"

using fake::Op;
using fake::plan;
using fake::Run;
using fake::Tensor;

namespace {

// math, aclnnAdd and aclnnMul.
fake::Dtypes numbers(const Op& op) {
  return op.floats_and({ACL_DOUBLE, ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_BOOL});
}

// Computes in integers where both are, else in doubles; rounds once.
template <typename Function>
void binary(Op& op, const Tensor& a, const Tensor& b, const Tensor& y, Function function) {
  op.dtypes(a, numbers(op));
  op.dtypes(b, numbers(op));
  const aclDataType both = fake::promoted(a.dtype(), b.dtype());
  op.need(both != ACL_DT_UNDEFINED, "The dtypes aren't promoted to one.");
  op.dtypes(y, numbers(op));
  // math: the promoted dtype must be convertible into that of out.
  op.need(!fake::is_floating(both) || fake::is_floating(y.dtype()),
          fake::name_of(both) + " can't be cast to the dtype of out, " + fake::name_of(y.dtype()) + ".");
  op.broadcast(a, b, y);
  op.run([=](Run& run) { fake::numerics::map(run.view(y), function, run.view(a), run.view(b)); });
}

}  // namespace

FAKE_OP(Cast, const aclTensor* self, aclDataType dtype, aclTensor* out) {
  return plan("aclnnCast", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self), y = op.out("out", out);
    op.dtypes(x, numbers(op));
    op.dtypes(y, numbers(op));
    op.need(dtype == y.dtype(), "The dtype must be that of out.");
    op.same_shape(x, y);  // math, aclnnCast: equal shapes
    op.run([=](Run& run) { fake::numerics::copy(run.view(y), run.view(x)); });
  });
}

FAKE_OP(Add, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  return plan("aclnnAdd", workspaceSize, executor, [&](Op& op) {
    const Tensor a = op.in("self", self), b = op.in("other", other);
    const double factor = op.number("alpha", alpha);
    const Tensor y = op.out("out", out);
    binary(op, a, b, y, [factor](double left, double right) { return left + factor * right; });
  });
}

FAKE_OP(InplaceAdd, const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha) {
  return plan("aclnnInplaceAdd", workspaceSize, executor, [&](Op& op) {
    const Tensor a = op.out("selfRef", selfRef), b = op.in("other", other);
    const double factor = op.number("alpha", alpha);
    binary(op, a, b, a, [factor](double left, double right) { return left + factor * right; });
  });
}

FAKE_OP(Mul, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return plan("aclnnMul", workspaceSize, executor, [&](Op& op) {
    const Tensor a = op.in("self", self), b = op.in("other", other), y = op.out("out", out);
    binary(op, a, b, y, [](double left, double right) { return left * right; });
  });
}

FAKE_OP(Muls, const aclTensor* self, const aclScalar* other, aclTensor* out) {
  return plan("aclnnMuls", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("self", self);
    const double factor = op.number("other", other);
    const Tensor y = op.out("out", out);
    op.dtypes(x, numbers(op));
    op.dtypes(y, numbers(op));
    op.same_shape(x, y);
    op.run([=](Run& run) {
      fake::numerics::map(
          run.view(y), [factor](double value) { return value * factor; }, run.view(x));
    });
  });
}

FAKE_OP(Matmul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType) {
  return plan("aclnnMatmul", workspaceSize, executor, [&](Op& op) {
    const Tensor a = op.in("self", self), b = op.in("mat2", mat2), y = op.out("out", out);
    for (const Tensor& tensor : {a, b, y}) op.dtypes(tensor, op.floats());
    // nn: BF16 isn't mixed with others on A2 and A3.
    op.need((a.dtype() == ACL_BF16) == (b.dtype() == ACL_BF16), "BFLOAT16 isn't mixed with other dtypes.");
    fake::numerics::Product product;
    product.rounding = fake::rounding_of(op, fake::promoted(a.dtype(), b.dtype()), cubeMathType);
    op.rank(a, 1, 6);
    op.rank(b, 1, 6);
    op.need(a.rank() >= 2 && b.rank() >= 2, "The fake multiplies matrices alone.");
    op.need(a.dim(-1) == b.dim(-2), "The k-axis of the two inputs are different: " + fake::text_of(a.shape()) +
                                        " and " + fake::text_of(b.shape()) + ".");
    fake::Dims left = a.shape(), right = b.shape();
    left.resize(left.size() - 2);
    right.resize(right.size() - 2);
    std::optional<fake::Dims> batch = fake::broadcast_of(left, right);
    if (!batch) op.no("The batch dimensions don't broadcast.");
    batch->push_back(a.dim(-2));
    batch->push_back(b.dim(-1));
    op.shape(y, *batch);
    op.workspace(std::uint64_t{64} << 10);
    op.run([=](Run& run) { fake::numerics::matmul(run.view(a), run.view(b), run.view(y), product); });
  });
}
