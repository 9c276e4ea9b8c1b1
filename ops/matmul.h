// matmul: out = alpha op(a) op(b) + bias.
//
// Shapes: op(a) [m, k], op(b) [k, n], out [m, n], bias [n]; batched: all of a, b, out with a leading [batch]. a is [k,
// m] if
//   transpose_a, b [n, k] if transpose_b (1: a Hugging Face weight [out, in]). k = 0 gives the bias or 0.
// Dtypes: float. a and b are rounded to `compute`, products accumulate in fp32, alpha multiplies their sum, the
// result is rounded once to out's dtype. Dynamic: rows of a make rows of out dynamic; a dynamic inner dimension sums
// its valid entries only. Accumulate: out + the above, in fp32. Layouts: b may be packed by the device (a weight).
// Aliasing: none. Determinism: a fixed order of summation where `deterministic` is asked. Row invariant where that is.
// Backward: da = alpha dout op(b)^T, db = alpha op(a)^T dout (transposed as they are stored), dbias = row_sum(dout,
// axis 0). db and
//   dbias are added in fp32 to what is there.
// Decomposition: the bias apart (axpby with a broadcast); accumulating: into fp32, then axpby.
// Tolerance: u(out) |out| + u32 growth(k) (|alpha| sum |a b| + |bias|).
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  tern_compute compute = TERN_COMPUTE_F32;
  float alpha = 1.0F;
  tern_dtype out = TERN_F32;
  Value bias;  // may be absent
  Value into;  // adds to it
  std::uint32_t needs = 0;
};
[[nodiscard]] Value matmul(Emitter& emitter, Value a, Value b, const MatmulOptions& options);

}  // namespace tern::ops
