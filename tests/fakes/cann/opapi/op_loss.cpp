// Losses and the optimiser's step.
#include <string_view>

#include "arguments.h"
#include "backends/npu/cann/ops_nn.h"
#include "numerics_misc.h"
#include "numerics_reduce.h"

namespace fake {
namespace {

using Over = numerics::ClassLoss::Over;

Over over_of(Op& op, std::int64_t reduction) {
  op.need(reduction >= 0 && reduction <= 2, "reduction should be 0 (none), 1 (mean) or 2 (sum).");
  return reduction == 0 ? Over::kNone : reduction == 1 ? Over::kMean : Over::kSum;
}

Over over_of(Op& op, const char* reduction) {
  const std::string_view text = reduction != nullptr ? reduction : "mean";
  op.need(text == "none" || text == "mean" || text == "sum", "reduction should be none, mean or sum.");
  return text == "none" ? Over::kNone : text == "mean" ? Over::kMean : Over::kSum;
}

std::vector<std::int64_t> targets_of(const Run& run, const Tensor& target, std::int64_t classes, std::int64_t ignored) {
  std::vector<std::int64_t> targets = numerics::load_integers(run.view(target));
  for (const std::int64_t id : targets) {
    if (id != ignored && (id < 0 || id >= classes)) {
      refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "target holds " + std::to_string(id) + ", which is no class.");
    }
  }
  return targets;
}

struct Classes {
  Tensor x, target, weight;
};

Classes require_classes(Op& op, const aclTensor* x, const aclTensor* target, const aclTensor* weight,
                        const Dtypes& ids) {
  Classes classes{op.in("self", x, floats), op.in("target", target, ids), op.optional("weight", weight, floats)};
  op.rank(classes.x, 2, 2);
  op.shape(classes.target, {classes.x.dim(0)});
  op.shape(classes.weight, {classes.x.dim(1)});
  return classes;
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(CrossEntropyLoss, const aclTensor* input, const aclTensor* target, const aclTensor* weightOptional,
        char* reductionOptional, int64_t ignoreIndex, double labelSmoothing, double lseSquareScaleForZloss,
        bool returnZloss, const aclTensor* lossOut, const aclTensor* logProbOut, const aclTensor* zlossOut,
        const aclTensor* lseForZlossOut) {
  return plan("aclnnCrossEntropyLoss", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    const Classes in = require_classes(op, input, target, weightOptional, int64);  // "INT64"
    // "T loss,logProb,zloss,lse (none null)"
    const Tensor loss = op.out("loss", lossOut, floats), log_probability = op.out("logProb", logProbOut, floats);
    static_cast<void>(op.out("zloss", zlossOut, floats));
    static_cast<void>(op.out("lseForZloss", lseForZlossOut, floats));
    op.need(!returnZloss && lseSquareScaleForZloss == 0, "The fake gives no z-loss.");
    numerics::ClassLoss how;
    how.over = over_of(op, reductionOptional);
    how.ignored = ignoreIndex;
    how.smoothing = labelSmoothing;
    op.same_dtype(in.x, loss);
    op.same_shape(in.x, log_probability);
    op.shape(loss, {how.over == Over::kNone ? in.x.dim(0) : 1});  // "loss [1] unless "none""
    op.run([=](Run& run) {
      numerics::ClassLoss classes = how;
      classes.targets = targets_of(run, in.target, in.x.dim(1), how.ignored);
      const std::optional<View> weight = view_if(run, in.weight);
      classes.weight = weight ? &*weight : nullptr;
      std::vector<float> logarithms(static_cast<std::size_t>(in.x.count()));
      const View rows = numerics::view_of(logarithms, in.x.shape());
      numerics::softmax(run.view(in.x), 1, true, rows);
      numerics::store(run.view(log_probability), std::span<const float>(logarithms));
      numerics::class_loss(rows, classes, run.view(loss), nullptr);
    });
  });
}

FAKE_OP(CrossEntropyLossGrad, const aclTensor* gradLoss, const aclTensor* logProb, const aclTensor* target,
        const aclTensor* weightOptional, const aclTensor* gradZlossOptional, const aclTensor* lseForZlossOptional,
        char* reductionOptional, int64_t ignoreIndex, double labelSmoothing, double lseSquareScaleForZloss,
        const aclTensor* out) {
  return plan("aclnnCrossEntropyLossGrad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    const Tensor dy = op.in("gradLoss", gradLoss, floats);
    const Classes in = require_classes(op, logProb, target, weightOptional, int64);
    const Tensor dx = op.out("out", out, floats);
    absent("gradZloss", gradZlossOptional);
    static_cast<void>(lseForZlossOptional);
    op.need(labelSmoothing == 0, "labelSmoothing should be 0.");  // "d smoothing (0.0)"
    op.need(lseSquareScaleForZloss == 0, "The fake gives no z-loss.");
    numerics::ClassLoss how;
    how.over = over_of(op, reductionOptional);
    how.ignored = ignoreIndex;
    op.shape(dy, how.over == Over::kNone ? Shape{in.x.dim(0)} : Shape{});  // "mean/sum gradLoss 0-D"
    op.same_shape(in.x, dx);
    op.run([=](Run& run) {
      numerics::ClassLoss classes = how;
      classes.targets = targets_of(run, in.target, in.x.dim(1), how.ignored);
      const std::optional<View> weight = view_if(run, in.weight);
      classes.weight = weight ? &*weight : nullptr;
      numerics::class_loss_gradient(run.view(dy), run.view(in.x), classes, true, run.view(dx));
    });
  });
}

FAKE_OP(NLLLoss, const aclTensor* self, const aclTensor* target, const aclTensor* weight, int64_t reduction,
        int64_t ignoreIndex, aclTensor* out, aclTensor* totalWeightOut) {
  return plan("aclnnNLLLoss", workspaceSize, executor, [&](Op& op) {
    const Classes in = require_classes(op, self, target, weight, {ACL_INT32, ACL_INT64, ACL_UINT8});
    if (!in.weight) refuse(ACLNN_ERR_PARAM_NULLPTR, "weight is null.");
    const Tensor loss = op.out("out", out, floats), total = op.out("totalWeight", totalWeightOut, floats);
    numerics::ClassLoss how;
    how.over = over_of(op, reduction);
    how.ignored = ignoreIndex;
    op.same_dtype(in.x, loss);
    op.need(how.over == Over::kNone ? loss.shape() == Shape{in.x.dim(0)} : loss.count() == 1,
            "out should be [rows], or one element.");
    op.need(total.count() == 1, "totalWeight should be one element.");
    op.run([=](Run& run) {
      numerics::ClassLoss classes = how;
      classes.targets = targets_of(run, in.target, in.x.dim(1), how.ignored);
      const View factors = run.view(in.weight);
      classes.weight = &factors;
      double counted = 0;
      numerics::class_loss(run.view(in.x), classes, run.view(loss), &counted);
      numerics::fill(run.view(total), counted);
    });
  });
}

FAKE_OP(NLLLossBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target,
        const aclTensor* weight, int64_t reduction, int64_t ignoreIndex, const aclTensor* totalWeight, aclTensor* out) {
  return plan("aclnnNLLLossBackward", workspaceSize, executor, [&](Op& op) {
    op.chips(not_310p);  // "NLLLoss (Backward not 310P)"
    const Tensor dy = op.in("gradOutput", gradOutput, floats);
    const Classes in = require_classes(op, self, target, weight, {ACL_INT32, ACL_INT64, ACL_UINT8});
    static_cast<void>(op.in("totalWeight", totalWeight, floats));
    const Tensor dx = op.out("out", out, floats);
    numerics::ClassLoss how;
    how.over = over_of(op, reduction);
    how.ignored = ignoreIndex;
    op.same_shape(in.x, dx);
    op.need(how.over == Over::kNone ? dy.shape() == Shape{in.x.dim(0)} : dy.count() == 1,
            "gradOutput should be of the loss's shape.");
    op.run([=](Run& run) {
      numerics::ClassLoss classes = how;
      classes.targets = targets_of(run, in.target, in.x.dim(1), how.ignored);
      const std::optional<View> factors = view_if(run, in.weight);
      classes.weight = factors ? &*factors : nullptr;
      numerics::class_loss_gradient(run.view(dy), run.view(in.x), classes, false, run.view(dx));
    });
  });
}

FAKE_OP(ApplyAdamWV2, aclTensor* varRef, aclTensor* mRef, aclTensor* vRef, aclTensor* maxGradNormOptionalRef,
        const aclTensor* grad, const aclTensor* step, float lr, float beta1, float beta2, float weightDecay, float eps,
        bool amsgrad, bool maximize) {
  return plan("aclnnApplyAdamWV2", workspaceSize, executor, [&](Op& op) {
    op.chips(a2_a3_a5);
    const Tensor weight = op.out("varRef", varRef, floats), first = op.out("mRef", mRef, floats),
                 second = op.out("vRef", vRef, floats), gradient = op.in("grad", grad, floats),
                 number = op.in("step", step, {ACL_INT64, ACL_FLOAT});
    const Tensor largest = amsgrad ? op.out("maxGradNormOptionalRef", maxGradNormOptionalRef, floats) : Tensor{};
    // "var m v grad one dtype FP16/BF16/FP32 and shape, in place; step 1 element INT64/FP32; contiguous"
    for (const Tensor& other : {first, second, gradient, largest}) {
      op.same_dtype(weight, other);
      op.same_shape(weight, other);
      op.contiguous(other);
    }
    op.contiguous(weight);
    op.need(number.count() == 1, "step should have one element.");
    op.run([=](Run& run) {
      const std::optional<View> most = view_if(run, largest);
      numerics::AdamStep how{numerics::load_doubles(run.view(number)).front(), lr, beta1, beta2, weightDecay, eps};
      how.maximize = maximize;
      numerics::adam(run.view(weight), run.view(first), run.view(second), most ? &*most : nullptr, run.view(gradient),
                     how);
    });
  });
}
