#include "ops/table.h"

#include <array>
#include <stdexcept>
#include <string>

#include "ops/program_ops.h"
#include "ops/table_elements.h"
#include "ops/table_layers.h"
#include "ops/table_optimizers.h"

namespace tern::ops {
namespace {

using namespace rows;

// One op a block: arguments in the order of tern_op_desc.args, then attributes. Ids are part of the ABI: never reused.

constexpr ArgSpec kLinearCrossEntropy[] = {
    {"h", input, "[rows, width]", floating},
    {"w", input, "[vocab, width]", floating, kQuantised | kPackable},
    {"targets", input, "[rows]; -1: none in this shard", i32},
    {"weights", input, "[rows]: 0 leaves a row out", f32},
    {"lse", input, "[rows]: log sum exp over all shards of the vocabulary; absent: w is all of it", f32, kOptional},
    {"loss", output, "[1]", f32, kAccumulate},
    {"row_max", output, "[rows]", f32, kOptional},
    {"row_sum", output, "[rows]: sum of exp(logit - row_max)", f32, kOptional},
    {"row_target", output, "[rows]: the target's logit", f32, kOptional},
    {"dh", output, "[rows, width]: gradient of the loss", floating, kOptional},
    {"dw", output, "[vocab, width]: gradient of the loss", f32, kOptional | kAccumulate}};
constexpr AttrSpec kLinearCrossEntropyAttrs[] = {
    {"compute", I, "tern_compute that h and w (and the logits' gradient) are rounded to before products"},
    {"softcap", F, "0: none; else logits are softcap * tanh(z / softcap)"}};

constexpr ArgSpec kShardIndex[] = {{"ids", input, "[rows]", i32}, {"y", output, "[rows]", i32}};
constexpr AttrSpec kShardIndexAttrs[] = {{"first", I, "the shard's first id"}, {"count", I, "ids of the shard"}};

constexpr ArgSpec kMergeLse[] = {{"row_max", input, "[shards, rows]", f32},
                                 {"row_sum", input, "[shards, rows]: sum of exp(logit - row_max)", f32},
                                 {"lse", output, "[rows]", f32}};

constexpr ArgSpec kSample[] = {
    {"logits", input, "[rows, vocab]", f32},
    {"temperature", input, "[rows]; 0: greedy", f32},
    {"top_k", input, "[rows]; 0: off", i32},
    {"top_p", input, "[rows]; 1: off", f32},
    {"min_p", input, "[rows]; 0: off", f32},
    {"repetition", input, "[rows]; 1: off", f32, kOptional},
    {"presence", input, "[rows]; 0: off", f32, kOptional},
    {"frequency", input, "[rows]; 0: off", f32, kOptional},
    {"history", input, "[blocks, block_size]: earlier tokens; block 0 is nobody's", i32, kOptional},
    {"history_len", input, "[rows]: earlier tokens of the row", i32, kOptional},
    {"output_begin", input, "[rows]: its tokens from here on were generated", i32, kOptional},
    {"bias_ids", input, "[rows, biases]: tokens", i32, kOptional},
    {"bias", input, "[rows, biases]: added to their logits", f32, kOptional},
    {"mask", input, "[rows, ceil(vocab / 32)]: bit 1 allows", u32, kOptional},
    {"uniform", input, "[rows]: from 0 to below 1", f32},
    {"ids", output, "[rows]", i32},
    {"logprob", output, "[rows]", f32},
    {"top_ids", output, "[rows, tops]: the most likely tokens", i32, kOptional},
    {"top_logprobs", output, "[rows, tops]", f32, kOptional},
    {"history_table", input, "[rows, max_blocks]: the blocks of history that hold its tokens", i32, kOptional}};

constexpr ArgSpec kSoftcap[] = {{"x", input, "[...]", floating}, {"y", output, "[...]", floating}};
constexpr AttrSpec kSoftcapAttrs[] = {{"cap", F, "bound of |y|, above 0"}};

constexpr ArgSpec kSinkScale[] = {{"x", input, "[rows, heads, value_dim]", floating},
                                  {"lse", input, "[rows, heads]", f32},
                                  {"sinks", input, "[heads]", f32},
                                  {"out", output, "[rows, heads, value_dim]", floating},
                                  {"lse_out", output, "[rows, heads]", f32, kOptional}};

constexpr ArgSpec kSinkScaleBackward[] = {{"dout", input, "[rows, heads, value_dim]", floating},
                                          {"out", input, "[rows, heads, value_dim]", floating},
                                          {"lse", input, "[rows, heads]: the sink included", f32},
                                          {"sinks", input, "[heads]", f32},
                                          {"dsinks", output, "[heads]", f32, kAccumulate}};

constexpr ArgSpec kMoeRoute[] = {{"logits", input, "[rows, experts]", floating},
                                 {"bias", input, "[experts]: added to the scores for the choice alone", f32, kOptional},
                                 {"weights", output, "[rows, top_k]", f32},
                                 {"experts", output, "[rows, top_k]: the best first", i32}};
constexpr AttrSpec kMoeRouteAttrs[] = {
    {"sigmoid", I, "scores are 0: softmax over the experts; 1: the sigmoid of each logit"},
    {"normalise", I, "1: a row's weights are divided by their sum"},
    {"scale", F, "times the weights"},
    {"groups", I, "experts stand in so many groups of neighbours, of which some are kept; 1: all"},
    {"top_groups", I, "groups that are kept of each row"},
    {"group_top", I, "a group is as good as the sum of its best so many scores"}};

constexpr ArgSpec kMoeRouteBackward[] = {{"dweights", input, "[rows, top_k]", f32},
                                         {"logits", input, "[rows, experts]", floating},
                                         {"experts", input, "[rows, top_k]: as forward chose", i32},
                                         {"dlogits", output, "[rows, experts]", floating}};
constexpr AttrSpec kMoeRouteBackwardAttrs[] = {
    {"sigmoid", I, "as forward"}, {"normalise", I, "as forward"}, {"scale", F, "as forward"}};

constexpr ArgSpec kMoePermute[] = {{"x", input, "[rows, width]", floating},
                                   {"experts", input, "[rows, top_k]", i32},
                                   {"y", output, "[rows, top_k, width]: in order of experts", as_x},
                                   {"places", output, "[rows, top_k]: where each choice of a row went", i32},
                                   {"offsets", output, "[experts + 1]: where each expert's rows begin", i32}};

constexpr ArgSpec kMoeCombine[] = {{"x", input, "[rows, top_k, width]: in order of experts", floating},
                                   {"places", input, "[rows, top_k]", i32},
                                   {"weights", input, "[rows, top_k]; absent: 1", f32, kOptional},
                                   {"y", output, "[rows, width]", floating, kAccumulate}};

constexpr ArgSpec kMoeCombineBackward[] = {
    {"dy", input, "[rows, width]", floating},
    {"x", input, "[rows, top_k, width]; present iff dweights is", floating, kOptional},
    {"places", input, "[rows, top_k]", i32},
    {"weights", input, "[rows, top_k]; absent: 1", f32, kOptional},
    {"dx", output, "[rows, top_k, width]: in order of experts", floating},
    {"dweights", output, "[rows, top_k]", f32, kOptional}};

constexpr ArgSpec kGroupedMatmul[] = {
    {"x", input, Shape::checked_by_op("[rows, top_k, in]; [rows, top_k, out] if not transpose_w"), floating},
    {"w", input, Shape::checked_by_op("[experts, out, in]; quantised: [experts out, in]"), floating, kQuantised},
    {"bias", input, Shape::checked_by_op("[experts, out]; absent if not transpose_w"), floating, kOptional},
    {"offsets", input, "[experts + 1]: where each expert's rows begin", i32},
    {"y", output, Shape::checked_by_op("[rows, top_k, out]; [rows, top_k, in] if not transpose_w"), floating,
     kAccumulate}};
constexpr AttrSpec kGroupedMatmulAttrs[] = {
    {"transpose_w", I, "1: y = x w^T (forward); 0: y = x w (gradient of the input)"},
    {"compute", I, "tern_compute that x and the expanded w are rounded to before the product: f32, bf16 or f16"}};

constexpr ArgSpec kGroupedMatmulBackward[] = {{"dy", input, "[rows, top_k, out]", floating},
                                              {"x", input, "[rows, top_k, in]", floating},
                                              {"offsets", input, "[experts + 1]: where each expert's rows begin", i32},
                                              {"dw", output, "[experts, out, in]", f32, kOptional | kAccumulate},
                                              {"dbias", output, "[experts, out]", f32, kOptional | kAccumulate}};
constexpr AttrSpec kGroupedMatmulBackwardAttrs[] = {
    {"compute", I, "tern_compute that dy and x are rounded to before the product: f32, bf16 or f16"}};

constexpr ArgSpec kAct[] = {{"x", input, "[...]", floating}, {"y", output, "[...]", floating}};
constexpr AttrSpec kActAttrs[] = {{"kind", I, "tern_act"}};

constexpr ArgSpec kActBackward[] = {
    {"dy", input, "[...]", floating}, {"x", input, "[...]", floating}, {"dx", output, "[...]", floating}};

constexpr ArgSpec kCausalConv1d[] = {
    {"x", input, "[rows, channels]", floating},
    {"weight", input, "[channels, taps + 1]: the last is of the row itself", floating},
    {"bias", input, "[channels]", floating, kOptional},
    {"cu_seqlens", input, "[sequences + 1]", i32, kLengths},
    {"kv_lens", input, "[sequences], this step's rows included; present iff state is", i32, kOptional},
    {"seats", input, "[sequences]: whose the state is; padding: 0; present iff state is", i32, kOptional},
    {"state", state, "[num_seats, taps, channels]: the last rows before", floating, kOptional},
    {"y", output, "[rows, channels]", floating}};
constexpr AttrSpec kSequencesAttrs[] = {{"max_seqlen", I, "no sequence has more rows; 1: decoding"}};

constexpr ArgSpec kCausalConv1dBackward[] = {{"dy", input, "[rows, channels]", floating},
                                             {"x", input, "[rows, channels]", floating},
                                             {"weight", input, "[channels, taps + 1]", floating},
                                             {"cu_seqlens", input, "[sequences + 1]", i32, kLengths},
                                             {"dx", output, "[rows, channels]", floating},
                                             {"dweight", output, "[channels, taps + 1]", f32, kOptional | kAccumulate},
                                             {"dbias", output, "[channels]", f32, kOptional | kAccumulate}};

constexpr ArgSpec kGatedDeltaRule[] = {
    {"q", input, "[rows, k_heads, key_dim]", floating},
    {"k", input, "[rows, k_heads, key_dim]", floating},
    {"v", input, "[rows, heads, value_dim]", floating},
    {"decay", input, "[rows, heads]: log of what is kept, at most 0", f32},
    {"beta", input, "[rows, heads]: 0 <= beta |k|^2 <= 2", f32},
    {"cu_seqlens", input, "[sequences + 1]", i32, kLengths},
    {"kv_lens", input, "[sequences], this step's rows included; present iff state is", i32, kOptional},
    {"seats", input, "[sequences]: whose the state is; padding: 0; present iff state is", i32, kOptional},
    {"state", state, "[num_seats, heads, key_dim, value_dim]", f32, kOptional},
    {"out", output, "[rows, heads, value_dim]", floating}};
constexpr AttrSpec kGatedDeltaRuleAttrs[] = {{"scale", F, "factor of q"},
                                             {"max_seqlen", I, "no sequence has more rows; 1: decoding"}};

constexpr ArgSpec kGatedDeltaRuleBackward[] = {{"dout", input, "[rows, heads, value_dim]", floating},
                                               {"q", input, "[rows, k_heads, key_dim]", floating},
                                               {"k", input, "[rows, k_heads, key_dim]", floating},
                                               {"v", input, "[rows, heads, value_dim]", floating},
                                               {"decay", input, "[rows, heads]", f32},
                                               {"beta", input, "[rows, heads]", f32},
                                               {"cu_seqlens", input, "[sequences + 1]", i32, kLengths},
                                               {"dq", output, "[rows, k_heads, key_dim]", floating},
                                               {"dk", output, "[rows, k_heads, key_dim]", floating},
                                               {"dv", output, "[rows, heads, value_dim]", floating},
                                               {"ddecay", output, "[rows, heads]", f32},
                                               {"dbeta", output, "[rows, heads]", f32}};

constexpr ArgSpec kLayerNorm[] = {{"x", input, "[rows, width]", floating},
                                  {"residual", input, "[rows, width]", floating, kOptional},
                                  {"weight", input, "[width]", floating},
                                  {"bias", input, "[width]", floating, kOptional},
                                  {"y", output, "[rows, width]", floating},
                                  {"sum", output, "[rows, width]; present iff residual is", floating, kOptional},
                                  {"mean", output, "[rows]; present iff rstd is", f32, kOptional},
                                  {"rstd", output, "[rows]", f32, kOptional}};
constexpr AttrSpec kLayerNormAttrs[] = {{"eps", F, "added to the variance"}};

constexpr ArgSpec kLayerNormBackward[] = {{"dy", input, "[rows, width]", floating},
                                          {"x", input, "[rows, width]: what was normalised", floating},
                                          {"weight", input, "[width]", floating},
                                          {"mean", input, "[rows]", f32},
                                          {"rstd", input, "[rows]", f32},
                                          {"dsum", input, "[rows, width]: added to dx", floating, kOptional},
                                          {"dx", output, "[rows, width]", floating},
                                          {"dweight", output, "[width]", f32, kOptional | kAccumulate},
                                          {"dbias", output, "[width]", f32, kOptional | kAccumulate}};

constexpr ArgSpec kSelectiveScan[] = {
    {"x", input, "[rows, heads, head_dim]", floating},
    {"dt", input, "[rows, heads]: at least 0", f32},
    {"a", input, "[heads]: at most 0", f32},
    {"b", input, "[rows, groups, state_size]", floating},
    {"c", input, "[rows, groups, state_size]", floating},
    {"d", input, "[heads]", floating, kOptional},
    {"cu_seqlens", input, "[sequences + 1]", i32, kLengths},
    {"kv_lens", input, "[sequences], this step's rows included; present iff state is", i32, kOptional},
    {"seats", input, "[sequences]: whose the state is; padding: 0; present iff state is", i32, kOptional},
    {"state", state, "[num_seats, heads, state_size, head_dim]", f32, kOptional},
    {"out", output, "[rows, heads, head_dim]", floating}};

constexpr ArgSpec kSelectiveScanBackward[] = {{"dout", input, "[rows, heads, head_dim]", floating},
                                              {"x", input, "[rows, heads, head_dim]", floating},
                                              {"dt", input, "[rows, heads]", f32},
                                              {"a", input, "[heads]", f32},
                                              {"b", input, "[rows, groups, state_size]", floating},
                                              {"c", input, "[rows, groups, state_size]", floating},
                                              {"d", input, "[heads]; present if dd is", floating, kOptional},
                                              {"cu_seqlens", input, "[sequences + 1]", i32, kLengths},
                                              {"dx", output, "[rows, heads, head_dim]", floating},
                                              {"ddt", output, "[rows, heads]", f32},
                                              {"da", output, "[heads]", f32, kOptional | kAccumulate},
                                              {"db", output, "[rows, groups, state_size]", floating},
                                              {"dc", output, "[rows, groups, state_size]", floating},
                                              {"dd", output, "[heads]", f32, kOptional | kAccumulate}};

constexpr OpSpec kTable[] = {
    {1,
     "cast_copy",
     "y = x, rounded to nearest even in y's dtype (integers from floats: towards zero, saturating)",
     kCastCopy,
     {}},
    {2, "gather_rows", "y[r] = x[index[r]]; zeros where index[r] < 0", kGatherRows, {}},
    {3,
     "scatter_add_rows",
     "y[n] = sum over r with index[r] == n, in order of r, of x[r]; index < 0 is skipped",
     kScatterAddRows,
     {}},
    {4, "axpby", "out = a x + b y", kAxpby, kAxpbyAttrs},
    {5, "mul", "out = x * y", kMul, {}},
    {6, "row_sum", "out = sum of x over one dimension", kRowSum, kRowSumAttrs},
    {7, "scale", "y = x * factor[0]", kScale, {}},
    {8, "dropout",
     "y = keep ? x / (1 - rate) : 0; keep = mask if given, else uniform24(philox(key = keys[row], counter = {feature / "
     "4, "
     "site, 0, 0})[feature % 4]) >= rate",
     kDropout, kDropoutAttrs},
    {9, "sum_squares", "out = sum of x^2", kSumSquares, {}},
    {10,
     "all_finite",
     "out = 1 if no x is NaN or infinite, else 0; accumulating: logical and with what it holds",
     kAllFinite,
     {}},
    {11, "matmul", "out = alpha op(a) op(b) + bias, accumulated in fp32", kMatmul, kMatmulAttrs},
    {12, "matmul_q", "y = x w^T + bias or x w, w expanded from its planes, accumulated in fp32", kMatmulQ,
     kMatmulQAttrs},
    {13, "dequantize", "y = w expanded", kDequantize, {}},
    {14, "embedding", "y[r] = table[ids[r]]; zeros where ids[r] is -1", kEmbedding, {}},
    {15, "rms_norm",
     "s = x + residual (rounded to sum's dtype); rstd = 1 / sqrt(mean(s^2) + eps); y = s rstd (weight + weight_offset)",
     kRmsNorm, kRmsNormAttrs},
    {16, "rms_norm_backward",
     "g = dy (weight + weight_offset); dx = dsum + rstd (g - x rstd^2 mean(g x)); dweight = sum over rows of dy x rstd",
     kRmsNormBackward, kRmsNormBackwardAttrs},
    {17, "rope",
     "each pair (u, w) of the first `rotary` features becomes (u cos - w sin, w cos + u sin); the rest is kept", kRope,
     kRopeAttrs},
    {18, "qk_norm_rope", "y = rope(rms_norm(x over head_dim))", kQkNormRope, kQkNormRopeAttrs},
    {19, "qk_norm_rope_backward", "the gradient of qk_norm_rope", kQkNormRopeBackward, kQkNormRopeBackwardAttrs},
    {20, "act_mul", "y = act(gate) * (up + up_offset), gate and up within limit", kActMul, kActMulAttrs},
    {21, "act_mul_backward", "dgate = dy (up + up_offset) act'(gate); dup = dy act(gate); 0 beyond limit",
     kActMulBackward, kActMulAttrs},
    {22, "attention",
     "p = softmax(hide(softcap(scale q k^T)) with sinks as one more logit of value 0), where hide leaves the keys that "
     "causal, window, window_right, chunk and mask all show; out = p v; lse = log sum exp, "
     "sinks "
     "included; query head h reads kv head h / (heads / kv_heads); rows outside of every sequence, and rows that see "
     "no "
     "key: out = 0, lse = -inf",
     kAttention, kAttentionAttrs},
    {23, "attention_backward", "the gradient of attention from its out and lse; rows outside of every sequence: 0",
     kAttentionBackward, kAttentionAttrs},
    {24,
     "kv_write",
     "k_cache[slot] = k, v_cache[slot] = v; floats rounded to the cache's dtype, i8 and f8_e4m3 over a scale for each "
     "row and head, others copied; block 0 takes rows of padding, and nobody reads it",
     kKvWrite,
     {}},
    {25, "attention_paged",
     "attention where sequence b's key j lies in block block_table[b, j / block_size]; query row i of b stands at "
     "kv_lens[b] - rows of b + i",
     kAttentionPaged, kAttentionAttrs},
    {26, "linear_cross_entropy",
     "z = softcap(h w^T); loss = sum over rows of weights (log sum exp(z) - z[target]); never holds rows x vocab; dh, "
     "dw are "
     "the loss's gradients for an upstream gradient of 1",
     kLinearCrossEntropy, kLinearCrossEntropyAttrs},
    {27,
     "adamw",
     "g = grad grad_scale; m = beta1 m + one_minus_beta1 g; v = beta2 v + one_minus_beta2 g^2; param = param (1 - lr "
     "weight_decay) - "
     "lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)",
     kAdamw,
     {}},
    {28,
     "sample",
     "penalties over the history (token t of row r is history[history_table[r, t / block_size], t % block_size]), then "
     "bias, then mask, then temperature, then min-p, top-k, top-p; ids drawn by "
     "inverse "
     "transform over the kept tokens in order of their ids with uniform[row]; logprob of the drawn token under "
     "log_softmax of the untouched logits",
     kSample,
     {}},
    {29, "softcap", "y = cap * tanh(x / cap)", kSoftcap, kSoftcapAttrs},
    {30,
     "sink_scale",
     "out = x sigmoid(lse - sink), lse_out = log(exp(lse) + exp(sink)): attention without sinks becomes attention with "
     "them; lse -inf: out = 0, lse_out = -inf",
     kSinkScale,
     {}},
    {31,
     "sink_scale_backward",
     "dsinks = - sum over rows of exp(sink - lse) sum dout out; rows with lse -inf add nothing",
     kSinkScaleBackward,
     {}},
    {32, "fill", "y = value", kFill, kFillAttrs},
    {33, "shard_index", "y = ids - first where first <= ids < first + count, else -1", kShardIndex, kShardIndexAttrs},
    {34,
     "merge_lse",
     "lse = log sum over shards of row_sum exp(row_max), shards whose row_sum is 0 left out; 0 where all are",
     kMergeLse,
     {}},
    {35, "moe_route",
     "s = softmax(logits) or sigmoid(logits); experts = the top_k of s + bias within the best top_groups groups, ties "
     "by their number; weights = scale s[experts], divided by their sum where `normalise`",
     kMoeRoute, kMoeRouteAttrs},
    {36, "moe_route_backward", "the gradient of moe_route's weights, the choice being fixed", kMoeRouteBackward,
     kMoeRouteBackwardAttrs},
    {37,
     "moe_permute",
     "y[places[r, i]] = x[r], where expert e has the places offsets[e] to offsets[e + 1] in order of (r, i)",
     kMoePermute,
     {}},
    {38, "moe_combine", "y[r] = sum over i of weights[r, i] x[places[r, i]]", kMoeCombine, {}},
    {39,
     "moe_combine_backward",
     "dx[places[r, i]] = weights[r, i] dy[r]; dweights[r, i] = dy[r] . x[places[r, i]]",
     kMoeCombineBackward,
     {}},
    {40, "grouped_matmul",
     "y = x w[e]^T + bias[e] or x w[e] of the rows of each expert e, accumulated in fp32; rows of no expert: 0",
     kGroupedMatmul, kGroupedMatmulAttrs},
    {41, "grouped_matmul_backward", "dw[e] = dy^T x and dbias[e] = sum of dy over the rows of each expert e",
     kGroupedMatmulBackward, kGroupedMatmulBackwardAttrs},
    {42, "act", "y = act(x)", kAct, kActAttrs},
    {43, "act_backward", "dx = dy act'(x)", kActBackward, kActAttrs},
    {44, "causal_conv1d",
     "y[t] = bias + sum over j of weight[:, j] x[t - taps + j], each channel by itself; rows before a sequence's first "
     "are those that its state holds, or 0 where kv_lens says that it begins; the state becomes its last rows",
     kCausalConv1d, kSequencesAttrs},
    {45, "causal_conv1d_backward", "the gradient of causal_conv1d without a state", kCausalConv1dBackward,
     kSequencesAttrs},
    {46, "gated_delta_rule",
     "for each row of a sequence: S = exp(decay) S; S += k (beta (v - S^T k))^T; out = scale S^T q; S begins as the "
     "sequence's state, or 0 where kv_lens says that it begins; head h reads q and k of h / (heads / k_heads)",
     kGatedDeltaRule, kGatedDeltaRuleAttrs},
    {47, "gated_delta_rule_backward", "the gradient of gated_delta_rule without a state", kGatedDeltaRuleBackward,
     kGatedDeltaRuleAttrs},
    {48, "layer_norm",
     "s = x + residual (rounded to sum's dtype); mean = mean(s); rstd = 1 / sqrt(mean((s - mean)^2) + eps); y = (s - "
     "mean) rstd weight + bias",
     kLayerNorm, kLayerNormAttrs},
    {49,
     "layer_norm_backward",
     "g = dy weight; c = x - mean; dx = dsum + rstd (g - mean(g) - c rstd^2 mean(g c)); dweight = sum over rows of dy "
     "c "
     "rstd; dbias = sum over rows of dy",
     kLayerNormBackward,
     {}},
    {50, "selective_scan",
     "for each row of a sequence: S = exp(dt a) S + b (dt x)^T; out = S^T c + d x; S begins as the sequence's state, "
     "or 0 "
     "where kv_lens says that it begins; head h reads b and c of h / (heads / groups)",
     kSelectiveScan, kSequencesAttrs},
    {51, "selective_scan_backward", "the gradient of selective_scan without a state", kSelectiveScanBackward,
     kSequencesAttrs},
    {52, "index_topk_mask",
     "s_j = sum over heads of weights relu(q k_j); mask = 1 at the topk keys of largest s among those that the row "
     "sees "
     "causally, ties by rising j",
     kIndexTopkMask, kIndexTopkMaskAttrs},
    {53, "index_topk_mask_paged",
     "index_topk_mask where sequence b's key j lies in block block_table[b, j / block_size]; query row i of b stands "
     "at "
     "kv_lens[b] - rows of b + i",
     kIndexTopkMaskPaged, kIndexTopkMaskAttrs},
    {54,
     "sgd",
     "g = grad_scale grad + decay param; buf = momentum buf + rest g; param = keep param - lr (take_grad g + take_buf "
     "buf)",
     kSgd,
     {}},
    {55,
     "lion",
     "g = grad grad_scale; param = keep param - lr sign(beta1 m + one_minus_beta1 g); m = beta2 m + one_minus_beta2 g",
     kLion,
     {}},
    {56,
     "adafactor",
     "g = grad grad_scale; row, col: running means of g^2 + eps1 over columns and rows; u = g / sqrt(row / mean(row)) "
     "/ "
     "sqrt(col), or g / sqrt(v); u = u a / max(1, rms(u) / clip), a = lr max(eps2, rms(param)) if scale_parameter; m = "
     "beta1 m + rest1 u; param = param (1 - weight_decay a) - u or m",
     kAdafactor,
     {}},
    {57,
     "adamw_8bit",
     "adamw upon m_codes[m] m_max and v_codes[v] v_max; then of each 256 elements m_max = max |m| and m the nearest "
     "code "
     "of m / m_max, v in the same way",
     kAdamw8bit,
     {}},
    {58, "lora_shrink", "h = alpha dropout(x) a^T, summed in fp32", kLoraShrink, kLoraShrinkAttrs},
    {59, "lora_shrink_backward", "dx = alpha dropout(dh a); da = alpha dh^T dropout(x)", kLoraShrinkBackward,
     kLoraShrinkBackwardAttrs},
    {60,
     "lora_segmented",
     "y[r] = b[s] (a[s] x[r]), s = slots[r], summed in fp32; 0 where s is num_slots",
     kLoraSegmented,
     {}},
};

}  // namespace

int OpSpec::arg_index(std::string_view arg) const {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].name == arg) return static_cast<int>(i);
  }
  return -1;
}

int OpSpec::num_lengths() const {
  int count = 0;
  for (const auto& arg : args) count += (arg.flags & kLengths) != 0 ? 1 : 0;
  return count;
}

std::string_view name_of(Dtypes dtypes) {
  constexpr std::array<std::string_view, 10> kNames = {"any", "as x", "float", "cached", "f32",
                                                       "i32", "i64",  "u8",    "u32",    "bool"};
  return kNames.at(static_cast<std::size_t>(dtypes));
}

std::span<const OpSpec> op_table() { return kTable; }

const OpSpec& op_spec(std::uint32_t id) {
  if (is_program_op(id) && id < kProgramOpLimit) return program_op_table()[id - kFirstProgramOp];
  for (const auto& op : kTable) {
    if (op.id == id) return op;
  }
  throw std::out_of_range("no op has the id " + std::to_string(id));
}

const OpSpec* find_op(std::string_view name) {
  for (const auto& op : kTable) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace tern::ops
