// Products with quantised weights, and the packing of those.
#include <cmath>

#include "arguments.h"
#include "backends/npu/cann/ops_quant.h"
#include "numerics_matmul.h"
#include "numerics_misc.h"

namespace fake {
namespace {

struct WeightQuant {
  const aclTensor *x, *weight, *scale, *offset, *quant_scale, *quant_offset, *bias;
  std::int64_t group;
  const aclTensor* y;
};

// An int32 holds eight int4, low first, along the weight's last dimension; a transposed one along its first.
View unpacked(const View& view) {
  View result = view;
  result.element = Element::kInt4;
  result.offset *= 8;
  const bool turned = view.strides[0] == 1 && view.strides[1] != 1;
  for (std::size_t i = 0; i < 2; ++i) {
    if (view.strides[i] != 1) result.strides[i] *= 8;
  }
  result.shape[turned ? 0 : 1] *= 8;
  return result;
}

// "WeightQuantBatchMatmulV2 A2 A3 310P A5": w = (q + offset) * scale.
void weight_quant(Op& op, const WeightQuant& given) {
  op.chips(not_910);
  const bool small = op.on(Family::k310P);
  const Tensor x = op.in("x", given.x, small ? Dtypes{ACL_FLOAT16} : halves);
  const Tensor weight = op.in("weight", given.weight, small ? Dtypes{ACL_INT8} : Dtypes{ACL_INT8, ACL_INT4, ACL_INT32});
  const Tensor scale = op.in("antiquantScale", given.scale, halves);
  const Tensor offset = op.optional("antiquantOffset", given.offset, halves);
  absent("quantScale", given.quant_scale);
  absent("quantOffset", given.quant_offset);
  const Tensor bias = op.optional("bias", given.bias, floats);
  const Tensor y = op.out("y", given.y, halves);
  op.same_dtype(x, scale);
  op.same_dtype(x, offset);
  op.same_dtype(x, y);
  // "BF16's bias FP32"
  if (bias && bias.dtype() != (x.dtype() == ACL_BF16 ? ACL_FLOAT : ACL_FLOAT16))
    op.no("The dtype of bias isn't the op's.");
  op.format(weight, {ACL_FORMAT_ND});
  op.rank(x, 2, 2);
  op.rank(weight, 2, 2);
  const View seen{nullptr, 0, element_of(weight.dtype()), weight.shape(), weight.seen.strides};
  const Shape shape = weight.dtype() == ACL_INT32 ? unpacked(seen).shape : weight.shape();
  const std::int64_t depth = shape[0], columns = shape[1];
  op.need(x.dim(1) == depth, "k of x and of weight differ.");
  op.need(depth <= 65535 && columns <= 65535, "k and n should be 65535 at most.");
  op.need(weight.dtype() != ACL_INT4 || weight.dim(weight.seen.strides[1] == 1 ? 1 : 0) % 2 == 0,
          "The last dimension of an int4 weight should be even.");
  // "group 0 or % 32 in [32,k-1]"; "310P FP16 x INT8, ggml: no groups".
  const bool grouped = given.group != 0;
  op.need(!grouped || (given.group % 32 == 0 && given.group >= 32 && given.group <= depth - 1),
          "antiquantGroupSize should be 0 or a multiple of 32 from 32 to k - 1.");
  op.need(!grouped || !small, "This SoC takes no groups.");
  const Shape table = {grouped ? (depth + given.group - 1) / given.group : 1, columns};
  for (const Tensor& factor : {scale, offset}) {
    if (!factor) continue;
    const bool whole = !grouped && (factor.shape() == Shape{1} || factor.shape() == Shape{columns});
    op.need(whole || factor.shape() == table, factor.name + " should be " + text_of(table) + ".");
  }
  if (bias) op.need(bias.shape() == Shape{columns} || bias.shape() == Shape{1, columns}, "bias should be [n].");
  op.shape(y, {x.dim(0), columns});
  op.workspace(scratch);
  const std::int64_t group = given.group;
  op.run([=](Run& run) {
    View codes = run.view(weight);
    if (weight.dtype() == ACL_INT32) codes = unpacked(codes);
    const std::optional<View> shift = view_if(run, offset);
    std::vector<float> values =
        numerics::dequantized(codes, run.view(scale), shift ? &*shift : nullptr, group, element_of(x.dtype()));
    numerics::Product product;
    const std::optional<View> addend = view_if(run, bias);
    product.beta = addend ? 1 : 0;
    product.addend = addend ? &*addend : nullptr;
    numerics::matmul(run.view(x), numerics::view_of(values, {depth, columns}), run.view(y), product);
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(WeightQuantBatchMatmulV2, const aclTensor* x, const aclTensor* weight, const aclTensor* antiquantScale,
        const aclTensor* antiquantOffsetOptional, const aclTensor* quantScaleOptional,
        const aclTensor* quantOffsetOptional, const aclTensor* biasOptional, int antiquantGroupSize,
        const aclTensor* y) {
  return plan("aclnnWeightQuantBatchMatmulV2", workspaceSize, executor, [&](Op& op) {
    weight_quant(op, {x, weight, antiquantScale, antiquantOffsetOptional, quantScaleOptional, quantOffsetOptional,
                      biasOptional, antiquantGroupSize, y});
  });
}

FAKE_OP(WeightQuantBatchMatmulV3, const aclTensor* x, const aclTensor* weight, const aclTensor* antiquantScale,
        const aclTensor* antiquantOffsetOptional, const aclTensor* quantScaleOptional,
        const aclTensor* quantOffsetOptional, const aclTensor* biasOptional, int antiquantGroupSize, int innerPrecise,
        const aclTensor* y) {
  return plan("aclnnWeightQuantBatchMatmulV3", workspaceSize, executor, [&](Op& op) {
    op.chips(a2_a3_a5);  // "V3 not 310P"
    op.need(innerPrecise == 0 || innerPrecise == 1, "innerPrecise should be 0 or 1.");
    weight_quant(op, {x, weight, antiquantScale, antiquantOffsetOptional, quantScaleOptional, quantOffsetOptional,
                      biasOptional, antiquantGroupSize, y});
  });
}

FAKE_OP(ConvertWeightToINT4Pack, const aclTensor* weight, aclTensor* weightInt4Pack) {
  return plan("aclnnConvertWeightToINT4Pack", workspaceSize, executor, [&](Op& op) {
    op.chips(a2_a3_a5);
    const Tensor codes = op.in("weight", weight, int32),
                 packed = op.out("weightInt4Pack", weightInt4Pack, {ACL_INT32, ACL_INT4});
    op.rank(codes, 2, 3);
    Shape shape = codes.shape();
    op.need(shape.back() % 8 == 0, "The last dimension of weight should be a multiple of 8.");
    if (packed.dtype() == ACL_INT32) shape.back() /= 8;
    op.shape(packed, shape);
    op.contiguous(packed);
    op.run([=](Run& run) {
      View to = run.view(packed);
      if (packed.dtype() == ACL_INT32) {
        to.element = Element::kInt4;
        to.offset *= 8;
        to.shape = codes.shape();
        to.strides = numerics::contiguous_strides(to.shape);
      }
      numerics::store(to, numerics::load_integers(run.view(codes)));
    });
  });
}

FAKE_OP(DynamicQuant, const aclTensor* x_given, const aclTensor* smoothScalesOptional, const aclTensor* yOut,
        const aclTensor* scaleOut) {
  return plan("aclnnDynamicQuant", workspaceSize, executor, [&](Op& op) {
    const bool old = op.on(Family::k910) || op.on(Family::k310P);
    const Tensor x = op.in("x", x_given, halves), smooth = op.optional("smoothScales", smoothScalesOptional, halves),
                 y = op.out("y", yOut, old ? Dtypes{ACL_INT8} : Dtypes{ACL_INT8, ACL_INT4}),
                 scale = op.out("scale", scaleOut, fp32);
    op.rank(x, 2, 8);
    op.need(!old || x.dim(-1) % 32 == 0, "The last dimension should be a multiple of 32 on this SoC.");
    op.need(y.dtype() != ACL_INT4 || x.dim(-1) % 2 == 0, "The last dimension should be even.");
    op.same_shape(x, y);
    op.same_dtype(x, smooth);
    op.shape(smooth, {x.dim(-1)});
    op.shape(scale, {x.shape().begin(), x.shape().end() - 1});
    op.run([=](Run& run) {
      const std::optional<View> factors = view_if(run, smooth);
      numerics::dynamic_quantise(run.view(x), factors ? &*factors : nullptr, y.dtype() == ACL_INT4 ? 7 : 127,
                                 run.view(y), run.view(scale));
    });
  });
}

// The weight's own layout is the fake's business: it keeps the plain one, in a buffer of the size that the layout
// needs.
extern "C" aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                                        uint64_t* weightTensorSize) {
  return guarded("aclnnCalculateMatmulWeightSizeV2", [&] {
    if (tensorShape == nullptr || weightTensorSize == nullptr) refuse(ACLNN_ERR_PARAM_NULLPTR, "An argument is null.");
    const Dims& shape = tensorShape->values;
    if (shape.size() < 2) refuse(ACLNN_ERR_PARAM_INVALID, "A weight has two dimensions at least.");
    // "last dims to 16 x 16 (FP16/BF16), 16 x 32 (INT8)"
    const std::int64_t block = dataType == ACL_INT8 ? 32 : 16;
    const std::int64_t rows = (shape[shape.size() - 2] + 15) / 16 * 16,
                       columns = (shape.back() + block - 1) / block * block;
    std::int64_t elements = rows * columns;
    for (std::size_t i = 0; i + 2 < shape.size(); ++i) elements *= shape[i];
    *weightTensorSize = static_cast<std::uint64_t>(elements);
  });
}
