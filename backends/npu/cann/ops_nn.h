#pragma once
// libopapi.so (8.x; split by kind in 9.x): products, activations' gradients, norms, losses, embeddings, the optimiser's
// step, convolution.
#include "backends/npu/cann/op.h"

extern "C" {
ACLNN_OP(Matmul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType);
ACLNN_OP(Mm, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType);
ACLNN_OP(BatchMatMul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType);
ACLNN_OP(Addmm, const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
         const aclScalar* alpha, aclTensor* out, int8_t cubeMathType);
ACLNN_OP(InplaceAddmm, const aclTensor* selfRef, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
         const aclScalar* alpha, int8_t cubeMathType);
ACLNN_OP(Baddbmm, const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2, const aclScalar* beta,
         const aclScalar* alpha, aclTensor* out, int8_t cubeMathType);
ACLNN_OP(InplaceBaddbmm, const aclTensor* selfRef, const aclTensor* batch1, const aclTensor* batch2,
         const aclScalar* beta, const aclScalar* alpha, int8_t cubeMathType);
ACLNN_OP(SiluBackward, const aclTensor* gradOutput, const aclTensor* self, aclTensor* gradInput);
ACLNN_OP(GeluBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* gradInput);
ACLNN_OP(GeluBackwardV2, const aclTensor* gradOutput, const aclTensor* self, char* approximate, aclTensor* gradInput);
ACLNN_OP(SigmoidBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput);
ACLNN_OP(TanhBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput);
ACLNN_OP(SoftplusBackward, const aclTensor* gradOutput, const aclTensor* self, const aclScalar* beta,
         const aclScalar* threshold, aclTensor* gradInput);
ACLNN_OP(ThresholdBackward, const aclTensor* gradOutput, const aclTensor* self, const aclScalar* threshold,
         aclTensor* out);
ACLNN_OP(SwiGlu, const aclTensor* x, int64_t dim, const aclTensor* out);
ACLNN_OP(SwiGluGrad, const aclTensor* yGrad, const aclTensor* x, int64_t dim, const aclTensor* out);
ACLNN_OP(RmsNorm, const aclTensor* x, const aclTensor* gamma, double epsilon, const aclTensor* yOut,
         const aclTensor* rstdOut);
ACLNN_OP(RmsNormGrad, const aclTensor* dy, const aclTensor* x, const aclTensor* rstd, const aclTensor* gamma,
         const aclTensor* dxOut, const aclTensor* dgammaOut);
ACLNN_OP(AddRmsNorm, const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma, double epsilon,
         const aclTensor* yOut, const aclTensor* rstdOut, const aclTensor* xOut);
ACLNN_OP(LayerNorm, const aclTensor* input, const aclIntArray* normalizedShape, const aclTensor* weightOptional,
         const aclTensor* biasOptional, double eps, aclTensor* out, aclTensor* meanOutOptional,
         aclTensor* rstdOutOptional);
ACLNN_OP(LayerNormBackward, const aclTensor* gradOut, const aclTensor* input, const aclIntArray* normalizedShape,
         const aclTensor* mean, const aclTensor* rstd, const aclTensor* weightOptional, const aclTensor* biasOptional,
         const aclBoolArray* outputMask, aclTensor* gradInputOut, aclTensor* gradWeightOut, aclTensor* gradBiasOut);
ACLNN_OP(NLLLoss, const aclTensor* self, const aclTensor* target, const aclTensor* weight, int64_t reduction,
         int64_t ignoreIndex, aclTensor* out, aclTensor* totalWeightOut);
ACLNN_OP(NLLLossBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target,
         const aclTensor* weight, int64_t reduction, int64_t ignoreIndex, const aclTensor* totalWeight, aclTensor* out);
ACLNN_OP(CrossEntropyLoss, const aclTensor* input, const aclTensor* target, const aclTensor* weightOptional,
         char* reductionOptional, int64_t ignoreIndex, double labelSmoothing, double lseSquareScaleForZloss,
         bool returnZloss, const aclTensor* lossOut, const aclTensor* logProbOut, const aclTensor* zlossOut,
         const aclTensor* lseForZlossOut);
ACLNN_OP(CrossEntropyLossGrad, const aclTensor* gradLoss, const aclTensor* logProb, const aclTensor* target,
         const aclTensor* weightOptional, const aclTensor* gradZlossOptional, const aclTensor* lseForZlossOptional,
         char* reductionOptional, int64_t ignoreIndex, double labelSmoothing, double lseSquareScaleForZloss,
         const aclTensor* out);
ACLNN_OP(Embedding, const aclTensor* weight, const aclTensor* indices, const aclTensor* out);
ACLNN_OP(EmbeddingDenseBackward, const aclTensor* grad, const aclTensor* indices, uint64_t numWeights,
         uint64_t paddingIdx, bool scaleGradByFreq, const aclTensor* out);
ACLNN_OP(ApplyAdamWV2, aclTensor* varRef, aclTensor* mRef, aclTensor* vRef, aclTensor* maxGradNormOptionalRef,
         const aclTensor* grad, const aclTensor* step, float lr, float beta1, float beta2, float weightDecay, float eps,
         bool amsgrad, bool maximize);
ACLNN_OP(Convolution, const aclTensor* input, const aclTensor* weight, const aclTensor* bias, const aclIntArray* stride,
         const aclIntArray* padding, const aclIntArray* dilation, bool transposed, const aclIntArray* outputPadding,
         int64_t groups, aclTensor* output, int8_t cubeMathType);
ACLNN_OP(ConvolutionBackward, const aclTensor* gradOutput, const aclTensor* input, const aclTensor* weight,
         const aclIntArray* biasSizes, const aclIntArray* stride, const aclIntArray* padding,
         const aclIntArray* dilation, bool transposed, const aclIntArray* outputPadding, int groups,
         const aclBoolArray* outputMask, int8_t cubeMathType, aclTensor* gradInput, aclTensor* gradWeight,
         aclTensor* gradBias);

// Newer than 8.1.
}
