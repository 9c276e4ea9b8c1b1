// Rows of the op table (ops/table.cpp): arguments and attributes of what moves and computes elements, of products and
// of tables of weights.
#pragma once

#include "ops/table.h"

namespace tern::ops::rows {

using enum Role;
using enum Dtypes;
inline constexpr auto F = AttrType::f32;
inline constexpr auto I = AttrType::i32;

inline constexpr ArgSpec kCastCopy[] = {{"x", input, "[...]", any}, {"y", output, "[...]", any, kAccumulate}};

inline constexpr ArgSpec kGatherRows[] = {
    {"x", input, "[n, ...]", any}, {"index", input, "[rows]", i32}, {"y", output, "[rows, ...]", as_x}};

inline constexpr ArgSpec kScatterAddRows[] = {{"x", input, "[rows, width]", floating},
                                              {"index", input, "[rows]", i32},
                                              {"y", output, "[n, width]", floating, kAccumulate}};

inline constexpr ArgSpec kAxpby[] = {{"x", input, "[...]", floating},
                                     {"y", input, "[...]", floating, kOptional},
                                     {"out", output, "[...]", floating, kAccumulate}};
inline constexpr AttrSpec kAxpbyAttrs[] = {{"a", F, "factor of x"}, {"b", F, "factor of y"}};

inline constexpr ArgSpec kMul[] = {{"x", input, "[...]", floating},
                                   {"y", input, "[...] (stride 0 broadcasts)", floating},
                                   {"out", output, "[...]", floating, kAccumulate}};

inline constexpr ArgSpec kRowSum[] = {
    {"x", input, "[rows, width]", floating},
    {"out", output, Shape::checked_by_op("axis 1: [rows]; axis 0: [width]"), floating, kAccumulate}};
inline constexpr AttrSpec kRowSumAttrs[] = {{"axis", I, "the dimension summed away: 0 or 1"}};

inline constexpr ArgSpec kScale[] = {
    {"x", input, "[...]", floating}, {"factor", input, "[1]", f32}, {"y", output, "[...]", floating, kAccumulate}};

inline constexpr ArgSpec kDropout[] = {{"x", input, "[rows, width]", floating},
                                       {"keys", input, "[rows]", i64},
                                       {"mask", input, "[rows, width], 1 keeps", u8, kOptional},
                                       {"y", output, "[rows, width]", floating, kAccumulate}};
inline constexpr AttrSpec kDropoutAttrs[] = {{"rate", F, "share dropped, in [0, 1)"},
                                             {"site", I, "which dropout of the model: word 1 of the Philox counter"}};

inline constexpr ArgSpec kSumSquares[] = {{"x", input, "[...]", floating}, {"out", output, "[1]", f32, kAccumulate}};
inline constexpr ArgSpec kAllFinite[] = {{"x", input, "[...]", floating}, {"out", output, "[1]", i32, kAccumulate}};

inline constexpr ArgSpec kFill[] = {{"y", output, "[...]", floating}};
inline constexpr AttrSpec kFillAttrs[] = {{"value", F, "what every element becomes"}};

inline constexpr ArgSpec kMatmul[] = {
    {"a", input, Shape::checked_by_op("[m, k] or [k, m] if transpose_a; batched: [batch, ...]"), floating},
    {"b", input, Shape::checked_by_op("[k, n] or [n, k] if transpose_b; batched: [batch, ...]"), floating, kPackable},
    {"bias", input, "[n]", floating, kOptional},
    {"out", output, Shape::checked_by_op("[m, n]; batched: [batch, m, n]"), floating, kAccumulate}};
inline constexpr AttrSpec kMatmulAttrs[] = {
    {"transpose_a", I, "0 or 1"},
    {"transpose_b", I, "0 or 1; 1 is a Hugging Face weight [out, in]"},
    {"compute", I, "tern_compute that a and b are rounded to before the product: f32, bf16 or f16"},
    {"alpha", F, "times the product"}};

inline constexpr ArgSpec kMatmulQ[] = {
    {"x", input, Shape::checked_by_op("[rows, in]; [rows, out] if not transpose_w"), floating},
    {"w", input, "[out, in]", floating, kQuantised | kPackable},
    {"bias", input, Shape::checked_by_op("[out]; absent if not transpose_w"), floating, kOptional},
    {"y", output, Shape::checked_by_op("[rows, out]; [rows, in] if not transpose_w"), floating, kAccumulate}};
inline constexpr AttrSpec kMatmulQAttrs[] = {
    {"transpose_w", I, "1: y = x w^T (forward); 0: y = x w (gradient of the input)"},
    {"compute", I, "tern_compute that x and the expanded w are rounded to before the product: f32, bf16, f16, x15 or int8"}};

inline constexpr ArgSpec kDequantize[] = {{"w", input, "[out, in]", floating, kQuantised},
                                          {"y", output, "[out, in]", floating}};

inline constexpr ArgSpec kEmbedding[] = {{"table", input, "[vocab, width]", floating, kQuantised},
                                         {"ids", input, "[rows]", i32},
                                         {"y", output, "[rows, width]", floating}};

}  // namespace tern::ops::rows
