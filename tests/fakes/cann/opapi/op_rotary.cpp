// Rotary positions.
#include <cstdint>

#include "arguments.h"
#include "backends/npu/cann/ops_transformer.h"
#include "numerics_norm.h"

namespace fake {
namespace {

// "cos/sin heads 1": each dimension of the tables is x's or 1, but the last.
void require_table(Op& op, const Tensor& table, const Tensor& x) {
  op.same_dtype(table, x);
  op.need(table.rank() == x.rank() && table.dim(-1) == x.dim(-1), table.name + " should be of x's rank and D.");
  for (std::int64_t i = 0; i + 1 < x.rank(); ++i) {
    op.need(table.dim(i) == x.dim(i) || table.dim(i) == 1, table.name + " should broadcast to x.");
  }
}

// "D even < 896 (310P <= 128, % 32, mode 0); B,N < 1000 (mode 1 B*N)".
void require_rotary(Op& op, const Tensor& x, std::int64_t mode) {
  op.rank(x, 4, 4);
  op.need(mode == 0 || mode == 1, "mode should be 0 (half) or 1 (interleave).");
  const std::int64_t width = x.dim(-1);
  op.need(width % 2 == 0 && width < 896, "D should be even and below 896.");
  op.need(!op.on(Family::k310P) || (width <= 128 && width % 32 == 0 && mode == 0),
          "This SoC takes D of 32 to 128 in steps of 32, and mode 0.");
  op.need(x.dim(0) < 1000 && x.dim(2) < 1000, "B and N should be below 1000.");
  op.need(mode == 0 || x.dim(0) * x.dim(2) < 1000, "B N should be below 1000.");
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(RotaryPositionEmbedding, const aclTensor* x_given, const aclTensor* cos_given, const aclTensor* sin_given,
        int64_t mode, aclTensor* out) {
  return plan("aclnnRotaryPositionEmbedding", workspaceSize, executor, [&](Op& op) {
    op.chips(not_910);
    const Tensor x = op.in("x", x_given, floats), cos = op.in("cos", cos_given, floats),
                 sin = op.in("sin", sin_given, floats), y = op.out("out", out, floats);
    op.same_dtype(x, y);
    require_rotary(op, x, mode);
    require_table(op, cos, x);
    require_table(op, sin, x);
    op.same_shape(x, y);
    op.contiguous(y);  // "out contiguous"
    op.run([=](Run& run) { numerics::rotate(run.view(x), run.view(cos), run.view(sin), mode == 1, run.view(y)); });
  });
}

FAKE_OP(RotaryPositionEmbeddingGrad, const aclTensor* dy_given, const aclTensor* cos_given, const aclTensor* sin_given,
        const aclTensor* xOptional, int64_t mode, const aclTensor* dxOut, const aclTensor* dcosOut,
        const aclTensor* dsinOut) {
  return plan("aclnnRotaryPositionEmbeddingGrad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    const Tensor dy = op.in("dy", dy_given, floats), cos = op.in("cos", cos_given, floats),
                 sin = op.in("sin", sin_given, floats), x = op.optional("x", xOptional, floats),
                 dx = op.out("dx", dxOut, floats);
    // "x null skips dcos/dsin, else B*N <= 1024".
    const Tensor dcos = x ? op.out("dcos", dcosOut, floats) : Tensor{};
    const Tensor dsin = x ? op.out("dsin", dsinOut, floats) : Tensor{};
    op.same_dtype(dy, dx);
    require_rotary(op, dy, mode);
    require_table(op, cos, dy);
    require_table(op, sin, dy);
    op.same_shape(dy, dx);
    op.same_shape(dy, x);
    op.same_shape(cos, dcos);
    op.same_shape(sin, dsin);
    op.need(!x || dy.dim(0) * dy.dim(2) <= 1024, "B N should be 1024 at most where x is given.");
    op.run([=](Run& run) {
      numerics::rotate_gradient(run.view(dy), run.view(cos), run.view(sin), mode == 1, run.view(dx));
      if (x) {
        numerics::rotate_table_gradient(run.view(dy), run.view(x), mode == 1, run.view(dcos), run.view(dsin));
      }
    });
  });
}

FAKE_OP(ApplyRotaryPosEmb, aclTensor* queryRef, aclTensor* keyRef, const aclTensor* cos_given,
        const aclTensor* sin_given, int64_t layout) {
  return plan("aclnnApplyRotaryPosEmb", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor query = op.out("queryRef", queryRef, floats), key = op.out("keyRef", keyRef, floats),
                 cos = op.in("cos", cos_given, floats), sin = op.in("sin", sin_given, floats);
    for (const Tensor& other : {key, cos, sin}) op.same_dtype(query, other);  // "one dtype"
    op.need(layout == 1, "layout should be 1 (BSND).");                       // "tr25: 128, layout 1"
    for (const Tensor& tensor : {query, key, cos, sin}) op.rank(tensor, 4, 4);
    const std::int64_t width = query.dim(-1);
    op.need(width == 64 || width == 128, "D should be 64 or 128.");
    op.need(cos.dim(2) == 1 && sin.dim(2) == 1, "cos and sin should have one head.");
    require_table(op, cos, query);
    require_table(op, sin, query);
    op.need(key.dim(0) == query.dim(0) && key.dim(1) == query.dim(1) && key.dim(-1) == width,
            "query and key should differ in heads alone.");
    // "(qN+kN)*D*c*5 + 4*D*e (+8*D for BF16), e bytes, c = 4 for BF16 else e, must fit UB."
    const std::int64_t bytes = bits_of(query.dtype()) / 8;
    const bool brain = query.dtype() == ACL_BF16;
    const std::int64_t heads = query.dim(2) + key.dim(2);
    op.need(
        heads * width * (brain ? 4 : bytes) * 5 + 4 * width * bytes + (brain ? 8 * width : 0) <= chip().unified_buffer,
        "The heads of query and key don't fit into the unified buffer.");
    op.run([=](Run& run) {
      for (const Tensor& tensor : {query, key}) {
        numerics::rotate(run.view(tensor), run.view(cos), run.view(sin), false, run.view(tensor));
      }
    });
  });
}
