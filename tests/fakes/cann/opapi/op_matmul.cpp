// Products of matrices. (Matmul is in basic.cpp.)
#include "backends/npu/cann/ops_nn.h"
#include "elementwise.h"
#include "products.h"

namespace fake {

numerics::Rounding rounding_of(Op& op, aclDataType dtype, std::int8_t cube_math) {
  using numerics::Rounding;
  const bool old = !on(op, a2_a3_a5);
  const bool wide = dtype == ACL_FLOAT;
  op.need(cube_math >= 0 && cube_math <= (old ? 2 : 4), "cubeMathType is none of the chip's.");
  // "910/310P: FP32 with cubeMathType 0, and any 3, refused; 1 = FP16."
  op.need(!old || !wide || cube_math != 0, "FLOAT isn't supported with cubeMathType 0 on this SoC.");
  // "A2 A3 A5: 1 = HF32 for FP32; 2 refused for BF16; 3 only FP32".
  op.need(dtype != ACL_BF16 || cube_math != 2, "cubeMathType 2 isn't for BFLOAT16.");
  op.need(wide || cube_math != 3, "cubeMathType 3 is for FLOAT alone.");
  if (!wide || cube_math == 0 || cube_math == 4) return Rounding::kNone;
  return old || cube_math == 2 ? Rounding::kFloat16 : Rounding::kHf32;
}

namespace {

void require_product_types(Op& op, const Tensor& a, const Tensor& b, const Tensor& out) {
  op.need(a.dtype() == b.dtype() || (a.dtype() != ACL_BF16 && b.dtype() != ACL_BF16),
          "bf16 can't be mixed with other types");  // "BF16 mixed with others refused (A2/A3)"
  require_castable(op, promoted(a.dtype(), b.dtype()), out);
}

void product(Op& op, const aclTensor* self, const aclTensor* other, const aclTensor* out, std::int8_t cube_math,
             std::int64_t rank) {
  const Tensor a = op.in("self", self, floats);
  const Tensor b = op.in("mat2", other, floats);
  const Tensor y = op.out("out", out, floats);
  require_product_types(op, a, b, y);
  op.need(a.rank() == rank && b.rank() == rank, "self and mat2 should have " + std::to_string(rank) + " dimensions");
  op.need(a.dim(-1) == b.dim(-2),
          "the k of self " + text_of(a.shape()) + " and mat2 " + text_of(b.shape()) + " differ");
  Shape shape = {a.dim(-2), b.dim(-1)};
  if (rank == 3) {  // "BatchMatMul 3-D (batch 1 broadcasts)"
    op.need(a.dim(0) == b.dim(0) || a.dim(0) == 1 || b.dim(0) == 1, "batches of self and mat2 differ");
    shape.insert(shape.begin(), std::max(a.dim(0), b.dim(0)));
  }
  op.shape(y, shape);
  // BatchMatMul ignores 3.
  const bool ignored = rank == 3 && cube_math == 3 && on(op, a2_a3_a5);
  const numerics::Rounding rounding =
      rounding_of(op, promoted(a.dtype(), b.dtype()), ignored ? std::int8_t{0} : cube_math);
  op.workspace(scratch);
  op.run([=](Run& run) {
    numerics::Product how;
    how.rounding = rounding;
    numerics::matmul(run.view(a), run.view(b), run.view(y), how);
  });
}

struct Sum {
  const aclTensor* self;
  const aclTensor* one;
  const aclTensor* two;
  const aclScalar* beta;
  const aclScalar* alpha;
  const aclTensor* out;
};

void sum_with_product(Op& op, const Sum& given, std::int8_t cube_math, std::int64_t rank) {
  const Tensor c = op.in("self", given.self, floats);
  const Tensor a = op.in("mat1", given.one, floats);
  const Tensor b = op.in("mat2", given.two, floats);
  const Tensor y = op.out("out", given.out, floats);
  require_product_types(op, a, b, y);
  op.need(a.rank() == rank && b.rank() == rank, "mat1 and mat2 should have " + std::to_string(rank) + " dimensions");
  op.need(a.dim(-1) == b.dim(-2), "the k of mat1 and mat2 differ");
  Shape shape = {a.dim(-2), b.dim(-1)};
  if (rank == 3) {
    op.need(a.dim(0) == b.dim(0), "batches of batch1 and batch2 differ");
    shape.insert(shape.begin(), a.dim(0));
  }
  op.need(broadcast_shape(op, c.shape(), shape) == shape, "self should broadcast to " + text_of(shape));
  op.shape(y, shape);
  numerics::Product how;
  how.alpha = op.number("alpha", given.alpha);
  how.beta = op.number("beta", given.beta);
  how.rounding = rounding_of(op, promoted(a.dtype(), b.dtype()), cube_math);
  op.workspace(scratch);
  op.run([=](Run& run) {
    numerics::Product product = how;
    const View addend = run.view(c);
    product.addend = &addend;
    numerics::matmul(run.view(a), run.view(b), run.view(y), product);
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(Mm, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType) {
  return plan("aclnnMm", workspaceSize, executor, [&](Op& op) { product(op, self, mat2, out, cubeMathType, 2); });
}
FAKE_OP(BatchMatMul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType) {
  return plan("aclnnBatchMatMul", workspaceSize, executor,
              [&](Op& op) { product(op, self, mat2, out, cubeMathType, 3); });
}
FAKE_OP(Addmm, const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType) {
  return plan("aclnnAddmm", workspaceSize, executor, [&](Op& op) {
    sum_with_product(op, {self, mat1, mat2, beta, alpha, out}, cubeMathType, 2);
  });
}
FAKE_OP(InplaceAddmm, const aclTensor* selfRef, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
        const aclScalar* alpha, int8_t cubeMathType) {
  return plan("aclnnInplaceAddmm", workspaceSize, executor, [&](Op& op) {
    sum_with_product(op, {selfRef, mat1, mat2, beta, alpha, selfRef}, cubeMathType, 2);
  });
}
FAKE_OP(Baddbmm, const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType) {
  return plan("aclnnBaddbmm", workspaceSize, executor, [&](Op& op) {
    sum_with_product(op, {self, batch1, batch2, beta, alpha, out}, cubeMathType, 3);
  });
}
FAKE_OP(InplaceBaddbmm, const aclTensor* selfRef, const aclTensor* batch1, const aclTensor* batch2,
        const aclScalar* beta, const aclScalar* alpha, int8_t cubeMathType) {
  return plan("aclnnInplaceBaddbmm", workspaceSize, executor, [&](Op& op) {
    sum_with_product(op, {selfRef, batch1, batch2, beta, alpha, selfRef}, cubeMathType, 3);
  });
}
