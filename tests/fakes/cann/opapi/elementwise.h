// What the ops that go element by element share.
#pragma once

#include "call.h"

namespace fake {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

// out = function(self); one shape. Floats unless said; an integer goes in where out is floating.
void unary(Call& call, const aclTensor* self, const aclTensor* out, Unary function, Types types = floats);
// out = function(self, other), which broadcast to out's shape; out takes what the two are promoted to.
void binary(Call& call, const aclTensor* self, const aclTensor* other, const aclTensor* out, Types types,
            const std::function<double(double, double)>& function);
// The same with a scalar, which has no say in the type unless it is floating and self isn't.
void with_scalar(Call& call, const aclTensor* self, const aclScalar* other, const aclTensor* out, Types types,
                 const std::function<double(double, double)>& function);
// In place: other broadcasts to self's shape.
void in_place(Call& call, const aclTensor* self, const aclTensor* other, Types types,
              const std::function<double(double, double)>& function);
// out (bool, or any number) = whether function holds.
void compare(Call& call, const aclTensor* self, const aclTensor* other, const aclTensor* out, Binary function);
void compare_scalar(Call& call, const aclTensor* self, const aclScalar* other, const aclTensor* out, Binary function);
// out = function(gradient, self).
void unary_backward(Call& call, const aclTensor* gradient, const aclTensor* self, const aclTensor* out,
                    const std::function<double(double, double)>& function);
// Floats don't go into integers, nor anything but bool into bool.
void require_castable(Call& call, Element from, const Argument& to);

}  // namespace fake
