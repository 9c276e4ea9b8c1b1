// Attention for inference: FusedInferAttentionScore (A2, A3; A5 has another version), and the two ops that 310P has.
#include <cmath>
#include <limits>

#include "arguments.h"
#include "attention_layout.h"
#include "backends/npu/cann/ops_transformer.h"

namespace fake {
namespace {

struct Given {
  const aclTensor* query;
  const aclTensorList *key, *value;
  const aclTensor* mask;
  const aclIntArray *lengths, *key_lengths;
  const aclTensor* table;
  std::int64_t heads;
  double scale;
  std::int64_t before, after;
  const char* layout;
  std::int64_t key_heads, sparse_mode, inner_precise, block;
  const aclTensor *out, *lse;
  const aclTensor* sink;
};

struct Plan {
  Tensor query, key, value, table, out, lse, sink;
  Layout layout = Layout::kTnd;
  std::int64_t heads = 0, key_heads = 0, width = 0, block = 0;
  float scale = 1;
  MaskRule rule;
  std::vector<Sequence> sequences;
  bool blind_rows_are_zero = false;
};

void require_contiguous(Op& op, const Plan& plan) {
  for (const Tensor& tensor : {plan.query, plan.key, plan.value, plan.table, plan.out, plan.lse}) op.contiguous(tensor);
}

// Rows of queries by batch entry, and how many keys each sees.
void find_sequences(Op& op, Plan& plan, const Given& given, const Shape& query) {
  const bool packed = plan.layout == Layout::kTnd;
  const Shape lengths = op.array("actualSeqLengths", given.lengths, true);
  const Shape keys = op.array("actualSeqLengthsKv", given.key_lengths, true);
  op.need(!packed || !lengths.empty(), "actualSeqLengths should be given in TND.");
  op.need(!plan.table || !keys.empty(), "actualSeqLengthsKv should be given with a blockTable.");
  const std::int64_t batch = packed ? static_cast<std::int64_t>(lengths.size()) : query[0];
  op.need(batch <= 65536, "B should be 65536 at most.");
  op.need(lengths.empty() || static_cast<std::int64_t>(lengths.size()) == batch,
          "actualSeqLengths should be of B elements.");
  op.need(keys.empty() || static_cast<std::int64_t>(keys.size()) == batch,
          "actualSeqLengthsKv should be of B elements.");
  const std::int64_t key_rows = plan.table ? 0 : normalised_shape(op, plan.key, plan.layout, plan.key_heads)[1];
  std::int64_t first = 0, key_first = 0;
  for (std::int64_t entry = 0; entry < batch; ++entry) {
    const auto at = static_cast<std::size_t>(entry);
    Sequence sequence;
    sequence.batch = packed ? 0 : entry;
    sequence.first = packed ? first : 0;
    sequence.length = packed ? lengths[at] - first : lengths.empty() ? query[1] : lengths[at];
    // Cumulative in TND, but with a block table each sequence's own (vllm-ascend passes them so).
    const bool cumulative = packed && !plan.table;
    sequence.key_first = cumulative ? key_first : 0;
    sequence.key_length = keys.empty() ? key_rows : cumulative ? keys[at] - key_first : keys[at];
    op.need(sequence.length >= 0 && sequence.first + sequence.length <= query[1],
            "actualSeqLengths should rise, and end within the queries.");
    op.need(sequence.key_length >= 0 && (plan.table || sequence.key_first + sequence.key_length <= key_rows),
            "actualSeqLengthsKv should lie within the keys.");
    first = sequence.first + sequence.length;
    key_first = sequence.key_first + sequence.key_length;
    plan.sequences.push_back(sequence);
  }
}

// Paged keys: (blocks, block, H), or (blocks, heads, block, D).
void require_pages(Op& op, const Plan& plan, bool decodes, const Given& given) {
  const bool flat = plan.key.rank() == 3;
  op.need(flat || plan.key.rank() == 4, "key should have three or four dimensions with a blockTable.");
  op.need(flat || plan.layout == Layout::kBnsd || plan.layout == Layout::kTnd,
          "key should be (blocks, block, H) for this layout.");
  op.need(plan.key.dim(flat ? 1 : 2) == given.block, "blockSize should be that of key.");
  if (flat) {
    // "(blocks,block,H) fails for KV_N*D > 65535"
    op.need(plan.key.dim(2) == plan.key_heads * plan.width && plan.key.dim(2) <= 65535,
            "H of key should be its heads times D, and 65535 at most.");
    op.need(plan.value.dim(2) % plan.key_heads == 0, "H of value should be a multiple of its heads.");
  } else {
    op.need(plan.key.dim(1) == plan.key_heads && plan.key.dim(3) == plan.width,
            "key should be (blocks, heads, block, D).");
  }
  // "block 128-512 and % 128 (Q_S = 1: <= 512, FP16 % 16)"
  op.need(given.block <= 512 && given.block > 0, "blockSize should be 512 at most.");
  op.need(decodes ? given.block % 16 == 0 : given.block % 128 == 0,
          "blockSize should be a multiple of 128, or of 16 where there is one query a sequence.");
  std::int64_t blocks = 0;
  for (const Sequence& sequence : plan.sequences)
    blocks = std::max(blocks, (sequence.key_length + given.block - 1) / given.block);
  // "Block table 2-D [B, >= max blocks]"
  op.need(plan.table.rank() == 2 && plan.table.dim(0) == static_cast<std::int64_t>(plan.sequences.size()) &&
              plan.table.dim(1) >= blocks,
          "blockTable should be [B, blocks of the longest sequence].");
}

Shape lse_shape(const Plan& plan, const Shape& query) {
  if (plan.layout == Layout::kTnd) return {query[1], plan.heads, 1};
  return {query[0], plan.heads, query[1], 1};
}

View pages(const Plan& plan, const View& view) {
  if (view.shape.size() == 4) return numerics::transpose(view, 1, 2);
  return normalised(view, Layout::kBsh, plan.key_heads);
}

// Keys or values of one sequence, [length, heads, D].
View tokens_of(const Plan& plan, const View& view, const std::vector<std::int64_t>& table, const Sequence& sequence,
               std::size_t index, std::vector<float>& storage) {
  if (!plan.table) {
    const View all = normalised(view, plan.layout, plan.key_heads);
    return numerics::narrow(numerics::select(all, 0, sequence.batch), 0, sequence.key_first, sequence.key_length);
  }
  numerics::PagedCache cache{pages(plan, view), {}};
  const auto columns = table.size() / plan.sequences.size();
  for (std::int64_t start = 0; start < sequence.key_length; start += plan.block) {
    const std::int64_t page = table[index * columns + static_cast<std::size_t>(start / plan.block)];
    if (page < 0 || page >= cache.blocks.shape[0]) {  // "ids unchecked"
      refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "blockTable holds " + std::to_string(page) + ", which is no block.");
    }
    cache.table.push_back(page);
  }
  storage = numerics::gathered(cache, sequence.key_length);
  return numerics::view_of(storage, {sequence.key_length, plan.key_heads, cache.blocks.shape[3]});
}

void compute(const Plan& plan, Run& run) {
  look_at_mask(run, plan.rule);
  const View q = normalised(run.view(plan.query), plan.layout, plan.heads);
  const View to = normalised(run.view(plan.out), plan.layout, plan.heads);
  const std::vector<std::int64_t> table =
      plan.table ? numerics::load_integers(run.view(plan.table)) : std::vector<std::int64_t>{};
  const std::vector<float> sinks = plan.sink ? numerics::load(run.view(plan.sink)) : std::vector<float>{};
  const std::optional<View> mask = view_if(run, plan.rule.mask);
  for (std::size_t index = 0; index < plan.sequences.size(); ++index) {
    const Sequence& sequence = plan.sequences[index];
    std::vector<float> key_storage, value_storage;
    const View k = tokens_of(plan, run.view(plan.key), table, sequence, index, key_storage);
    const View v = tokens_of(plan, run.view(plan.value), table, sequence, index, value_storage);
    for (std::int64_t head = 0; head < plan.heads; ++head) {
      const std::int64_t shared = head / (plan.heads / plan.key_heads);
      View storage;
      numerics::HeadForward in;
      in.q = head_of(q, sequence.batch, sequence.first, sequence.length, head);
      in.k = numerics::select(k, 1, shared);
      in.v = numerics::select(v, 1, shared);
      in.scale = plan.scale;
      in.visibility = visibility_of(plan.rule, mask, sequence, static_cast<std::int64_t>(index), head, storage);
      in.blind_rows_are_zero = plan.blind_rows_are_zero;
      in.sink = sinks.empty() ? nullptr : &sinks[static_cast<std::size_t>(head)];
      std::vector<float> maximum(static_cast<std::size_t>(sequence.length));
      std::vector<float> sum(maximum.size());
      numerics::attend(in, head_of(to, sequence.batch, sequence.first, sequence.length, head), maximum.data(),
                       sum.data());
      if (!plan.lse) continue;
      // A row without keys has an infinite lse.
      for (std::size_t i = 0; i < sum.size(); ++i)
        maximum[i] = sum[i] == 0 ? std::numeric_limits<float>::infinity() : maximum[i] + std::log(sum[i]);
      const View whole = run.view(plan.lse);
      const View rows = plan.layout == Layout::kTnd ? numerics::unsqueeze(whole, 0) : numerics::transpose(whole, 1, 2);
      numerics::copy(head_of(rows, sequence.batch, sequence.first, sequence.length, head),
                     numerics::view_of(maximum, {sequence.length, 1}));
    }
  }
}

Plan common(Op& op, const Given& given, const Dtypes& taken) {
  Plan plan;
  plan.query = op.in("query", given.query, taken);
  const std::vector<Tensor> keys = op.list("key", given.key, taken), values = op.list("value", given.value, taken);
  op.need(keys.size() == 1 && values.size() == 1, "The fake takes one tensor of key and of value.");
  plan.key = keys[0];
  plan.value = values[0];
  plan.table = op.optional("blockTable", given.table, int32);  // "INT32 table needed"
  plan.rule.mask = op.optional("attenMask", given.mask, {ACL_BOOL, ACL_UINT8, ACL_INT8});
  plan.out = op.out("attentionOut", given.out, taken);
  for (const Tensor& other : {plan.key, plan.value, plan.out}) op.same_dtype(plan.query, other);
  plan.heads = given.heads;
  plan.key_heads = given.key_heads == 0 ? given.heads : given.key_heads;
  plan.scale = static_cast<float>(given.scale);
  plan.block = given.block;
  op.need(plan.heads > 0 && plan.heads <= 256, "numHeads should be 1 to 256.");
  op.need(plan.key_heads > 0 && plan.heads % plan.key_heads == 0, "numHeads should be a multiple of numKeyValueHeads.");
  return plan;
}

// "FusedInferAttentionScoreV2-V4: A2 A3".
void fused_infer(Op& op, const Given& given, bool lse_wanted) {
  op.generated();
  op.chips({Family::kA2, Family::kA3});
  Plan plan = common(op, given, halves);
  plan.lse = lse_wanted ? op.out("softmaxLse", given.lse, fp32) : Tensor{};
  plan.sink = op.optional("learnableSink", given.sink, floats);
  plan.layout = layout_of(op, given.layout, {"BSH", "BSND", "BNSD", "TND"});
  const Shape query = normalised_shape(op, plan.query, plan.layout, plan.heads);
  plan.width = query[3];
  find_sequences(op, plan, given, query);
  std::int64_t longest = plan.layout == Layout::kTnd ? 0 : query[1];
  for (const Sequence& sequence : plan.sequences) longest = std::max(longest, sequence.length);
  const bool decodes = longest <= 1;
  // "D <= 512, D % 16 ... when Q_S > 1"; "TND: D <= 256 or 192/128"
  op.need(plan.width <= (plan.layout == Layout::kTnd ? 256 : 512), "D is too large.");
  op.need(decodes || plan.width % 16 == 0, "D should be a multiple of 16.");
  if (plan.table) require_pages(op, plan, decodes, given);
  // "innerPrecise 0-3, 0/1 when Q_S = 1 (iss llama.cpp 13627)"
  op.need(given.inner_precise >= 0 && given.inner_precise <= (decodes ? 1 : 3),
          "innerPrecise should be 0 to 3, or 0 or 1 where there is one query a sequence.");
  plan.blind_rows_are_zero = given.inner_precise >= 2;
  if (decodes) {
    plan.rule.sparse_mode = plan.rule.mask && given.sparse_mode < 2 ? 1 : 0;  // "ignored when Q_S = 1"
    if (given.sparse_mode >= 2) plan.rule.mask = {};
  } else {
    plan.rule.sparse_mode = given.sparse_mode;
    plan.rule.before = given.before;
    plan.rule.after = given.after;
    require_mask(op, plan.rule, plan.sequences);
  }
  Shape result = plan.query.shape();
  op.shape(plan.out, result);
  op.shape(plan.lse, lse_shape(plan, query));
  op.shape(plan.sink, {plan.heads});
  require_contiguous(op, plan);
  op.workspace(scratch);
  op.run([plan](Run& run) { compute(plan, run); });
}

// "IncreFlashAttentionV4 (Q_S 1, FP16, B <= 256, paging), PromptFlashAttentionV3 (FP16, BOOL mask, preTokens max,
// nextTokens 0 or max, S <= 65535), both with KV-heads argument 0; neither on A5"
void require_310p(Op& op, const Given& given, const Shape& query) {
  if (!op.on(Family::k310P)) return;
  op.need(given.key_heads == 0, "numKeyValueHeads should be 0 on this SoC.");
  op.need(query[1] <= 65535, "S should be 65535 at most on this SoC.");
}

void incremental(Op& op, const Given& given) {
  op.generated();
  op.chips({Family::kA2, Family::kA3, Family::k310P});
  Plan plan = common(op, given, op.on(Family::k310P) ? Dtypes{ACL_FLOAT16} : halves);
  plan.layout = layout_of(op, given.layout, {"BSH", "BSND", "BNSD"});
  const Shape query = normalised_shape(op, plan.query, plan.layout, plan.heads);
  plan.width = query[3];
  op.need(query[1] == 1, "query should have one row a sequence.");
  require_310p(op, given, query);
  op.need(!op.on(Family::k310P) || query[0] <= 256, "B should be 256 at most on this SoC.");
  find_sequences(op, plan, given, query);
  if (plan.table) require_pages(op, plan, true, given);
  if (plan.rule.mask) plan.rule.sparse_mode = 1;
  op.shape(plan.out, plan.query.shape());
  require_contiguous(op, plan);
  op.workspace(scratch);
  op.run([plan](Run& run) { compute(plan, run); });
}

struct Prompt {
  const aclTensor *query, *key, *value;
  Given rest;
};

void prompt(Op& op, const Prompt& given) {
  op.generated();
  op.chips({Family::kA2, Family::kA3, Family::k310P});
  const bool small = op.on(Family::k310P);
  const Dtypes taken = small ? Dtypes{ACL_FLOAT16} : halves;
  const Given& rest = given.rest;
  Plan plan;
  plan.query = op.in("query", given.query, taken);
  plan.key = op.in("key", given.key, taken);
  plan.value = op.in("value", given.value, taken);
  plan.rule.mask = op.optional("attenMask", rest.mask, small ? truths : Dtypes{ACL_BOOL, ACL_UINT8, ACL_INT8});
  plan.out = op.out("attentionOut", rest.out, taken);
  for (const Tensor& other : {plan.key, plan.value, plan.out}) op.same_dtype(plan.query, other);
  plan.layout = layout_of(op, rest.layout, {"BSH", "BSND", "BNSD"});
  plan.heads = rest.heads;
  plan.key_heads = rest.key_heads == 0 ? rest.heads : rest.key_heads;
  plan.scale = static_cast<float>(rest.scale);
  const Shape query = normalised_shape(op, plan.query, plan.layout, plan.heads);
  op.need(plan.heads % plan.key_heads == 0, "numHeads should be a multiple of numKeyValueHeads.");
  op.need(normalised_shape(op, plan.key, plan.layout, plan.key_heads)[3] == query[3], "D of query and key differ.");
  require_310p(op, rest, query);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  op.need(!small || (rest.before == most && (rest.after == 0 || rest.after == most)),
          "preTokens should be 2147483647, and nextTokens that or 0, on this SoC.");
  find_sequences(op, plan, rest, query);
  plan.rule.sparse_mode = rest.sparse_mode;
  plan.rule.before = rest.before;
  plan.rule.after = rest.after;
  op.need(!small || rest.sparse_mode == 0, "sparseMode should be 0 on this SoC.");
  require_mask(op, plan.rule, plan.sequences);
  op.same_shape(plan.query, plan.out);
  require_contiguous(op, plan);
  op.workspace(scratch);
  op.run([plan](Run& run) { compute(plan, run); });
}

}  // namespace
}  // namespace fake

using namespace fake;
FAKE_OP(FusedInferAttentionScoreV2, const aclTensor* query, const aclTensorList* key, const aclTensorList* value,
        const aclTensor* pseShiftOptional, const aclTensor* attenMaskOptional,
        const aclIntArray* actualSeqLengthsOptional, const aclIntArray* actualSeqLengthsKvOptional,
        const aclTensor* deqScale1Optional, const aclTensor* quantScale1Optional, const aclTensor* deqScale2Optional,
        const aclTensor* quantScale2Optional, const aclTensor* quantOffset2Optional,
        const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
        const aclTensor* blockTableOptional, const aclTensor* queryPaddingSizeOptional,
        const aclTensor* kvPaddingSizeOptional, const aclTensor* keyAntiquantScaleOptional,
        const aclTensor* keyAntiquantOffsetOptional, const aclTensor* valueAntiquantScaleOptional,
        const aclTensor* valueAntiquantOffsetOptional, const aclTensor* keySharedPrefixOptional,
        const aclTensor* valueSharedPrefixOptional, const aclIntArray* actualSharedPrefixLenOptional, int64_t numHeads,
        double scaleValue, int64_t preTokens, int64_t nextTokens, char* inputLayout, int64_t numKeyValueHeads,
        int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
        int64_t keyAntiquantMode, int64_t valueAntiquantMode, const aclTensor* attentionOut,
        const aclTensor* softmaxLse) {
  return plan("aclnnFusedInferAttentionScoreV2", workspaceSize, executor, [&](Op& op) {
    const void* const others[] = {pseShiftOptional,
                                  deqScale1Optional,
                                  quantScale1Optional,
                                  deqScale2Optional,
                                  quantScale2Optional,
                                  quantOffset2Optional,
                                  antiquantScaleOptional,
                                  antiquantOffsetOptional,
                                  queryPaddingSizeOptional,
                                  kvPaddingSizeOptional,
                                  keyAntiquantScaleOptional,
                                  keyAntiquantOffsetOptional,
                                  valueAntiquantScaleOptional,
                                  valueAntiquantOffsetOptional,
                                  keySharedPrefixOptional,
                                  valueSharedPrefixOptional,
                                  actualSharedPrefixLenOptional};
    for (const void* other : others) absent("A scale, a shift, a padding size, a prefix or a rope part", other);
    op.need(antiquantMode == 0 && keyAntiquantMode == 0 && valueAntiquantMode == 0,
            "Modes of quantised keys and values should be 0.");
    fused_infer(op,
                {query, key, value, attenMaskOptional, actualSeqLengthsOptional, actualSeqLengthsKvOptional,
                 blockTableOptional, numHeads, scaleValue, preTokens, nextTokens, inputLayout, numKeyValueHeads,
                 sparseMode, innerPrecise, blockSize, attentionOut, softmaxLse, nullptr},
                softmaxLseFlag);
  });
}
FAKE_OP(FusedInferAttentionScoreV3, const aclTensor* query, const aclTensorList* key, const aclTensorList* value,
        const aclTensor* pseShiftOptional, const aclTensor* attenMaskOptional,
        const aclIntArray* actualSeqLengthsOptional, const aclIntArray* actualSeqLengthsKvOptional,
        const aclTensor* deqScale1Optional, const aclTensor* quantScale1Optional, const aclTensor* deqScale2Optional,
        const aclTensor* quantScale2Optional, const aclTensor* quantOffset2Optional,
        const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
        const aclTensor* blockTableOptional, const aclTensor* queryPaddingSizeOptional,
        const aclTensor* kvPaddingSizeOptional, const aclTensor* keyAntiquantScaleOptional,
        const aclTensor* keyAntiquantOffsetOptional, const aclTensor* valueAntiquantScaleOptional,
        const aclTensor* valueAntiquantOffsetOptional, const aclTensor* keySharedPrefixOptional,
        const aclTensor* valueSharedPrefixOptional, const aclIntArray* actualSharedPrefixLenOptional,
        const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
        const aclTensor* keyRopeAntiquantScaleOptional, int64_t numHeads, double scaleValue, int64_t preTokens,
        int64_t nextTokens, char* inputLayout, int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
        int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag, int64_t keyAntiquantMode,
        int64_t valueAntiquantMode, const aclTensor* attentionOut, const aclTensor* softmaxLse) {
  return plan("aclnnFusedInferAttentionScoreV3", workspaceSize, executor, [&](Op& op) {
    const void* const others[] = {pseShiftOptional,
                                  deqScale1Optional,
                                  quantScale1Optional,
                                  deqScale2Optional,
                                  quantScale2Optional,
                                  quantOffset2Optional,
                                  antiquantScaleOptional,
                                  antiquantOffsetOptional,
                                  queryPaddingSizeOptional,
                                  kvPaddingSizeOptional,
                                  keyAntiquantScaleOptional,
                                  keyAntiquantOffsetOptional,
                                  valueAntiquantScaleOptional,
                                  valueAntiquantOffsetOptional,
                                  keySharedPrefixOptional,
                                  valueSharedPrefixOptional,
                                  actualSharedPrefixLenOptional,
                                  queryRopeOptional,
                                  keyRopeOptional,
                                  keyRopeAntiquantScaleOptional};
    for (const void* other : others) absent("A scale, a shift, a padding size, a prefix or a rope part", other);
    op.need(antiquantMode == 0 && keyAntiquantMode == 0 && valueAntiquantMode == 0,
            "Modes of quantised keys and values should be 0.");
    fused_infer(op,
                {query, key, value, attenMaskOptional, actualSeqLengthsOptional, actualSeqLengthsKvOptional,
                 blockTableOptional, numHeads, scaleValue, preTokens, nextTokens, inputLayout, numKeyValueHeads,
                 sparseMode, innerPrecise, blockSize, attentionOut, softmaxLse, nullptr},
                softmaxLseFlag);
  });
}
FAKE_OP(FusedInferAttentionScoreV4, const aclTensor* query, const aclTensorList* key, const aclTensorList* value,
        const aclTensor* pseShiftOptional, const aclTensor* attenMaskOptional,
        const aclIntArray* actualSeqLengthsOptional, const aclIntArray* actualSeqLengthsKvOptional,
        const aclTensor* deqScale1Optional, const aclTensor* quantScale1Optional, const aclTensor* deqScale2Optional,
        const aclTensor* quantScale2Optional, const aclTensor* quantOffset2Optional,
        const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
        const aclTensor* blockTableOptional, const aclTensor* queryPaddingSizeOptional,
        const aclTensor* kvPaddingSizeOptional, const aclTensor* keyAntiquantScaleOptional,
        const aclTensor* keyAntiquantOffsetOptional, const aclTensor* valueAntiquantScaleOptional,
        const aclTensor* valueAntiquantOffsetOptional, const aclTensor* keySharedPrefixOptional,
        const aclTensor* valueSharedPrefixOptional, const aclIntArray* actualSharedPrefixLenOptional,
        const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
        const aclTensor* keyRopeAntiquantScaleOptional, const aclTensor* dequantScaleQueryOptional,
        const aclTensor* learnableSinkOptional, int64_t numHeads, double scaleValue, int64_t preTokens,
        int64_t nextTokens, char* inputLayout, int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise,
        int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag, int64_t keyAntiquantMode,
        int64_t valueAntiquantMode, int64_t queryQuantMode, const aclTensor* attentionOut,
        const aclTensor* softmaxLse) {
  return plan("aclnnFusedInferAttentionScoreV4", workspaceSize, executor, [&](Op& op) {
    const void* const others[] = {pseShiftOptional,
                                  deqScale1Optional,
                                  quantScale1Optional,
                                  deqScale2Optional,
                                  quantScale2Optional,
                                  quantOffset2Optional,
                                  antiquantScaleOptional,
                                  antiquantOffsetOptional,
                                  queryPaddingSizeOptional,
                                  kvPaddingSizeOptional,
                                  keyAntiquantScaleOptional,
                                  keyAntiquantOffsetOptional,
                                  valueAntiquantScaleOptional,
                                  valueAntiquantOffsetOptional,
                                  keySharedPrefixOptional,
                                  valueSharedPrefixOptional,
                                  actualSharedPrefixLenOptional,
                                  queryRopeOptional,
                                  keyRopeOptional,
                                  keyRopeAntiquantScaleOptional,
                                  dequantScaleQueryOptional};
    for (const void* other : others) absent("A scale, a shift, a padding size, a prefix or a rope part", other);
    op.need(antiquantMode == 0 && keyAntiquantMode == 0 && valueAntiquantMode == 0 && queryQuantMode == 0,
            "Modes of quantised keys and values should be 0.");
    fused_infer(op,
                {query, key, value, attenMaskOptional, actualSeqLengthsOptional, actualSeqLengthsKvOptional,
                 blockTableOptional, numHeads, scaleValue, preTokens, nextTokens, inputLayout, numKeyValueHeads,
                 sparseMode, innerPrecise, blockSize, attentionOut, softmaxLse, learnableSinkOptional},
                softmaxLseFlag);
  });
}
FAKE_OP(IncreFlashAttentionV4, const aclTensor* query, const aclTensorList* key, const aclTensorList* value,
        const aclTensor* pseShift, const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
        const aclTensor* dequantScale1, const aclTensor* quantScale1, const aclTensor* dequantScale2,
        const aclTensor* quantScale2, const aclTensor* quantOffset2, const aclTensor* antiquantScale,
        const aclTensor* antiquantOffset, const aclTensor* blocktable, const aclTensor* kvPaddingSize, int64_t numHeads,
        double scaleValue, char* inputLayout, int64_t numKeyValueHeads, int64_t blockSize, int64_t innerPrecise,
        const aclTensor* attentionOut) {
  return plan("aclnnIncreFlashAttentionV4", workspaceSize, executor, [&](Op& op) {
    const void* const others[] = {pseShift,     dequantScale1,  quantScale1,     dequantScale2, quantScale2,
                                  quantOffset2, antiquantScale, antiquantOffset, kvPaddingSize};
    for (const void* other : others) absent("A scale, a shift, a padding size, a prefix or a rope part", other);
    incremental(op, {query, key, value, attenMask, nullptr, actualSeqLengths, blocktable, numHeads, scaleValue, 0, 0,
                     inputLayout, numKeyValueHeads, 0, innerPrecise, blockSize, attentionOut, nullptr, nullptr});
  });
}
FAKE_OP(PromptFlashAttentionV3, const aclTensor* query, const aclTensor* key, const aclTensor* value,
        const aclTensor* pseShift, const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
        const aclIntArray* actualSeqLengthsKv, const aclTensor* deqScale1, const aclTensor* quantScale1,
        const aclTensor* deqScale2, const aclTensor* quantScale2, const aclTensor* quantOffset2, int64_t numHeads,
        double scaleValue, int64_t preTokens, int64_t nextTokens, char* inputLayout, int64_t numKeyValueHeads,
        int64_t sparseMode, int64_t innerPrecise, const aclTensor* attentionOut) {
  return plan("aclnnPromptFlashAttentionV3", workspaceSize, executor, [&](Op& op) {
    const void* const others[] = {pseShift, deqScale1, quantScale1, deqScale2, quantScale2, quantOffset2};
    for (const void* other : others) absent("A scale, a shift, a padding size, a prefix or a rope part", other);
    prompt(op, {query,
                key,
                value,
                {nullptr, nullptr, nullptr, attenMask, actualSeqLengths, actualSeqLengthsKv, nullptr, numHeads,
                 scaleValue, preTokens, nextTokens, inputLayout, numKeyValueHeads, sparseMode, innerPrecise, 0,
                 attentionOut, nullptr, nullptr}});
  });
}
