// Convolution of one or two dimensions.
#include "arguments.h"
#include "backends/npu/cann/ops_nn.h"
#include "numerics_misc.h"

namespace fake {
namespace {

struct Given {
  const aclIntArray *stride, *padding, *dilation;
  bool transposed;
  std::int64_t groups;
};

// [n, c, l] as [n, c, 1, l].
View plane(const View& view) { return view.shape.size() == 3 ? numerics::unsqueeze(view, 2) : view; }

numerics::Convolution convolution_of(Op& op, const Given& given, const Tensor& x, const Tensor& weight,
                                     const Tensor& y) {
  op.need(!given.transposed, "The fake transposes no convolution.");
  op.rank(x, 3, 4);
  op.rank(weight, x.rank(), x.rank());
  op.rank(y, x.rank(), x.rank());
  op.same_dtype(x, weight);
  op.same_dtype(x, y);
  op.need(given.groups > 0 && weight.dim(0) % given.groups == 0 && x.dim(1) == weight.dim(1) * given.groups,
          "Channels of input, weight and groups don't fit.");
  const auto spatial = static_cast<std::size_t>(x.rank() - 2);
  const auto of = [&](const char* name, const aclIntArray* array, std::int64_t otherwise) {
    const Dims values = op.array(name, array);
    op.need(values.size() == spatial, std::string(name) + " should have a number a spatial dimension.");
    return spatial == 1 ? std::array<std::int64_t, 2>{otherwise, values[0]}
                        : std::array<std::int64_t, 2>{values[0], values[1]};
  };
  numerics::Convolution shape{of("stride", given.stride, 1), of("padding", given.padding, 0),
                              of("dilation", given.dilation, 1), given.groups};
  Dims expected = {x.dim(0), weight.dim(0)};
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::size_t at = spatial == 1 ? 1 : i;
    const auto dim = static_cast<std::int64_t>(i) + 2;
    expected.push_back(
        (x.dim(dim) + 2 * shape.padding[at] - shape.dilation[at] * (weight.dim(dim) - 1) - 1) / shape.stride[at] + 1);
  }
  op.shape(y, expected);
  op.workspace(scratch);
  return shape;
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(Convolution, const aclTensor* input, const aclTensor* weight_given, const aclTensor* bias_given,
        const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool transposed,
        const aclIntArray* outputPadding, const int64_t groups, aclTensor* output, int8_t cubeMathType) {
  return plan("aclnnConvolution", workspaceSize, executor, [&](Op& op) {
    const Tensor x = op.in("input", input, floats), weight = op.in("weight", weight_given, floats),
                 bias = op.optional("bias", bias_given, floats), y = op.out("output", output, floats);
    static_cast<void>(outputPadding);
    op.need(cubeMathType >= 0 && cubeMathType <= 3, "cubeMathType should be 0 to 3.");
    // nn: NCL, NCHW, and ND where the rank says which.
    for (const Tensor& tensor : {x, weight, y}) op.format(tensor, {ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_ND});
    const numerics::Convolution shape =
        convolution_of(op, {stride, padding, dilation, transposed, groups}, x, weight, y);
    op.shape(bias, {weight.dim(0)});
    op.run([=](Run& run) {
      const std::optional<View> shift = view_if(run, bias);
      numerics::convolve(plane(run.view(x)), plane(run.view(weight)), shift ? &*shift : nullptr, shape,
                         plane(run.view(y)));
    });
  });
}

FAKE_OP(ConvolutionBackward, const aclTensor* gradOutput, const aclTensor* input, const aclTensor* weight_given,
        const aclIntArray* biasSizes, const aclIntArray* stride, const aclIntArray* padding,
        const aclIntArray* dilation, bool transposed, const aclIntArray* outputPadding, int groups,
        const aclBoolArray* outputMask, int8_t cubeMathType, aclTensor* gradInput, aclTensor* gradWeight,
        aclTensor* gradBias) {
  return plan("aclnnConvolutionBackward", workspaceSize, executor, [&](Op& op) {
    const Tensor dy = op.in("gradOutput", gradOutput, floats), x = op.in("input", input, floats),
                 weight = op.in("weight", weight_given, floats);
    static_cast<void>(outputPadding);
    static_cast<void>(biasSizes);
    op.need(cubeMathType >= 0 && cubeMathType <= 3, "cubeMathType should be 0 to 3.");
    const std::vector<bool> wanted = op.truths("outputMask", outputMask);
    op.need(wanted.size() == 3, "outputMask should have three elements.");
    const Tensor dx = wanted[0] ? op.out("gradInput", gradInput, floats) : Tensor{};
    const Tensor dweight = wanted[1] ? op.out("gradWeight", gradWeight, floats) : Tensor{};
    const Tensor dbias = wanted[2] ? op.out("gradBias", gradBias, floats) : Tensor{};
    const numerics::Convolution shape =
        convolution_of(op, {stride, padding, dilation, transposed, groups}, x, weight, dy);
    op.same_shape(x, dx);
    op.same_shape(weight, dweight);
    op.shape(dbias, {weight.dim(0)});
    op.run([=](Run& run) {
      const std::optional<View> to_x = view_if(run, dx), to_weight = view_if(run, dweight),
                                to_bias = view_if(run, dbias);
      const std::optional<View> plane_x = to_x ? std::optional(plane(*to_x)) : std::nullopt;
      const std::optional<View> plane_weight = to_weight ? std::optional(plane(*to_weight)) : std::nullopt;
      numerics::convolve_gradient(plane(run.view(dy)), plane(run.view(x)), plane(run.view(weight)), shape,
                                  plane_x ? &*plane_x : nullptr, plane_weight ? &*plane_weight : nullptr,
                                  to_bias ? &*to_bias : nullptr);
    });
  });
}
