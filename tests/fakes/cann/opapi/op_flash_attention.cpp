// FlashAttentionScore and its gradient, packed (TND) and dense. Phase 1 names nulls, types and formats; shapes are
// found out as the op is tiled. Max and sum are fp32 with eight equal lanes at the end.
#include <cmath>

#include "attention_layout.h"
#include "backends/npu/cann/ops_transformer.h"

namespace fake {
namespace {

struct Given {
  const aclTensor *query, *key, *value, *shift, *drop_mask, *padding_mask, *mask;
  const aclIntArray* prefix;
  double scale, keep;
  std::int64_t before, after, heads;
  const char* layout;
  std::int64_t inner_precise, sparse_mode;
};

struct Plan {
  Tensor query, key, value;
  Layout layout = Layout::kTnd;
  std::int64_t heads = 0, key_heads = 0;
  float scale = 1;
  MaskRule rule;
  std::vector<Sequence> sequences;
};

// The op's checks, "FlashAttentionScore(+Grad)" of the constraints. `ends` are null in the dense form.
Plan checked(Op& op, const Given& given, const aclIntArray* const ends[2]) {
  op.generated();
  op.chips(a2_a3_a5);
  Plan plan;
  plan.query = op.in("query", given.query, floats);
  plan.key = op.in("key", given.key, floats);
  plan.value = op.in("value", given.value, floats);
  op.same_dtype(plan.query, plan.key);  // "one dtype FP16/BF16/FP32"
  op.same_dtype(plan.query, plan.value);
  absent("pse", given.shift);
  absent("dropMask", given.drop_mask);
  absent("paddingMask", given.padding_mask);
  absent("prefix", given.prefix);
  op.need(given.keep == 1, "the fake drops nothing: keepProb should be 1");
  op.need(given.inner_precise >= 0 && given.inner_precise <= 4, "innerPrecise should be 0 to 4");
  plan.layout = ends != nullptr ? layout_of(op, given.layout, {"TND"})
                                : layout_of(op, given.layout, {"BSH", "SBH", "BSND", "BNSD"});
  plan.heads = given.heads;
  plan.scale = static_cast<float>(given.scale);
  const Shape q = normalised_shape(op, plan.query, plan.layout, given.heads);
  const std::int64_t width = q[3];
  const bool flat = plan.layout == Layout::kBsh || plan.layout == Layout::kSbh;
  op.need(width > 0 && width <= 768, "D should be 768 at most");
  plan.key_heads = flat ? plan.key.dim(-1) / width : plan.key.dim(plan.layout == Layout::kBsnd ? 2 : 1);
  const Shape k = normalised_shape(op, plan.key, plan.layout, plan.key_heads);
  const Shape v = normalised_shape(op, plan.value, plan.layout, plan.key_heads);
  op.need(given.heads <= 256, "N should be 256 at most");
  op.need(plan.key_heads > 0 && given.heads % plan.key_heads == 0,
          "heads of query should be a multiple of those of key");
  op.need(k[3] == width && v[3] <= width, "D of query and key should be the same, and that of value not larger");
  op.need(k[0] == v[0] && k[1] == v[1] && k[0] == q[0], "key and value should have as many rows");
  op.need(q[1] <= (1 << 20) && k[1] <= (1 << 20), "S, or T, should be 1M at most");
  if (ends != nullptr) {
    const Shape query_ends = op.array("actualSeqQLen", ends[0]);
    const Shape key_ends = op.array("actualSeqKvLen", ends[1]);
    op.need(query_ends.size() <= 2048, "cumulative lengths should be 2K at most");
    plan.sequences = packed_sequences(op, query_ends, key_ends, q[1], k[1]);
  } else {
    for (std::int64_t batch = 0; batch < q[0]; ++batch) plan.sequences.push_back({batch, 0, q[1], 0, k[1]});
  }
  plan.rule = {given.sparse_mode, given.before, given.after, op.optional("attenMask", given.mask, bytes_or_truths)};
  require_mask(op, plan.rule, plan.sequences);
  op.workspace(scratch);
  return plan;
}

Shape statistics_shape(const Plan& plan) {
  if (plan.layout == Layout::kTnd) return {plan.query.dim(0), plan.heads, 8};
  const bool by_head = plan.layout == Layout::kBnsd;
  const bool turned = plan.layout == Layout::kSbh;
  return {plan.query.dim(turned ? 1 : 0), plan.heads, plan.query.dim(by_head ? 2 : turned ? 0 : 1), 8};
}

// As [batch, tokens, heads, 8].
View statistics(const Plan& plan, const View& view) {
  return plan.layout == Layout::kTnd ? numerics::unsqueeze(view, 0) : numerics::transpose(view, 1, 2);
}

Shape value_shape(const Plan& plan) {
  Shape shape = plan.query.shape();
  const bool flat = plan.layout == Layout::kBsh || plan.layout == Layout::kSbh;
  shape.back() = flat ? plan.value.dim(-1) / plan.key_heads * plan.heads : plan.value.dim(-1);
  return shape;
}

numerics::HeadForward head_forward(const Plan& plan, const View& q, const View& k, const View& v,
                                   const Sequence& sequence, std::int64_t head) {
  const std::int64_t shared = head / (plan.heads / plan.key_heads);
  numerics::HeadForward in;
  in.q = head_of(q, sequence.batch, sequence.first, sequence.length, head);
  in.k = head_of(k, sequence.batch, sequence.key_first, sequence.key_length, shared);
  in.v = head_of(v, sequence.batch, sequence.key_first, sequence.key_length, shared);
  in.scale = plan.scale;
  return in;
}

void forward(Op& op, const Plan& plan, const aclTensor* maximum, const aclTensor* sum, const aclTensor* out) {
  const Tensor largest = op.in("softmaxMax", maximum, fp32);
  const Tensor total = op.in("softmaxSum", sum, fp32);
  const Tensor y = op.out("attentionOut", out, floats);
  op.same_dtype(plan.query, y);
  op.shape(largest, statistics_shape(plan));
  op.shape(total, statistics_shape(plan));
  op.shape(y, value_shape(plan));
  op.run([=](Run& run) {
    look_at_mask(run, plan.rule);
    const View q = normalised(run.view(plan.query), plan.layout, plan.heads);
    const View k = normalised(run.view(plan.key), plan.layout, plan.key_heads);
    const View v = normalised(run.view(plan.value), plan.layout, plan.key_heads);
    const View to = normalised(run.view(y), plan.layout, plan.heads);
    const std::optional<View> mask = view_if(run, plan.rule.mask);
    for (std::size_t index = 0; index < plan.sequences.size(); ++index) {
      const Sequence& sequence = plan.sequences[index];
      for (std::int64_t head = 0; head < plan.heads; ++head) {
        View storage;
        numerics::HeadForward in = head_forward(plan, q, k, v, sequence, head);
        in.visibility = visibility_of(plan.rule, mask, sequence, static_cast<std::int64_t>(index), head, storage);
        std::vector<float> rows_max(static_cast<std::size_t>(sequence.length));
        std::vector<float> rows_sum(rows_max.size());
        numerics::attend(in, head_of(to, sequence.batch, sequence.first, sequence.length, head), rows_max.data(),
                         rows_sum.data());
        const auto spread = [&](const Tensor& argument, std::vector<float>& rows) {
          const View lanes =
              head_of(statistics(plan, run.view(argument)), sequence.batch, sequence.first, sequence.length, head);
          numerics::copy(lanes, numerics::view_of(rows, {sequence.length, 1}));
        };
        spread(largest, rows_max);
        spread(total, rows_sum);
      }
    }
  });
}

struct Gradients {
  const aclTensor *dy, *maximum, *sum, *out, *dq, *dk, *dv;
};

// One lane a row, another from row to row: the kernel reads all eight.
std::vector<float> lane_of(const View& lanes) {
  const std::vector<float> all = numerics::load(lanes);
  std::vector<float> rows(all.size() / 8);
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = all[row * 8 + row % 8];
  return rows;
}

void backward(Op& op, const Plan& plan, const Gradients& given) {
  const Tensor dy = op.in("dy", given.dy, floats);
  const Tensor largest = op.in("softmaxMax", given.maximum, fp32);
  const Tensor total = op.in("softmaxSum", given.sum, fp32);
  const Tensor out = op.in("attentionIn", given.out, floats);
  const Tensor dq = op.out("dq", given.dq, floats);
  const Tensor dk = op.out("dk", given.dk, floats);
  const Tensor dv = op.out("dv", given.dv, floats);
  for (const Tensor* other : {&dy, &out, &dq, &dk, &dv}) op.same_dtype(plan.query, *other);
  op.shape(dy, value_shape(plan));
  op.shape(out, value_shape(plan));
  op.shape(largest, statistics_shape(plan));
  op.shape(total, statistics_shape(plan));
  op.shape(dq, plan.query.shape());
  op.shape(dk, plan.key.shape());
  op.shape(dv, plan.value.shape());
  op.run([=](Run& run) {
    look_at_mask(run, plan.rule);
    const auto tokens = [&](const Tensor& argument, std::int64_t heads) {
      return normalised(run.view(argument), plan.layout, heads);
    };
    const View q = tokens(plan.query, plan.heads);
    const View k = tokens(plan.key, plan.key_heads);
    const View v = tokens(plan.value, plan.key_heads);
    const std::optional<View> mask = view_if(run, plan.rule.mask);
    const std::int64_t group = plan.heads / plan.key_heads;
    for (std::size_t index = 0; index < plan.sequences.size(); ++index) {
      const Sequence& sequence = plan.sequences[index];
      const auto part = [&](const View& view, std::int64_t head) {
        return head_of(view, sequence.batch, sequence.first, sequence.length, head);
      };
      for (std::int64_t shared = 0; shared < plan.key_heads; ++shared) {
        std::vector<float> key_sums(static_cast<std::size_t>(sequence.key_length * k.shape[3]));
        std::vector<float> value_sums(static_cast<std::size_t>(sequence.key_length * v.shape[3]));
        for (std::int64_t head = shared * group; head < (shared + 1) * group; ++head) {
          View storage;
          numerics::HeadBackward in;
          in.forward = head_forward(plan, q, k, v, sequence, head);
          in.forward.visibility =
              visibility_of(plan.rule, mask, sequence, static_cast<std::int64_t>(index), head, storage);
          in.dy = part(tokens(dy, plan.heads), head);
          in.out = part(tokens(out, plan.heads), head);
          in.maximum = lane_of(part(statistics(plan, run.view(largest)), head));
          in.sum = lane_of(part(statistics(plan, run.view(total)), head));
          in.shuffle = run.shuffle();
          numerics::attend_backward(in, part(tokens(dq, plan.heads), head), key_sums.data(), value_sums.data());
        }
        numerics::store(
            head_of(tokens(dk, plan.key_heads), sequence.batch, sequence.key_first, sequence.key_length, shared),
            key_sums);
        numerics::store(
            head_of(tokens(dv, plan.key_heads), sequence.batch, sequence.key_first, sequence.key_length, shared),
            value_sums);
      }
    }
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(FlashAttentionVarLenScore, const aclTensor* query, const aclTensor* key, const aclTensor* value,
        const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
        const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
        const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
        int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
        const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
        const aclTensor* attentionOutOut) {
  return plan("aclnnFlashAttentionVarLenScore", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(softmaxOutOut);  // reserved
    const aclIntArray* const ends[2] = {actualSeqQLenOptional, actualSeqKvLenOptional};
    forward(op,
            checked(op,
                    {query, key, value, realShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional,
                     prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise,
                     sparseMode},
                    ends),
            softmaxMaxOut, softmaxSumOut, attentionOutOut);
  });
}
FAKE_OP(FlashAttentionScore, const aclTensor* query, const aclTensor* key, const aclTensor* value,
        const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
        const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional, double scaleValue, double keepProb,
        int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
        int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
        const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut) {
  return plan("aclnnFlashAttentionScore", workspaceSize, executor, [&](Op& op) {
    static_cast<void>(softmaxOutOut);
    forward(op,
            checked(op,
                    {query, key, value, realShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional,
                     prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise,
                     sparseMode},
                    nullptr),
            softmaxMaxOut, softmaxSumOut, attentionOutOut);
  });
}
FAKE_OP(FlashAttentionUnpaddingScoreGrad, const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
        const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
        const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
        const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
        const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
        const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
        int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
        const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut) {
  return plan("aclnnFlashAttentionUnpaddingScoreGrad", workspaceSize, executor, [&](Op& op) {
    absent("softmaxIn", softmaxInOptional);
    static_cast<void>(dpseOut);
    const aclIntArray* const ends[2] = {actualSeqQLenOptional, actualSeqKvLenOptional};
    backward(op,
             checked(op,
                     {query, keyIn, value, pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional,
                      prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise,
                      sparseMode},
                     ends),
             {dy, softmaxMaxOptional, softmaxSumOptional, attentionInOptional, dqOut, dkOut, dvOut});
  });
}
FAKE_OP(FlashAttentionScoreGrad, const aclTensor* query, const aclTensor* keyIn, const aclTensor* value,
        const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
        const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
        const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
        const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
        int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* dqOut,
        const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut) {
  return plan("aclnnFlashAttentionScoreGrad", workspaceSize, executor, [&](Op& op) {
    absent("softmaxIn", softmaxInOptional);
    static_cast<void>(dpseOut);
    backward(op,
             checked(op,
                     {query, keyIn, value, pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional,
                      prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise,
                      sparseMode},
                     nullptr),
             {dy, softmaxMaxOptional, softmaxSumOptional, attentionInOptional, dqOut, dkOut, dvOut});
  });
}
