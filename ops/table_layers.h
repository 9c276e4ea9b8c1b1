// Rows of the op table (ops/table.cpp): arguments and attributes of norms, rotations, activations, and of attention
// with its caches.
#pragma once

#include "ops/table_elements.h"

namespace tern::ops::rows {

inline constexpr ArgSpec kRmsNorm[] = {{"x", input, "[rows, width]", floating},
                                       {"residual", input, "[rows, width]", floating, kOptional},
                                       {"weight", input, "[width]", floating},
                                       {"y", output, "[rows, width]", floating},
                                       {"sum", output, "[rows, width]; present iff residual is", floating, kOptional},
                                       {"rstd", output, "[rows]", f32, kOptional}};
inline constexpr AttrSpec kRmsNormAttrs[] = {{"eps", F, "added to the mean square"},
                                             {"weight_offset", F, "added to the weight (Gemma: 1)"}};

inline constexpr ArgSpec kRmsNormBackward[] = {{"dy", input, "[rows, width]", floating},
                                               {"x", input, "[rows, width]: what was normalised", floating},
                                               {"weight", input, "[width]", floating},
                                               {"rstd", input, "[rows]", f32},
                                               {"dsum", input, "[rows, width]: added to dx", floating, kOptional},
                                               {"dx", output, "[rows, width]", floating},
                                               {"dweight", output, "[width]", f32, kOptional | kAccumulate}};
inline constexpr AttrSpec kRmsNormBackwardAttrs[] = {{"weight_offset", F, "as forward"}};

inline constexpr ArgSpec kLoraShrink[] = {{"x", input, "[rows, in]", floating},
                                          {"a", input, "[rank, in]", floating},
                                          {"keys", input, "[rows]; absent: nothing is dropped", i64, kOptional},
                                          {"mask", input, "[rows, in], 1 keeps", u8, kOptional},
                                          {"h", output, "[rows, rank]", floating}};
inline constexpr AttrSpec kLoraShrinkAttrs[] = {{"rate", F, "share dropped, in [0, 1); 0 without keys"},
                                                {"site", I, "which dropout of the model, as in dropout"},
                                                {"alpha", F, "factor of the product"}};

inline constexpr ArgSpec kLoraShrinkBackward[] = {{"dh", input, "[rows, rank]", floating},
                                                  {"x", input, "[rows, in]", floating},
                                                  {"a", input, "[rank, in]", floating},
                                                  {"keys", input, "[rows]; absent: nothing is dropped", i64, kOptional},
                                                  {"mask", input, "[rows, in], 1 keeps", u8, kOptional},
                                                  {"dx", output, "[rows, in]", floating, kOptional | kAccumulate},
                                                  {"da", output, "[rank, in]", f32, kOptional | kAccumulate}};
inline constexpr AttrSpec kLoraShrinkBackwardAttrs[] = {
    {"rate", F, "as forward"}, {"site", I, "as forward"}, {"alpha", F, "as forward"}};

inline constexpr ArgSpec kLoraSegmented[] = {{"x", input, "[rows, in]", floating},
                                             {"a", input, "[num_slots, rank, in]", floating},
                                             {"b", input, "[num_slots, out, rank]", floating},
                                             {"slots", input, "[rows]; num_slots: no adapter", i32},
                                             {"y", output, "[rows, out]", floating, kAccumulate}};

inline constexpr ArgSpec kRope[] = {{"x", input, "[rows, heads, head_dim]", floating},
                                    {"positions", input, "[rows]", i32},
                                    {"cos", input, "[positions, rotary / 2]", f32},
                                    {"sin", input, "[positions, rotary / 2]", f32},
                                    {"y", output, "[rows, heads, head_dim]", floating, kAccumulate}};
inline constexpr AttrSpec kRopeAttrs[] = {{"interleaved", I, "0: pairs (i, i + rotary/2); 1: pairs (2i, 2i + 1)"},
                                          {"inverse", I, "1: rotate back, which is the gradient"}};

inline constexpr ArgSpec kQkNormRope[] = {
    {"x", input, "[rows, heads, head_dim]", floating},
    {"weight", input, "[head_dim]; absent: 0", floating, kOptional, 1},
    {"positions", input, "[rows]; absent: nothing turns", i32, kOptional, 1},
    {"cos", input, "[positions, rotary / 2]; present iff positions are", f32, kOptional, 1},
    {"sin", input, "[positions, rotary / 2]; present iff positions are", f32, kOptional, 1},
    {"y", output, "[rows, heads, head_dim]", floating},
    {"rstd", output, "[rows, heads]", f32, kOptional}};
inline constexpr AttrSpec kQkNormRopeAttrs[] = {
    {"eps", F, "added to the mean square"}, {"weight_offset", F, "added to the weight"}, {"interleaved", I, "as rope"}};

inline constexpr ArgSpec kQkNormRopeBackward[] = {
    {"dy", input, "[rows, heads, head_dim]", floating},
    {"x", input, "[rows, heads, head_dim]", floating},
    {"weight", input, "[head_dim]; absent: 0", floating, kOptional, 1},
    {"rstd", input, "[rows, heads]", f32},
    {"positions", input, "[rows]; absent: nothing turned", i32, kOptional, 1},
    {"cos", input, "[positions, rotary / 2]; present iff positions are", f32, kOptional, 1},
    {"sin", input, "[positions, rotary / 2]; present iff positions are", f32, kOptional, 1},
    {"dx", output, "[rows, heads, head_dim]", floating},
    {"dweight", output, "[head_dim]", f32, kOptional | kAccumulate}};
inline constexpr AttrSpec kQkNormRopeBackwardAttrs[] = {{"weight_offset", F, "as forward"},
                                                        {"interleaved", I, "as forward"}};

inline constexpr ArgSpec kActMul[] = {{"gate", input, "[rows, width]", floating},
                                      {"up", input, "[rows, width]", floating},
                                      {"y", output, "[rows, width]", floating}};
inline constexpr AttrSpec kActMulAttrs[] = {{"kind", I, "tern_act: silu, gelu_tanh, gelu_erf, sigmoid, quick_gelu"},
                                            {"limit", F, "0: none; else of gate the largest, of up the largest size"},
                                            {"up_offset", F, "added to up"}};

inline constexpr ArgSpec kActMulBackward[] = {{"dy", input, "[rows, width]", floating},
                                              {"gate", input, "[rows, width]", floating},
                                              {"up", input, "[rows, width]", floating},
                                              {"dgate", output, "[rows, width]", floating},
                                              {"dup", output, "[rows, width]", floating}};

inline constexpr ArgSpec kAttention[] = {
    {"q", input, "[q_rows, heads, head_dim]", floating},
    {"k", input, "[k_rows, kv_heads, head_dim]", floating},
    {"v", input, "[k_rows, kv_heads, value_dim]", floating},
    {"cu_seqlens_q", input, "[sequences + 1]", i32, kLengths},
    {"cu_seqlens_k", input, "[sequences + 1]", i32, kLengths},
    {"sinks", input, "[heads]", f32, kOptional},
    {"mask", input, "[q_rows, mask_keys]: 1 shows row i key j of its sequence", boolean, kOptional},
    {"out", output, "[q_rows, heads, value_dim]", floating},
    {"lse", output, "[q_rows, heads]", f32, kOptional}};
inline constexpr AttrSpec kAttentionAttrs[] = {
    {"scale", F, "factor of q k^T"},
    {"softcap", F, "0: none; else s = softcap * tanh(s / softcap)"},
    {"causal", I, "1: row i of a sequence sees keys up to i + len_k - len_q"},
    {"window", I, "0: none; else only keys j > p - window, p = i + len_k - len_q"},
    {"max_seqlen_q", I, "no sequence has more query rows; 1: decoding"},
    {"max_seqlen_k", I, "no sequence has more keys"},
    {"window_right", I, "0: none; else only keys j < p + window_right; not causal"},
    {"chunk", I, "0: none; else only keys j with j / chunk = p / chunk"}};

inline constexpr ArgSpec kAttentionBackward[] = {
    {"dout", input, "[q_rows, heads, value_dim]", floating},
    {"q", input, "[q_rows, heads, head_dim]", floating},
    {"k", input, "[k_rows, kv_heads, head_dim]", floating},
    {"v", input, "[k_rows, kv_heads, value_dim]", floating},
    {"out", input, "[q_rows, heads, value_dim]", floating},
    {"lse", input, "[q_rows, heads]", f32},
    {"cu_seqlens_q", input, "[sequences + 1]", i32, kLengths},
    {"cu_seqlens_k", input, "[sequences + 1]", i32, kLengths},
    {"sinks", input, "[heads]", f32, kOptional},
    {"mask", input, "[q_rows, mask_keys]: 1 shows row i key j of its sequence", boolean, kOptional},
    {"dq", output, "[q_rows, heads, head_dim]", floating},
    {"dk", output, "[k_rows, kv_heads, head_dim]", floating},
    {"dv", output, "[k_rows, kv_heads, value_dim]", floating},
    {"dsinks", output, "[heads]", f32, kOptional | kAccumulate}};

inline constexpr ArgSpec kKvWrite[] = {
    {"k", input, "[rows, kv_heads, head_dim]", any},
    {"v", input, "[rows, kv_heads, value_dim]", any, kOptional},
    {"slots", input, "[rows]: block * block_size + offset; padding: in block 0", i32},
    {"k_cache", state, "[blocks, block_size, kv_heads, head_dim]", any},
    {"v_cache", state, "[blocks, block_size, kv_heads, value_dim]; present iff v is", any, kOptional},
    {"k_scale", state, "[blocks, block_size, kv_heads]; present iff floats are kept in 8 bits", f32, kOptional},
    {"v_scale", state, "[blocks, block_size, kv_heads]; present iff k_scale and v are", f32, kOptional}};

inline constexpr ArgSpec kAttentionPaged[] = {
    {"q", input, "[q_rows, heads, head_dim]", floating},
    {"k_cache", input, "[blocks, block_size, kv_heads, head_dim]", cached},
    {"v_cache", input, "[blocks, block_size, kv_heads, value_dim]", cached},
    {"block_table", input, "[sequences, max_blocks]: unused entries name any block", i32},
    {"cu_seqlens_q", input, "[sequences + 1]", i32, kLengths},
    {"kv_lens", input, "[sequences], this step's rows included", i32, kLengths},
    {"sinks", input, "[heads]", f32, kOptional},
    {"mask", input, "[q_rows, mask_keys]: 1 shows row i key j of its sequence", boolean, kOptional},
    {"out", output, "[q_rows, heads, value_dim]", floating},
    {"lse", output, "[q_rows, heads]", f32, kOptional},
    {"k_scale", input, "[blocks, block_size, kv_heads]; present iff the caches are i8 or f8_e4m3", f32, kOptional},
    {"v_scale", input, "[blocks, block_size, kv_heads]; present iff k_scale is", f32, kOptional}};

inline constexpr ArgSpec kIndexTopkMask[] = {
    {"q", input, "[q_rows, index_heads, index_dim]", floating},
    {"weights", input, "[q_rows, index_heads]", floating},
    {"k", input, "[k_rows, index_dim]", floating},
    {"cu_seqlens_q", input, "[sequences + 1]", i32, kLengths},
    {"cu_seqlens_k", input, "[sequences + 1]", i32, kLengths},
    {"mask", output, "[q_rows, mask_keys]: 1 shows row i key j of its sequence", boolean}};
inline constexpr AttrSpec kIndexTopkMaskAttrs[] = {{"topk", I, "how many of the visible keys a row is shown at most"},
                                                   {"max_seqlen_q", I, "no sequence has more query rows; 1: decoding"},
                                                   {"max_seqlen_k", I, "no sequence has more keys"}};

inline constexpr ArgSpec kIndexTopkMaskPaged[] = {
    {"q", input, "[q_rows, index_heads, index_dim]", floating},
    {"weights", input, "[q_rows, index_heads]", floating},
    {"k_cache", input, "[blocks, block_size, 1, index_dim]", floating},
    {"block_table", input, "[sequences, max_blocks]: unused entries name any block", i32},
    {"cu_seqlens_q", input, "[sequences + 1]", i32, kLengths},
    {"kv_lens", input, "[sequences], this step's rows included", i32, kLengths},
    {"mask", output, "[q_rows, mask_keys]: 1 shows row i key j of its sequence", boolean}};

}  // namespace tern::ops::rows
