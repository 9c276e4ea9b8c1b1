// Rows of the op table (ops/table.cpp): arguments of the optimizers.
#pragma once

#include "ops/table_elements.h"

namespace tern::ops::rows {

inline constexpr ArgSpec kAdamw[] = {
    {"param", state, "[...]", f32},
    {"m", state, "[...]", f32},
    {"v", state, "[...]", f32},
    {"grad", input, "[...]", floating},
    {"hyper", input,
     "[10]: lr, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, weight_decay, 1 - beta1^t, 1 - beta2^t, "
     "grad_scale",
     f32},
    {"copy", output, "[...]: param in its storage dtype", floating, kOptional}};

inline constexpr ArgSpec kSgd[] = {
    {"param", state, "[...]", f32},
    {"buf", state, "[...]: absent: no momentum", f32, kOptional},
    {"grad", input, "[...]", floating},
    {"hyper", input, "[8]: lr, keep, momentum, rest, decay, take_grad, take_buf, grad_scale", f32}};

inline constexpr ArgSpec kLion[] = {
    {"param", state, "[...]", f32},
    {"m", state, "[...]", f32},
    {"grad", input, "[...]", floating},
    {"hyper", input, "[7]: lr, keep, beta1, one_minus_beta1, beta2, one_minus_beta2, grad_scale", f32}};

inline constexpr ArgSpec kAdafactor[] = {
    {"param", state, "[...]", f32},
    {"row", state, Shape::checked_by_op("of a matrix [rows]; of a stack of them [matrices, rows]"), f32, kOptional},
    {"col", state, Shape::checked_by_op("of a matrix [columns]; of a stack of them [matrices, columns]"), f32, kOptional},
    {"v", state, Shape::checked_by_op("[...]: as param, where there is no row"), f32, kOptional},
    {"m", state, "[...]: absent: no momentum", f32, kOptional},
    {"grad", input, "[...]", floating},
    {"hyper", input,
     "[11]: lr, beta2, rest2, eps1, eps2, clip, beta1, rest1, weight_decay, scale_parameter, grad_scale", f32}};

inline constexpr ArgSpec kAdamw8bit[] = {
    {"param", state, "[...]", f32},
    {"m", state, "[...]", u8},
    {"v", state, "[...]", u8},
    {"m_max", state, "[blocks]: of each 256 elements", f32},
    {"v_max", state, "[blocks]", f32},
    {"grad", input, "[...]", floating},
    {"m_codes", input, "[256], rising", f32},
    {"v_codes", input, "[256], rising", f32},
    {"hyper", input, "[10]: as of adamw", f32}};

}  // namespace tern::ops::rows
