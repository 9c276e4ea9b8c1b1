// The product that matmul and matmul_q share.
#pragma once

#include "ops/ref/oracle.h"

namespace tern::ops::ref {

struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;       // a is [k, m]
  bool transpose_b = false;       // b is [n, k]
  tern_dtype compute = TERN_F32;  // a and b are rounded to it first
  double alpha = 1.0;

  // out[begin + i n + j] += alpha sum over l of op(a)[i, l] op(b)[l, j] + bias[j]; bias may be null.
  void run(const double* a, const double* b, const double* bias, Output& out, std::int64_t begin) const;
};

}  // namespace tern::ops::ref
