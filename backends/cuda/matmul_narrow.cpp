// matmul in fp32 of a matrix of 16 bits by one of few rows or columns, and sums of few products: an adapter's.
#include "backends/cuda/narrow.h"

namespace tern::cuda {
namespace {

enum Kind { kShrink, kExpand, kReduce };

// out [m, n] = a [m, k] b [n, k]^T of what the op says, whichever way its matrices lie.
struct Sides {
  Matrix a, b, out;
};

template <typename Get>
Sides sides_of(const Get& matrix, const tern_matmul_attrs& attrs) {
  Sides sides{matrix(TERN_MATMUL_A), matrix(TERN_MATMUL_B), matrix(TERN_MATMUL_OUT)};
  if (attrs.transpose_a != 0) sides.a = sides.a.turned();
  if (attrs.transpose_b == 0) sides.b = sides.b.turned();
  return sides;
}

Sides sides_of(const tern_op_desc& op) {
  return sides_of(
      [&](int i) {
        const tern_tensor_desc& desc = op.args[i];
        return Matrix{{0, desc.dtype, 0}, desc.shape[0], desc.shape[1], desc.strides[0], desc.strides[1]};
      },
      *static_cast<const tern_matmul_attrs*>(op.attrs));
}

// So that b is the narrow side.
Sides with_narrow_b(Sides sides) {
  if (sides.b.rows <= sides.a.rows) return sides;
  return {sides.b, sides.a, sides.out.turned()};
}

bool supports(const PlanDesc& desc, std::string& reason) {
  constexpr std::int64_t kLeastWidth = 128;  // less is nothing that is worth the laying out
  const auto& attrs = desc.attrs<tern_matmul_attrs>();
  Check check(desc, reason);
  check.floats({TERN_MATMUL_A, TERN_MATMUL_B, TERN_MATMUL_OUT})
      .that(attrs.compute == TERN_COMPUTE_F32, "it computes in f32 alone")
      .that(!desc.present(TERN_MATMUL_BIAS), "it adds no bias")
      .rank(TERN_MATMUL_A, 2)
      .rank(TERN_MATMUL_B, 2)
      .rank(TERN_MATMUL_OUT, 2)
      .that(!desc.needs(TERN_NEED_ROW_INVARIANT), "which side is narrow depends on how many rows there are");
  if (!check.ok()) return false;
  const Sides plain = sides_of(desc.op);
  check.that(plain.a.columns == plain.b.columns && plain.out.rows == plain.a.rows && plain.out.columns == plain.b.rows,
             "the shapes of a, b and out do not fit each other");
  if (desc.variant == kExpand) {
    return check.that(plain.a.columns <= kMostRank, "the sum is of more than 64 products")
        .that(plain.out.column == 1 && plain.out.columns >= kLeastWidth, "out's rows are short, or not dense")
        .ok();
  }
  const Sides sides = with_narrow_b(plain);
  check.that(sides.b.rows <= kMostRank, "neither side has at most 64 rows")
      .that(sides.a.tensor.dtype != TERN_F32, "the wide side is not of 16 bits");
  if (desc.variant == kShrink) {
    return check.that(sides.a.column == 1 && sides.a.columns >= kLeastWidth, "the wide side doesn't lie along the sum")
        .ok();
  }
  return check.that(sides.a.row == 1 && sides.a.rows >= kLeastWidth, "the wide side doesn't lie across the sum").ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  const Sides plain = sides_of(desc.op), sides = with_narrow_b(plain);
  switch (desc.variant) {
    case kExpand:
      return narrow_bytes(plain.out.rows, plain.out.columns, plain.a.columns, desc.device);
    case kShrink:
      return narrow_bytes(sides.a.rows, sides.a.columns, sides.b.rows, desc.device);
    default:
      return narrow_bytes(sides.a.columns, sides.a.rows, sides.b.rows, desc.device);
  }
}

Functions functions(const PlanDesc& /*desc*/) { return narrow_functions(); }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_matmul_attrs>();
  const Sides plain = sides_of([&](int i) { return matrix_of(launch[i]); }, attrs);
  NarrowProducts products(launch, 0, launch.workspace());
  if (launch.variant() == kExpand) return products.expand(plain.a, plain.b.turned(), plain.out, attrs.alpha);
  // As planned: how many rows there are now must not change which side is which.
  const Sides largest = sides_of(launch.planned());
  const bool swapped = largest.b.rows > largest.a.rows;
  const Sides sides = swapped ? Sides{plain.b, plain.a, plain.out.turned()} : plain;
  if (launch.variant() == kShrink) return products.shrink(sides.a, sides.b, sides.out, attrs.alpha);
  products.reduce(sides.b.turned(), sides.a.turned(), sides.out.turned(), attrs.alpha);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MATMUL, "narrow_shrink", supports, workspace, functions, run, kShrink},
                                    {TERN_OP_MATMUL, "narrow_expand", supports, workspace, functions, run, kExpand},
                                    {TERN_OP_MATMUL, "narrow_reduce", supports, workspace, functions, run, kReduce}};

}  // namespace

KernelList matmul_narrow_kernels() { return kKernels; }

}  // namespace tern::cuda
