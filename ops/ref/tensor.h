// Tensors of the fp64 oracles: every element decoded to a double (integers to int64), in logical row-major order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/tensor_desc.h"
#include "tern/accel.h"

namespace tern::ops::ref {

struct Tensor {
  TensorDesc desc = absent_desc();
  std::vector<double> real;           // floating dtypes
  std::vector<std::int64_t> integer;  // integer dtypes and bool
  std::vector<double> parts;          // of a quantised weight: |scale code| + |minimum|, which add up to each element
  std::vector<std::int64_t> order;    // of one whose planes have its inputs in another order: where each is there
  // Of outputs: how far a kernel that keeps the contract may be off in each element before it rounds to the dtype
  // (ops/tolerance.h). Empty: not at all; infinity: the contract leaves the element open.
  std::vector<double> slack;
  // Of outputs: what else an element may be, where fp32 cannot decide between results (a draw at the border between two
  // tokens). By element; empty: nothing.
  std::vector<std::vector<double>> others;

  [[nodiscard]] bool present() const { return is_present(desc); }
  [[nodiscard]] std::int64_t size(int dim) const { return desc.shape[dim]; }
};

struct Call {
  std::uint32_t op = 0;
  std::span<const std::byte> attrs;
  std::uint32_t accumulate = 0;
  std::span<Tensor> args;  // the table's order; dynamic dimensions already cut to their actual counts
};

// Planes of bytes as a device holds them -> elements, quantised packings expanded. Throws std::invalid_argument where a
// plane is too small.
[[nodiscard]] Tensor decode(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes);
// Elements -> bytes, rounded to nearest even; only strided, unquantised descs. Bytes between elements are kept.
void encode(const Tensor& tensor, const TensorDesc& desc, std::span<std::byte> plane);
// `value` rounded as storage in `dtype` rounds it: to nearest even, past the largest finite number to infinity (E4M3,
// which has none: to NaN).
[[nodiscard]] double round_to(tern_dtype dtype, double value);
// Half of the distance between neighbours of `value` in `dtype`; at least half of the smallest subnormal.
[[nodiscard]] double half_ulp(tern_dtype dtype, double value);
[[nodiscard]] double largest_finite(tern_dtype dtype);
// The largest relative error of one rounding to `dtype`: 2^-24 for f32.
[[nodiscard]] double unit_roundoff(tern_dtype dtype);

}  // namespace tern::ops::ref
