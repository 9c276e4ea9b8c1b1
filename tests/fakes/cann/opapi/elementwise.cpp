#include "elementwise.h"

namespace fake {

void require_castable(Call& call, Element from, const Argument& to) {
  const bool lossy = numerics::is_floating(from) && !numerics::is_floating(to.element);
  const bool truth = to.element == Element::kBool && from != Element::kBool;
  if (lossy || truth) {
    call.refuse(ACLNN_ERR_PARAM_INVALID, std::string("dtype ") + name_of(from) + " can't be cast to the dtype of " +
                                             to.name + ", " + name_of(to.element));
  }
}

void unary(Call& call, const aclTensor* self, const aclTensor* out, Unary function, Types types) {
  const Argument x = call.tensor("self", self, types);
  const Argument y = call.tensor("out", out, types);
  call.require_shape(y, x.shape);
  require_castable(call, x.element, y);
  call.run([=](const Run& run) { numerics::map(run.view(y), function, run.view(x)); });
}

void binary(Call& call, const aclTensor* self, const aclTensor* other, const aclTensor* out, Types types,
            const std::function<double(double, double)>& function) {
  const Argument x = call.tensor("self", self, types);
  const Argument y = call.tensor("other", other, types);
  const Argument z = call.tensor("out", out, types);
  call.require_shape(z, broadcast_shape(call, x.shape, y.shape));
  require_castable(call, promoted(x.element, y.element), z);
  call.run([=](const Run& run) { numerics::map(run.view(z), function, run.view(x), run.view(y)); });
}

void with_scalar(Call& call, const aclTensor* self, const aclScalar* other, const aclTensor* out, Types types,
                 const std::function<double(double, double)>& function) {
  const Argument x = call.tensor("self", self, types);
  const double value = call.number("other", other);
  const Argument z = call.tensor("out", out, types);
  call.require_shape(z, x.shape);
  require_castable(call, call.is_floating(other) ? promoted(x.element, Element::kBfloat16) : x.element, z);
  call.run([=](const Run& run) {
    numerics::map(
        run.view(z), [&](double a) { return function(a, value); }, run.view(x));
  });
}

void in_place(Call& call, const aclTensor* self, const aclTensor* other, Types types,
              const std::function<double(double, double)>& function) {
  const Argument x = call.tensor("selfRef", self, types);
  const Argument y = call.tensor("other", other, types);
  call.require(broadcast_shape(call, x.shape, y.shape) == x.shape, "other should broadcast to the shape of selfRef");
  require_castable(call, promoted(x.element, y.element), x);
  call.run([=](const Run& run) { numerics::map(run.view(x), function, run.view(x), run.view(y)); });
}

void compare(Call& call, const aclTensor* self, const aclTensor* other, const aclTensor* out, Binary function) {
  const Argument x = call.tensor("self", self, anything);
  const Argument y = call.tensor("other", other, anything);
  const Argument z = call.tensor("out", out, anything);
  call.require_shape(z, broadcast_shape(call, x.shape, y.shape));
  call.run([=](const Run& run) { numerics::map(run.view(z), function, run.view(x), run.view(y)); });
}

void compare_scalar(Call& call, const aclTensor* self, const aclScalar* other, const aclTensor* out, Binary function) {
  const Argument x = call.tensor("self", self, anything);
  const double value = call.number("other", other);
  const Argument z = call.tensor("out", out, anything);
  call.require_shape(z, x.shape);
  call.run([=](const Run& run) {
    numerics::map(
        run.view(z), [&](double a) { return function(a, value); }, run.view(x));
  });
}

void unary_backward(Call& call, const aclTensor* gradient, const aclTensor* self, const aclTensor* out,
                    const std::function<double(double, double)>& function) {
  const Argument dy = call.tensor("gradOutput", gradient, floats);
  const Argument x = call.tensor("self", self, floats);
  const Argument dx = call.tensor("gradInput", out, floats);
  call.require_same_type(dy, x);
  call.require_shape(dx, broadcast_shape(call, dy.shape, x.shape));
  require_castable(call, x.element, dx);
  call.run([=](const Run& run) { numerics::map(run.view(dx), function, run.view(dy), run.view(x)); });
}

}  // namespace fake
