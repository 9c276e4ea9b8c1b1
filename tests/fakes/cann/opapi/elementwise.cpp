#include "elementwise.h"

namespace fake {

void unary(Op& op, const aclTensor* self, const aclTensor* out, Unary function, const Dtypes& types) {
  const Tensor x = op.in("self", self, types);
  const Tensor y = op.out("out", out, types);
  op.shape(y, x.shape());
  require_castable(op, x.dtype(), y);
  op.run([=](Run& run) { numerics::map(run.view(y), function, run.view(x)); });
}

void binary(Op& op, const aclTensor* self, const aclTensor* other, const aclTensor* out, const Dtypes& types,
            const std::function<double(double, double)>& function) {
  const Tensor x = op.in("self", self, types);
  const Tensor y = op.in("other", other, types);
  const Tensor z = op.out("out", out, types);
  op.shape(z, broadcast_shape(op, x.shape(), y.shape()));
  require_castable(op, promoted(x.dtype(), y.dtype()), z);
  op.run([=](Run& run) { numerics::map(run.view(z), function, run.view(x), run.view(y)); });
}

void with_scalar(Op& op, const aclTensor* self, const aclScalar* other, const aclTensor* out, const Dtypes& types,
                 const std::function<double(double, double)>& function) {
  const Tensor x = op.in("self", self, types);
  const double value = op.number("other", other);
  const Tensor z = op.out("out", out, types);
  op.shape(z, x.shape());
  require_castable(op, is_floating(other->dtype) ? promoted(x.dtype(), ACL_FLOAT16) : x.dtype(), z);
  op.run([=](Run& run) {
    numerics::map(
        run.view(z), [&](double a) { return function(a, value); }, run.view(x));
  });
}

void in_place(Op& op, const aclTensor* self, const aclTensor* other, const Dtypes& types,
              const std::function<double(double, double)>& function) {
  const Tensor x = op.out("selfRef", self, types);
  const Tensor y = op.in("other", other, types);
  op.need(broadcast_shape(op, x.shape(), y.shape()) == x.shape(), "other should broadcast to the shape of selfRef");
  require_castable(op, promoted(x.dtype(), y.dtype()), x);
  op.run([=](Run& run) { numerics::map(run.view(x), function, run.view(x), run.view(y)); });
}

void compare(Op& op, const aclTensor* self, const aclTensor* other, const aclTensor* out, Binary function) {
  const Tensor x = op.in("self", self, anything);
  const Tensor y = op.in("other", other, anything);
  const Tensor z = op.out("out", out, anything);
  op.shape(z, broadcast_shape(op, x.shape(), y.shape()));
  op.run([=](Run& run) { numerics::map(run.view(z), function, run.view(x), run.view(y)); });
}

void compare_scalar(Op& op, const aclTensor* self, const aclScalar* other, const aclTensor* out, Binary function) {
  const Tensor x = op.in("self", self, anything);
  const double value = op.number("other", other);
  const Tensor z = op.out("out", out, anything);
  op.shape(z, x.shape());
  op.run([=](Run& run) {
    numerics::map(
        run.view(z), [&](double a) { return function(a, value); }, run.view(x));
  });
}

void unary_backward(Op& op, const aclTensor* gradient, const aclTensor* self, const aclTensor* out,
                    const std::function<double(double, double)>& function) {
  const Tensor dy = op.in("gradOutput", gradient, floats);
  const Tensor x = op.in("self", self, floats);
  const Tensor dx = op.out("gradInput", out, floats);
  op.same_dtype(dy, x);
  op.shape(dx, broadcast_shape(op, dy.shape(), x.shape()));
  require_castable(op, x.dtype(), dx);
  op.run([=](Run& run) { numerics::map(run.view(dx), function, run.view(dy), run.view(x)); });
}

}  // namespace fake
