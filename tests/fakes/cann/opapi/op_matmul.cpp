// Products of matrices. (Matmul itself is the framework's example.)
#include "backends/npu/cann/ops_nn.h"
#include "elementwise.h"
#include "numerics_matmul.h"

namespace fake {

// "cubeMathType 0 keep, 1 allow fp32 down, 2 fp16, 3 hf32": what the operands are rounded to, and what is refused.
Element multiplicand_of(Call& call, Element type, std::int8_t cube_math) {
  const bool old = !call.on(a2_a3_a5);
  call.require(cube_math >= 0 && cube_math <= 4, "cubeMathType should be 0 to 4");
  // "910/310P: FP32 with cubeMathType 0, and any 3, refused; 1 = FP16."
  call.require(!old || !(type == Element::kFloat32 && cube_math == 0),
               "fp32 with cubeMathType 0 is not supported on this SoC");
  call.require(!old || cube_math != 3, "cubeMathType 3 is not supported on this SoC");
  // "A2 A3 A5: 2 refused for BF16; 3 only FP32".
  call.require(!(type == Element::kBfloat16 && cube_math == 2), "cubeMathType 2 is not supported for bf16");
  call.require(cube_math != 3 || type == Element::kFloat32, "cubeMathType 3 is for fp32 alone");
  if (type == Element::kFloat32 && (cube_math == 2 || (old && cube_math == 1))) return Element::kFloat16;
  // HF32 keeps ten bits of a significand: fp16's, in fp32's range.
  if (type == Element::kFloat32 && (cube_math == 1 || cube_math == 3)) return Element::kFloat16;
  return Element::kFloat32;
}

namespace {

void require_product_types(Call& call, const Argument& a, const Argument& b, const Argument& out) {
  call.require(a.element == b.element || (a.element != Element::kBfloat16 && b.element != Element::kBfloat16),
               "bf16 can't be mixed with other types");  // "BF16 mixed with others refused (A2/A3)"
  require_castable(call, promoted(a.element, b.element), out);
}

void product(Call& call, const aclTensor* self, const aclTensor* other, const aclTensor* out, std::int8_t cube_math,
             std::int64_t rank) {
  const Argument a = call.tensor("self", self, floats);
  const Argument b = call.tensor("mat2", other, floats);
  const Argument y = call.tensor("out", out, floats);
  require_product_types(call, a, b, y);
  call.require(a.rank() == rank && b.rank() == rank,
               "self and mat2 should have " + std::to_string(rank) + " dimensions");
  call.require(a.size(-1) == b.size(-2),
               "the k of self " + text_of(a.shape) + " and mat2 " + text_of(b.shape) + " differ");
  Shape shape = {a.size(-2), b.size(-1)};
  if (rank == 3) {  // "BatchMatMul 3-D (batch 1 broadcasts)"
    call.require(a.size(0) == b.size(0) || a.size(0) == 1 || b.size(0) == 1, "batches of self and mat2 differ");
    shape.insert(shape.begin(), std::max(a.size(0), b.size(0)));
  }
  call.require_shape(y, shape);
  // BatchMatMul ignores 3.
  const bool ignored = rank == 3 && cube_math == 3 && call.on(a2_a3_a5);
  const Element multiplicand =
      multiplicand_of(call, promoted(a.element, b.element), ignored ? std::int8_t{0} : cube_math);
  call.workspace(16 << 20);
  call.run([=](const Run& run) {
    numerics::Product how;
    how.multiplicand = multiplicand;
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

void sum_with_product(Call& call, const Sum& op, std::int8_t cube_math, std::int64_t rank) {
  const Argument c = call.tensor("self", op.self, floats);
  const Argument a = call.tensor("mat1", op.one, floats);
  const Argument b = call.tensor("mat2", op.two, floats);
  const Argument y = call.tensor("out", op.out, floats);
  require_product_types(call, a, b, y);
  call.require(a.rank() == rank && b.rank() == rank,
               "mat1 and mat2 should have " + std::to_string(rank) + " dimensions");
  call.require(a.size(-1) == b.size(-2), "the k of mat1 and mat2 differ");
  Shape shape = {a.size(-2), b.size(-1)};
  if (rank == 3) {
    call.require(a.size(0) == b.size(0), "batches of batch1 and batch2 differ");
    shape.insert(shape.begin(), a.size(0));
  }
  call.require(broadcast_shape(call, c.shape, shape) == shape, "self should broadcast to " + text_of(shape));
  call.require_shape(y, shape);
  numerics::Product how;
  how.alpha = call.number("alpha", op.alpha);
  how.beta = call.number("beta", op.beta);
  how.multiplicand = multiplicand_of(call, promoted(a.element, b.element), cube_math);
  call.workspace(16 << 20);
  call.run([=](const Run& run) {
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
  FAKE_PLAN([&](Call& call) { product(call, self, mat2, out, cubeMathType, 2); });
}
FAKE_OP(BatchMatMul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType) {
  FAKE_PLAN([&](Call& call) { product(call, self, mat2, out, cubeMathType, 3); });
}
FAKE_OP(Addmm, const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType) {
  FAKE_PLAN([&](Call& call) { sum_with_product(call, {self, mat1, mat2, beta, alpha, out}, cubeMathType, 2); });
}
FAKE_OP(InplaceAddmm, const aclTensor* selfRef, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
        const aclScalar* alpha, int8_t cubeMathType) {
  FAKE_PLAN([&](Call& call) { sum_with_product(call, {selfRef, mat1, mat2, beta, alpha, selfRef}, cubeMathType, 2); });
}
FAKE_OP(Baddbmm, const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType) {
  FAKE_PLAN([&](Call& call) { sum_with_product(call, {self, batch1, batch2, beta, alpha, out}, cubeMathType, 3); });
}
FAKE_OP(InplaceBaddbmm, const aclTensor* selfRef, const aclTensor* batch1, const aclTensor* batch2,
        const aclScalar* beta, const aclScalar* alpha, int8_t cubeMathType) {
  FAKE_PLAN([&](Call& call) {
    sum_with_product(call, {selfRef, batch1, batch2, beta, alpha, selfRef}, cubeMathType, 3);
  });
}
