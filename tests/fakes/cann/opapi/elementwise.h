// What the ops that go element by element share.
#pragma once

#include "arguments.h"

namespace fake {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

// out = function(self); one shape. Floats unless said; an integer goes in where out is floating.
void unary(Op& op, const aclTensor* self, const aclTensor* out, Unary function, const Dtypes& types = floats);
// out = function(self, other), which broadcast to out's shape; out takes what the two are promoted to.
void binary(Op& op, const aclTensor* self, const aclTensor* other, const aclTensor* out, const Dtypes& types,
            const std::function<double(double, double)>& function);
// The same with a scalar, which has no say in the type unless it is floating and self isn't.
void with_scalar(Op& op, const aclTensor* self, const aclScalar* other, const aclTensor* out, const Dtypes& types,
                 const std::function<double(double, double)>& function);
// In place: other broadcasts to self's shape.
void in_place(Op& op, const aclTensor* self, const aclTensor* other, const Dtypes& types,
              const std::function<double(double, double)>& function);
// out (bool, or any number) = whether function holds.
void compare(Op& op, const aclTensor* self, const aclTensor* other, const aclTensor* out, Binary function);
void compare_scalar(Op& op, const aclTensor* self, const aclScalar* other, const aclTensor* out, Binary function);
// out = function(gradient, self).
void unary_backward(Op& op, const aclTensor* gradient, const aclTensor* self, const aclTensor* out,
                    const std::function<double(double, double)>& function);

}  // namespace fake
