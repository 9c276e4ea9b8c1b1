// Routing to experts. Bad shapes are 561002; the pages also name 561103, of tensors that may not be null inside.
#include "arguments.h"
#include "backends/npu/cann/ops_moe.h"
#include "numerics_moe.h"
#include "numerics_reduce.h"

namespace fake {
namespace {

std::vector<std::int64_t> experts_of(const Run& run, const Tensor& ids, std::int64_t number) {
  std::vector<std::int64_t> experts = numerics::load_integers(run.view(ids));
  for (const std::int64_t expert : experts) {
    if (number > 0 && (expert < 0 || expert >= number)) {
      refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "expertIdx holds " + std::to_string(expert) + ", which is no expert.");
    }
  }
  return experts;
}

struct Finalize {
  Tensor scales, bias, ids;
  std::vector<Tensor> addends;
};

numerics::Gathering gathering_of(const Run& run, const Tensor& row_ids, std::int64_t k, std::int64_t mode) {
  numerics::Gathering gathering;
  gathering.places = numerics::load_integers(run.view(row_ids));
  gathering.k = k;
  gathering.by_choice = mode == 0 || mode == 1;  // "Mode 2 drop-less / 3 drop-pad go with InitRoutingV2, 0/1 with V1"
  return gathering;
}

// Expanded tokens as [places, width]: drop-pad gives [experts, capacity, width].
View expanded(const View& view) { return view.shape.size() == 3 ? numerics::as_matrix(view, 2) : view; }

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(MoeInitRoutingV2, const aclTensor* x_given, const aclTensor* expertIdx, int64_t activeNumOptional,
        int64_t expertCapacityOptional, int64_t expertNumOptional, int64_t dropPadModeOptional,
        int64_t expertTokensCountOrCumsumFlagOptional, bool expertTokensBeforeCapacityFlagOptional,
        const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut,
        const aclTensor* expertTokensCountOrCumsumOutOptional, const aclTensor* expertTokensBeforeCapacityOutOptional) {
  return plan("aclnnMoeInitRoutingV2", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor x = op.in("x", x_given, floats), ids = op.in("expertIdx", expertIdx, int32),
                 out = op.out("expandedX", expandedXOut, floats),
                 rows = op.out("expandedRowIdx", expandedRowIdxOut, int32);
    const std::int64_t flag = expertTokensCountOrCumsumFlagOptional;
    const Tensor totals =
        flag != 0 ? op.out("expertTokensCountOrCumsum", expertTokensCountOrCumsumOutOptional, int32) : Tensor{};
    static_cast<void>(expertTokensBeforeCapacityOutOptional);
    static_cast<void>(expertCapacityOptional);
    op.same_dtype(x, out);
    op.rank(x, 2, 2);
    op.rank(ids, 2, 2);  // "INT32 [rows,k]"
    op.need(ids.dim(0) == x.dim(0), "expertIdx should have the rows of x.");
    op.need(dropPadModeOptional == 0 && !expertTokensBeforeCapacityFlagOptional, "The fake drops and pads nothing.");
    op.need(flag >= 0 && flag <= 2, "expertTokensCountOrCumsumFlag should be 0 to 2.");
    op.need(flag == 0 || expertNumOptional > 0, "expertNum should be above 0 where tokens are counted.");
    // "310P dropPad 0, h % 32"
    op.need(!op.on(Family::k310P) || x.dim(1) % 32 == 0, "h should be a multiple of 32 on this SoC.");
    const std::int64_t places = ids.count();
    const std::int64_t active = activeNumOptional > 0 ? std::min(activeNumOptional, places) : places;
    op.shape(out, {active, x.dim(1)});
    op.shape(rows, {places});
    op.shape(totals, {expertNumOptional});
    for (const Tensor& tensor : {out, rows, totals}) op.contiguous(tensor);  // "outputs contiguous"
    op.workspace(scratch);
    const std::int64_t number = expertNumOptional;
    op.run([=](Run& run) {
      const numerics::Routing routing = numerics::route(experts_of(run, ids, number), number);
      numerics::permute_tokens(run.view(x), routing, ids.dim(1), run.view(out));
      numerics::store(run.view(rows), routing.places);
      if (!totals) return;
      std::vector<std::int64_t> counts = routing.counts;
      for (std::size_t i = 1; flag == 1 && i < counts.size(); ++i) counts[i] += counts[i - 1];
      numerics::store(run.view(totals), counts);
    });
  });
}

FAKE_OP(MoeInitRoutingV2Grad, const aclTensor* gradExpandedX, const aclTensor* expandedRowIdx, int64_t topK,
        int64_t dropPadMode, int64_t activeNum, const aclTensor* out) {
  return plan("aclnnMoeInitRoutingV2Grad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);  // "V2Grad (not 310P)"
    const Tensor dy = op.in("gradExpandedX", gradExpandedX, floats),
                 rows = op.in("expandedRowIdx", expandedRowIdx, int32), dx = op.out("out", out, floats);
    op.same_dtype(dy, dx);
    op.need(dropPadMode == 0 || dropPadMode == 1, "dropPadMode should be 0 or 1.");
    op.rank(dy, dropPadMode == 0 ? 2 : 3, dropPadMode == 0 ? 2 : 3);
    op.need(topK > 0 && rows.rank() == 1 && rows.dim(0) % topK == 0, "expandedRowIdx should be [rows topK].");
    op.need(activeNum >= 0, "activeNum should not be below 0.");
    op.shape(dx, {rows.dim(0) / topK, dy.dim(-1)});
    for (const Tensor& tensor : {dy, rows, dx}) op.contiguous(tensor);
    op.run([=](Run& run) {
      numerics::combine_tokens(expanded(run.view(dy)), gathering_of(run, rows, topK, 2), run.view(dx));
    });
  });
}

FAKE_OP(MoeFinalizeRoutingV2, const aclTensor* expandedX, const aclTensor* expandedRowIdx, const aclTensor* x1Optional,
        const aclTensor* x2Optional, const aclTensor* biasOptional, const aclTensor* scalesOptional,
        const aclTensor* expertIdxOptional, int64_t dropPadMode, const aclTensor* out) {
  return plan("aclnnMoeFinalizeRoutingV2", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor x = op.in("expandedX", expandedX, floats), rows = op.in("expandedRowIdx", expandedRowIdx, int32),
                 one = op.optional("x1", x1Optional, floats), two = op.optional("x2", x2Optional, floats),
                 bias = op.optional("bias", biasOptional, floats),
                 scales = op.optional("scales", scalesOptional, floats),
                 ids = op.optional("expertIdx", expertIdxOptional, int32), y = op.out("out", out, floats);
    for (const Tensor& other : {one, two, bias, y}) op.same_dtype(x, other);
    op.need(dropPadMode >= 0 && dropPadMode <= 3, "dropPadMode should be 0 to 3.");
    op.rank(y, 2, 2);
    const std::int64_t k = scales ? scales.dim(1) : 1;  // "No scales: K = 1"
    op.need(!bias || ids, "bias needs expertIdx.");     // "bias needs expertIdx"
    op.shape(rows, {y.dim(0) * k});
    op.shape(scales, {y.dim(0), k});
    op.shape(ids, {y.dim(0), k});
    op.need(x.dim(-1) == y.dim(1), "The width of expandedX and of out differ.");
    op.same_shape(y, one);
    op.same_shape(y, two);
    op.run([=](Run& run) {
      numerics::Gathering gathering = gathering_of(run, rows, k, dropPadMode);
      const std::optional<View> factor = view_if(run, scales), shift = view_if(run, bias), experts = view_if(run, ids),
                                first = view_if(run, one), second = view_if(run, two);
      gathering.scales = factor ? &*factor : nullptr;
      gathering.bias = shift ? &*shift : nullptr;
      gathering.expert_ids = experts ? &*experts : nullptr;
      if (first) gathering.addends.push_back(&*first);
      if (second) gathering.addends.push_back(&*second);
      numerics::combine_tokens(expanded(run.view(x)), gathering, run.view(y));
    });
  });
}

FAKE_OP(MoeFinalizeRoutingV2Grad, const aclTensor* gradY, const aclTensor* expandedRowIdx,
        const aclTensor* expandedXOptional, const aclTensor* scalesOptional, const aclTensor* expertIdxOptional,
        const aclTensor* biasOptional, int64_t dropPadMode, int64_t activeNum, int64_t expertNum,
        int64_t expertCapacity, const aclTensor* gradExpandedXOut, const aclTensor* gradScalesOut) {
  return plan("aclnnMoeFinalizeRoutingV2Grad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    static_cast<void>(expertNum);
    static_cast<void>(expertCapacity);
    const Tensor dy = op.in("gradY", gradY, floats), rows = op.in("expandedRowIdx", expandedRowIdx, int32),
                 x = op.optional("expandedX", expandedXOptional, floats),
                 scales = op.optional("scales", scalesOptional, floats),
                 ids = op.optional("expertIdx", expertIdxOptional, int32),
                 bias = op.optional("bias", biasOptional, floats),
                 dx = op.out("gradExpandedX", gradExpandedXOut, floats),
                 dscales = op.optional_out("gradScales", gradScalesOut, floats);
    op.same_dtype(dy, dx);
    op.rank(dy, 2, 2);
    op.need(dropPadMode == 0, "The fake drops and pads nothing.");
    op.need(activeNum >= 0, "activeNum should not be below 0.");
    const std::int64_t k = scales ? scales.dim(1) : 1;
    op.need(!dscales || (x && scales), "gradScales needs expandedX and scales.");
    op.need(!bias || ids, "bias needs expertIdx.");
    op.shape(rows, {dy.dim(0) * k});
    op.shape(scales, {dy.dim(0), k});
    op.same_shape(scales, dscales);
    op.need(dx.dim(-1) == dy.dim(1), "The width of gradY and of gradExpandedX differ.");
    op.run([=](Run& run) {
      numerics::Gathering gathering = gathering_of(run, rows, k, 2);
      const std::optional<View> factor = view_if(run, scales), shift = view_if(run, bias), experts = view_if(run, ids),
                                from = view_if(run, x), to = view_if(run, dscales);
      gathering.scales = factor ? &*factor : nullptr;
      gathering.bias = shift ? &*shift : nullptr;
      gathering.expert_ids = experts ? &*experts : nullptr;
      numerics::combine_gradient(run.view(dy), from ? &*from : nullptr, gathering, expanded(run.view(dx)),
                                 to ? &*to : nullptr);
    });
  });
}

FAKE_OP(MoeTokenPermute, const aclTensor* tokens, const aclTensor* indices_given, int64_t numOutTokens, bool paddedMode,
        const aclTensor* permuteTokensOut, const aclTensor* sortedIndicesOut) {
  return plan("aclnnMoeTokenPermute", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    const Tensor x = op.in("tokens", tokens, floats), ids = op.in("indices", indices_given, indices),
                 y = op.out("permuteTokens", permuteTokensOut, floats),
                 sorted = op.out("sortedIndices", sortedIndicesOut, int32);
    op.need(!paddedMode, "paddedMode should be false.");  // "bool padded(false)"
    op.same_dtype(x, y);
    op.rank(x, 2, 2);
    op.rank(ids, 1, 2);
    const std::int64_t k = ids.rank() == 2 ? ids.dim(1) : 1;
    op.need(k <= 512 && ids.dim(0) == x.dim(0), "indices should be [tokens, topk], with topk of 512 at most.");
    const std::int64_t number = numOutTokens > 0 ? std::min(numOutTokens, ids.count()) : ids.count() + numOutTokens;
    op.shape(y, {number, x.dim(1)});
    op.shape(sorted, {ids.count()});
    op.run([=](Run& run) {
      const numerics::Routing routing = numerics::route(numerics::load_integers(run.view(ids)), 0);
      numerics::permute_tokens(run.view(x), routing, k, run.view(y));
      numerics::store(run.view(sorted), routing.places);
    });
  });
}

FAKE_OP(MoeTokenPermuteGrad, const aclTensor* permutedOutputGrad, const aclTensor* sortedIndices, int64_t numTopk,
        bool paddedMode, const aclTensor* out) {
  return plan("aclnnMoeTokenPermuteGrad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    const Tensor dy = op.in("permutedOutputGrad", permutedOutputGrad, floats),
                 sorted = op.in("sortedIndices", sortedIndices, int32), dx = op.out("out", out, floats);
    op.need(!paddedMode, "paddedMode should be false.");
    op.same_dtype(dy, dx);
    op.need(numTopk > 0 && numTopk <= 512 && sorted.count() % numTopk == 0, "numTopk should divide sortedIndices.");
    op.shape(dx, {sorted.count() / numTopk, dy.dim(1)});
    op.run(
        [=](Run& run) { numerics::combine_tokens(run.view(dy), gathering_of(run, sorted, numTopk, 2), run.view(dx)); });
  });
}

FAKE_OP(MoeTokenUnpermute, const aclTensor* permutedTokens, const aclTensor* sortedIndices,
        const aclTensor* probsOptional, bool paddedMode, const aclIntArray* restoreShapeOptional,
        const aclTensor* out) {
  return plan("aclnnMoeTokenUnpermute", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    absent("restoreShape", restoreShapeOptional);
    const Tensor x = op.in("permutedTokens", permutedTokens, floats),
                 sorted = op.in("sortedIndices", sortedIndices, int32),
                 probabilities = op.optional("probs", probsOptional, floats), y = op.out("out", out, floats);
    op.need(!paddedMode, "paddedMode should be false.");
    op.same_dtype(x, y);
    const std::int64_t k = probabilities ? probabilities.dim(1) : 1;
    op.need(k > 0 && k <= 512 && sorted.count() % k == 0, "topk should divide sortedIndices.");
    op.shape(y, {sorted.count() / k, x.dim(1)});
    op.run([=](Run& run) {
      numerics::Gathering gathering = gathering_of(run, sorted, k, 2);
      const std::optional<View> factor = view_if(run, probabilities);
      gathering.scales = factor ? &*factor : nullptr;
      numerics::combine_tokens(run.view(x), gathering, run.view(y));
    });
  });
}

FAKE_OP(MoeTokenUnpermuteGrad, const aclTensor* permutedTokens, const aclTensor* unpermutedTokensGrad,
        const aclTensor* sortedIndices, const aclTensor* probsOptional, bool paddedMode,
        const aclIntArray* restoreShapeOptional, const aclTensor* permutedTokensGradOut,
        const aclTensor* probsGradOut) {
  return plan("aclnnMoeTokenUnpermuteGrad", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    absent("restoreShape", restoreShapeOptional);
    const Tensor x = op.in("permutedTokens", permutedTokens, floats),
                 dy = op.in("unpermutedTokensGrad", unpermutedTokensGrad, floats),
                 sorted = op.in("sortedIndices", sortedIndices, int32),
                 probabilities = op.optional("probs", probsOptional, floats),
                 dx = op.out("permutedTokensGrad", permutedTokensGradOut, floats);
    const Tensor dprobabilities = probabilities ? op.out("probsGrad", probsGradOut, floats) : Tensor{};
    op.need(!paddedMode, "paddedMode should be false.");
    op.same_shape(x, dx);
    op.same_shape(probabilities, dprobabilities);
    const std::int64_t k = probabilities ? probabilities.dim(1) : 1;
    op.need(dy.dim(0) * k == sorted.count(), "sortedIndices should have an element a token and choice.");
    op.run([=](Run& run) {
      numerics::Gathering gathering = gathering_of(run, sorted, k, 2);
      const std::optional<View> factor = view_if(run, probabilities), to = view_if(run, dprobabilities);
      const View from = run.view(x);
      gathering.scales = factor ? &*factor : nullptr;
      numerics::combine_gradient(run.view(dy), &from, gathering, run.view(dx), to ? &*to : nullptr);
    });
  });
}

namespace fake {
namespace {

// "k <= 1024; 310P FP16, experts % 16, <= 256"
void require_gating(Op& op, const Tensor& x, std::int64_t k, const Tensor& y, const Tensor& ids) {
  op.same_dtype(x, y);
  op.need(k > 0 && k <= 1024 && k <= x.dim(-1), "k should be 1 to 1024, and at most the number of experts.");
  const bool small = op.on(Family::k310P);
  op.need(!small || (x.dtype() == ACL_FLOAT16 && x.dim(-1) % 16 == 0 && x.dim(-1) <= 256),
          "This SoC takes FLOAT16, and experts in steps of 16 up to 256.");
  Shape shape = x.shape();
  shape.back() = k;
  op.shape(y, shape);
  op.shape(ids, shape);
}

}  // namespace
}  // namespace fake

FAKE_OP(MoeGatingTopKSoftmax, const aclTensor* x_given, const aclTensor* finishedOptional, int64_t k,
        const aclTensor* yOut, const aclTensor* expertIdxOut, const aclTensor* rowIdxOut) {
  return plan("aclnnMoeGatingTopKSoftmax", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(not_910);
    const Tensor x = op.in("x", x_given, floats), finished = op.optional("finished", finishedOptional, truths),
                 y = op.out("y", yOut, floats), ids = op.out("expertIdx", expertIdxOut, int32),
                 rows = op.out("rowIdx", rowIdxOut, int32);
    require_gating(op, x, k, y, ids);
    op.same_shape(ids, rows);
    op.run([=](Run& run) {
      const std::optional<View> done = view_if(run, finished);
      const View row_ids = run.view(rows);
      numerics::gate(run.view(x), done ? &*done : nullptr, {k, false}, run.view(y), run.view(ids), &row_ids, nullptr);
    });
  });
}

FAKE_OP(MoeGatingTopKSoftmaxV2, const aclTensor* x_given, const aclTensor* finishedOptional, int64_t k, int64_t renorm,
        bool outputSoftmaxResultFlag, const aclTensor* yOut, const aclTensor* expertIdxOut,
        const aclTensor* softmaxResultOutOptional) {
  return plan("aclnnMoeGatingTopKSoftmaxV2", workspaceSize, executor, [&](Op& op) {
    op.generated();
    op.chips(a2_a3_a5);
    const Tensor x = op.in("x", x_given, floats), finished = op.optional("finished", finishedOptional, truths),
                 y = op.out("y", yOut, floats), ids = op.out("expertIdx", expertIdxOut, int32);
    op.need(renorm == 0 || renorm == 1, "renorm should be 0 or 1.");
    const bool wanted = outputSoftmaxResultFlag && renorm == 0;
    const Tensor softmaxed = wanted ? op.out("softmaxResult", softmaxResultOutOptional, fp32) : Tensor{};
    require_gating(op, x, k, y, ids);
    op.same_shape(x, softmaxed);
    op.run([=](Run& run) {
      const std::optional<View> done = view_if(run, finished), shares = view_if(run, softmaxed);
      numerics::gate(run.view(x), done ? &*done : nullptr, {k, renorm == 1}, run.view(y), run.view(ids), nullptr,
                     shares ? &*shares : nullptr);
    });
  });
}
