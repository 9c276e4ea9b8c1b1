/* Generated from ops/table.cpp by script/generate: do not edit.
 * What tern/accel_ops.h says of each op's arguments in comments, as a table: for the checks that every backend makes
 * (tern/plugin.h). C11 and C++; a source pays for the table only if it reads it. */
/* clang-format off */
#ifndef TERN_ACCEL_SIGNATURES_H
#define TERN_ACCEL_SIGNATURES_H

#include <stdint.h>

#include "tern/accel.h"
#include "tern/accel_ops.h"

enum { /* tern_arg_signature.role */
  TERN_ROLE_INPUT = 0,
  TERN_ROLE_OUTPUT = 1, /* written; added to if the desc's `accumulate` bit is set */
  TERN_ROLE_STATE = 2   /* read and written in place */
};

enum { /* tern_arg_signature.flags */
  TERN_ARG_OPTIONAL = 1u << 0,   /* may be absent: rank 0 */
  TERN_ARG_LENGTHS = 1u << 1,    /* also in host_args */
  TERN_ARG_ACCUMULATE = 1u << 2, /* may be asked to accumulate */
  TERN_ARG_QUANTISED = 1u << 3,  /* may have a packing */
  TERN_ARG_PACKABLE = 1u << 4    /* may have a private layout */
};

enum { /* tern_arg_signature.dtypes: bit per tern_dtype */
  TERN_DTYPES_ANY = (1u << TERN_DTYPE_COUNT) - 1u,
  TERN_DTYPES_FLOAT = 1u << TERN_F32 | 1u << TERN_F16 | 1u << TERN_BF16,
  TERN_DTYPES_CACHED = TERN_DTYPES_FLOAT | 1u << TERN_I8 | 1u << TERN_F8_E4M3
};

typedef struct tern_arg_signature {
  const char* name;
  uint32_t dtypes;
  uint8_t role;
  uint8_t flags;
  int8_t dtype_as; /* its dtype is that of the argument with this number; -1: of none */
} tern_arg_signature;

typedef struct tern_op_signature {
  uint32_t op; /* TERN_OP_* */
  uint32_t num_args;
  uint32_t attrs_size; /* bytes of tern_<op>_attrs; 0: there are none */
  const char* name;
  const tern_arg_signature* args; /* in the order of tern_op_desc.args */
} tern_op_signature;

static const tern_arg_signature tern_cast_copy_args[] = {
    {"x", TERN_DTYPES_ANY, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_ANY, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_gather_rows_args[] = {
    {"x", TERN_DTYPES_ANY, TERN_ROLE_INPUT, 0, -1},
    {"index", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_ANY, TERN_ROLE_OUTPUT, 0, 0},
};
static const tern_arg_signature tern_scatter_add_rows_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"index", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_axpby_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_mul_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_row_sum_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_scale_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"factor", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_dropout_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"keys", 1u << TERN_I64, TERN_ROLE_INPUT, 0, -1},
    {"mask", 1u << TERN_U8, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_sum_squares_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"out", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_all_finite_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"out", 1u << TERN_I32, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_matmul_args[] = {
    {"a", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"b", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_PACKABLE, -1},
    {"bias", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_matmul_q_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"w", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_QUANTISED | TERN_ARG_PACKABLE, -1},
    {"bias", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_dequantize_args[] = {
    {"w", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_QUANTISED, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_embedding_args[] = {
    {"table", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_QUANTISED, -1},
    {"ids", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_rms_norm_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"residual", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"sum", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"rstd", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_rms_norm_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"rstd", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"dsum", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dweight", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_rope_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"positions", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"cos", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"sin", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_qk_norm_rope_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"positions", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"cos", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"sin", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"rstd", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_qk_norm_rope_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"rstd", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"positions", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"cos", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"sin", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dweight", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_act_mul_args[] = {
    {"gate", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"up", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_act_mul_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"gate", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"up", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"dgate", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dup", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_attention_args[] = {
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"v", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens_q", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"cu_seqlens_k", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"sinks", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"mask", 1u << TERN_BOOL, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_attention_backward_args[] = {
    {"dout", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"v", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens_q", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"cu_seqlens_k", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"sinks", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"mask", 1u << TERN_BOOL, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"dq", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dk", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dv", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dsinks", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_kv_write_args[] = {
    {"k", TERN_DTYPES_ANY, TERN_ROLE_INPUT, 0, -1},
    {"v", TERN_DTYPES_ANY, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"slots", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"k_cache", TERN_DTYPES_ANY, TERN_ROLE_STATE, 0, -1},
    {"v_cache", TERN_DTYPES_ANY, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"k_scale", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"v_scale", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_attention_paged_args[] = {
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k_cache", TERN_DTYPES_CACHED, TERN_ROLE_INPUT, 0, -1},
    {"v_cache", TERN_DTYPES_CACHED, TERN_ROLE_INPUT, 0, -1},
    {"block_table", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens_q", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"kv_lens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"sinks", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"mask", 1u << TERN_BOOL, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"k_scale", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"v_scale", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_linear_cross_entropy_args[] = {
    {"h", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"w", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_QUANTISED | TERN_ARG_PACKABLE, -1},
    {"targets", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"weights", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"loss", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
    {"row_max", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"row_sum", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"row_target", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"dh", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"dw", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_adamw_args[] = {
    {"param", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"m", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"v", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"grad", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"hyper", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"copy", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_sample_args[] = {
    {"logits", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"temperature", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"top_k", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"top_p", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"min_p", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"repetition", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"presence", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"frequency", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"history", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"history_len", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"output_begin", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"bias_ids", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"bias", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"mask", 1u << TERN_U32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"uniform", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"ids", 1u << TERN_I32, TERN_ROLE_OUTPUT, 0, -1},
    {"logprob", 1u << TERN_F32, TERN_ROLE_OUTPUT, 0, -1},
    {"top_ids", 1u << TERN_I32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"top_logprobs", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"history_table", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_softcap_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_sink_scale_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"sinks", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"lse_out", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_sink_scale_backward_args[] = {
    {"dout", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"sinks", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"dsinks", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_fill_args[] = {
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_shard_index_args[] = {
    {"ids", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", 1u << TERN_I32, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_merge_lse_args[] = {
    {"row_max", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"row_sum", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"lse", 1u << TERN_F32, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_moe_route_args[] = {
    {"logits", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"bias", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"weights", 1u << TERN_F32, TERN_ROLE_OUTPUT, 0, -1},
    {"experts", 1u << TERN_I32, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_moe_route_backward_args[] = {
    {"dweights", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"logits", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"experts", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"dlogits", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_moe_permute_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"experts", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_ANY, TERN_ROLE_OUTPUT, 0, 0},
    {"places", 1u << TERN_I32, TERN_ROLE_OUTPUT, 0, -1},
    {"offsets", 1u << TERN_I32, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_moe_combine_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"places", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"weights", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_moe_combine_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"places", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"weights", 1u << TERN_F32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dweights", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_grouped_matmul_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"w", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_QUANTISED, -1},
    {"bias", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"offsets", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_grouped_matmul_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"offsets", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"dw", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
    {"dbias", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_act_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_act_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_causal_conv1d_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"bias", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"cu_seqlens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"kv_lens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"seats", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"state", TERN_DTYPES_FLOAT, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_causal_conv1d_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dweight", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
    {"dbias", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_gated_delta_rule_args[] = {
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"v", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"decay", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"beta", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"kv_lens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"seats", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"state", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_gated_delta_rule_backward_args[] = {
    {"dout", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"v", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"decay", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"beta", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"dq", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dk", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dv", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"ddecay", 1u << TERN_F32, TERN_ROLE_OUTPUT, 0, -1},
    {"dbeta", 1u << TERN_F32, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_layer_norm_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"residual", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"bias", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"sum", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"mean", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
    {"rstd", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL, -1},
};
static const tern_arg_signature tern_layer_norm_backward_args[] = {
    {"dy", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weight", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"mean", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"rstd", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"dsum", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dweight", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
    {"dbias", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_selective_scan_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"dt", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"a", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"b", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"c", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"d", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"cu_seqlens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"kv_lens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"seats", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"state", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"out", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_selective_scan_backward_args[] = {
    {"dout", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"dt", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"a", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"b", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"c", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"d", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"cu_seqlens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"ddt", 1u << TERN_F32, TERN_ROLE_OUTPUT, 0, -1},
    {"da", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
    {"db", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dc", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
    {"dd", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_index_topk_mask_args[] = {
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weights", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens_q", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"cu_seqlens_k", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"mask", 1u << TERN_BOOL, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_index_topk_mask_paged_args[] = {
    {"q", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"weights", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"k_cache", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"block_table", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"cu_seqlens_q", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"kv_lens", 1u << TERN_I32, TERN_ROLE_INPUT, TERN_ARG_LENGTHS, -1},
    {"mask", 1u << TERN_BOOL, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_sgd_args[] = {
    {"param", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"buf", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"grad", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"hyper", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
};
static const tern_arg_signature tern_lion_args[] = {
    {"param", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"m", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"grad", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"hyper", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
};
static const tern_arg_signature tern_adafactor_args[] = {
    {"param", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"row", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"col", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"v", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"m", 1u << TERN_F32, TERN_ROLE_STATE, TERN_ARG_OPTIONAL, -1},
    {"grad", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"hyper", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
};
static const tern_arg_signature tern_adamw_8bit_args[] = {
    {"param", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"m", 1u << TERN_U8, TERN_ROLE_STATE, 0, -1},
    {"v", 1u << TERN_U8, TERN_ROLE_STATE, 0, -1},
    {"m_max", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"v_max", 1u << TERN_F32, TERN_ROLE_STATE, 0, -1},
    {"grad", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"m_codes", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"v_codes", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
    {"hyper", 1u << TERN_F32, TERN_ROLE_INPUT, 0, -1},
};
static const tern_arg_signature tern_lora_shrink_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"a", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"keys", 1u << TERN_I64, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"mask", 1u << TERN_U8, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"h", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, 0, -1},
};
static const tern_arg_signature tern_lora_shrink_backward_args[] = {
    {"dh", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"a", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"keys", 1u << TERN_I64, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"mask", 1u << TERN_U8, TERN_ROLE_INPUT, TERN_ARG_OPTIONAL, -1},
    {"dx", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
    {"da", 1u << TERN_F32, TERN_ROLE_OUTPUT, TERN_ARG_OPTIONAL | TERN_ARG_ACCUMULATE, -1},
};
static const tern_arg_signature tern_lora_segmented_args[] = {
    {"x", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"a", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"b", TERN_DTYPES_FLOAT, TERN_ROLE_INPUT, 0, -1},
    {"slots", 1u << TERN_I32, TERN_ROLE_INPUT, 0, -1},
    {"y", TERN_DTYPES_FLOAT, TERN_ROLE_OUTPUT, TERN_ARG_ACCUMULATE, -1},
};

enum {
  TERN_OP_SIGNATURE_COUNT = 60,
  TERN_OP_MAX_ARGS = 20,
  TERN_OP_MAX_ATTRS = 8 /* of 4 bytes each */
};
static const tern_op_signature tern_op_signatures[TERN_OP_SIGNATURE_COUNT] = {
    {TERN_OP_CAST_COPY, TERN_CAST_COPY_NUM_ARGS, 0, "cast_copy", tern_cast_copy_args},
    {TERN_OP_GATHER_ROWS, TERN_GATHER_ROWS_NUM_ARGS, 0, "gather_rows", tern_gather_rows_args},
    {TERN_OP_SCATTER_ADD_ROWS, TERN_SCATTER_ADD_ROWS_NUM_ARGS, 0, "scatter_add_rows", tern_scatter_add_rows_args},
    {TERN_OP_AXPBY, TERN_AXPBY_NUM_ARGS, sizeof(tern_axpby_attrs), "axpby", tern_axpby_args},
    {TERN_OP_MUL, TERN_MUL_NUM_ARGS, 0, "mul", tern_mul_args},
    {TERN_OP_ROW_SUM, TERN_ROW_SUM_NUM_ARGS, sizeof(tern_row_sum_attrs), "row_sum", tern_row_sum_args},
    {TERN_OP_SCALE, TERN_SCALE_NUM_ARGS, 0, "scale", tern_scale_args},
    {TERN_OP_DROPOUT, TERN_DROPOUT_NUM_ARGS, sizeof(tern_dropout_attrs), "dropout", tern_dropout_args},
    {TERN_OP_SUM_SQUARES, TERN_SUM_SQUARES_NUM_ARGS, 0, "sum_squares", tern_sum_squares_args},
    {TERN_OP_ALL_FINITE, TERN_ALL_FINITE_NUM_ARGS, 0, "all_finite", tern_all_finite_args},
    {TERN_OP_MATMUL, TERN_MATMUL_NUM_ARGS, sizeof(tern_matmul_attrs), "matmul", tern_matmul_args},
    {TERN_OP_MATMUL_Q, TERN_MATMUL_Q_NUM_ARGS, sizeof(tern_matmul_q_attrs), "matmul_q", tern_matmul_q_args},
    {TERN_OP_DEQUANTIZE, TERN_DEQUANTIZE_NUM_ARGS, 0, "dequantize", tern_dequantize_args},
    {TERN_OP_EMBEDDING, TERN_EMBEDDING_NUM_ARGS, 0, "embedding", tern_embedding_args},
    {TERN_OP_RMS_NORM, TERN_RMS_NORM_NUM_ARGS, sizeof(tern_rms_norm_attrs), "rms_norm", tern_rms_norm_args},
    {TERN_OP_RMS_NORM_BACKWARD, TERN_RMS_NORM_BACKWARD_NUM_ARGS, sizeof(tern_rms_norm_backward_attrs), "rms_norm_backward", tern_rms_norm_backward_args},
    {TERN_OP_ROPE, TERN_ROPE_NUM_ARGS, sizeof(tern_rope_attrs), "rope", tern_rope_args},
    {TERN_OP_QK_NORM_ROPE, TERN_QK_NORM_ROPE_NUM_ARGS, sizeof(tern_qk_norm_rope_attrs), "qk_norm_rope", tern_qk_norm_rope_args},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, TERN_QK_NORM_ROPE_BACKWARD_NUM_ARGS, sizeof(tern_qk_norm_rope_backward_attrs), "qk_norm_rope_backward", tern_qk_norm_rope_backward_args},
    {TERN_OP_ACT_MUL, TERN_ACT_MUL_NUM_ARGS, sizeof(tern_act_mul_attrs), "act_mul", tern_act_mul_args},
    {TERN_OP_ACT_MUL_BACKWARD, TERN_ACT_MUL_BACKWARD_NUM_ARGS, sizeof(tern_act_mul_backward_attrs), "act_mul_backward", tern_act_mul_backward_args},
    {TERN_OP_ATTENTION, TERN_ATTENTION_NUM_ARGS, sizeof(tern_attention_attrs), "attention", tern_attention_args},
    {TERN_OP_ATTENTION_BACKWARD, TERN_ATTENTION_BACKWARD_NUM_ARGS, sizeof(tern_attention_backward_attrs), "attention_backward", tern_attention_backward_args},
    {TERN_OP_KV_WRITE, TERN_KV_WRITE_NUM_ARGS, 0, "kv_write", tern_kv_write_args},
    {TERN_OP_ATTENTION_PAGED, TERN_ATTENTION_PAGED_NUM_ARGS, sizeof(tern_attention_paged_attrs), "attention_paged", tern_attention_paged_args},
    {TERN_OP_LINEAR_CROSS_ENTROPY, TERN_LINEAR_CROSS_ENTROPY_NUM_ARGS, sizeof(tern_linear_cross_entropy_attrs), "linear_cross_entropy", tern_linear_cross_entropy_args},
    {TERN_OP_ADAMW, TERN_ADAMW_NUM_ARGS, 0, "adamw", tern_adamw_args},
    {TERN_OP_SAMPLE, TERN_SAMPLE_NUM_ARGS, 0, "sample", tern_sample_args},
    {TERN_OP_SOFTCAP, TERN_SOFTCAP_NUM_ARGS, sizeof(tern_softcap_attrs), "softcap", tern_softcap_args},
    {TERN_OP_SINK_SCALE, TERN_SINK_SCALE_NUM_ARGS, 0, "sink_scale", tern_sink_scale_args},
    {TERN_OP_SINK_SCALE_BACKWARD, TERN_SINK_SCALE_BACKWARD_NUM_ARGS, 0, "sink_scale_backward", tern_sink_scale_backward_args},
    {TERN_OP_FILL, TERN_FILL_NUM_ARGS, sizeof(tern_fill_attrs), "fill", tern_fill_args},
    {TERN_OP_SHARD_INDEX, TERN_SHARD_INDEX_NUM_ARGS, sizeof(tern_shard_index_attrs), "shard_index", tern_shard_index_args},
    {TERN_OP_MERGE_LSE, TERN_MERGE_LSE_NUM_ARGS, 0, "merge_lse", tern_merge_lse_args},
    {TERN_OP_MOE_ROUTE, TERN_MOE_ROUTE_NUM_ARGS, sizeof(tern_moe_route_attrs), "moe_route", tern_moe_route_args},
    {TERN_OP_MOE_ROUTE_BACKWARD, TERN_MOE_ROUTE_BACKWARD_NUM_ARGS, sizeof(tern_moe_route_backward_attrs), "moe_route_backward", tern_moe_route_backward_args},
    {TERN_OP_MOE_PERMUTE, TERN_MOE_PERMUTE_NUM_ARGS, 0, "moe_permute", tern_moe_permute_args},
    {TERN_OP_MOE_COMBINE, TERN_MOE_COMBINE_NUM_ARGS, 0, "moe_combine", tern_moe_combine_args},
    {TERN_OP_MOE_COMBINE_BACKWARD, TERN_MOE_COMBINE_BACKWARD_NUM_ARGS, 0, "moe_combine_backward", tern_moe_combine_backward_args},
    {TERN_OP_GROUPED_MATMUL, TERN_GROUPED_MATMUL_NUM_ARGS, sizeof(tern_grouped_matmul_attrs), "grouped_matmul", tern_grouped_matmul_args},
    {TERN_OP_GROUPED_MATMUL_BACKWARD, TERN_GROUPED_MATMUL_BACKWARD_NUM_ARGS, sizeof(tern_grouped_matmul_backward_attrs), "grouped_matmul_backward", tern_grouped_matmul_backward_args},
    {TERN_OP_ACT, TERN_ACT_NUM_ARGS, sizeof(tern_act_attrs), "act", tern_act_args},
    {TERN_OP_ACT_BACKWARD, TERN_ACT_BACKWARD_NUM_ARGS, sizeof(tern_act_backward_attrs), "act_backward", tern_act_backward_args},
    {TERN_OP_CAUSAL_CONV1D, TERN_CAUSAL_CONV1D_NUM_ARGS, sizeof(tern_causal_conv1d_attrs), "causal_conv1d", tern_causal_conv1d_args},
    {TERN_OP_CAUSAL_CONV1D_BACKWARD, TERN_CAUSAL_CONV1D_BACKWARD_NUM_ARGS, sizeof(tern_causal_conv1d_backward_attrs), "causal_conv1d_backward", tern_causal_conv1d_backward_args},
    {TERN_OP_GATED_DELTA_RULE, TERN_GATED_DELTA_RULE_NUM_ARGS, sizeof(tern_gated_delta_rule_attrs), "gated_delta_rule", tern_gated_delta_rule_args},
    {TERN_OP_GATED_DELTA_RULE_BACKWARD, TERN_GATED_DELTA_RULE_BACKWARD_NUM_ARGS, sizeof(tern_gated_delta_rule_backward_attrs), "gated_delta_rule_backward", tern_gated_delta_rule_backward_args},
    {TERN_OP_LAYER_NORM, TERN_LAYER_NORM_NUM_ARGS, sizeof(tern_layer_norm_attrs), "layer_norm", tern_layer_norm_args},
    {TERN_OP_LAYER_NORM_BACKWARD, TERN_LAYER_NORM_BACKWARD_NUM_ARGS, 0, "layer_norm_backward", tern_layer_norm_backward_args},
    {TERN_OP_SELECTIVE_SCAN, TERN_SELECTIVE_SCAN_NUM_ARGS, sizeof(tern_selective_scan_attrs), "selective_scan", tern_selective_scan_args},
    {TERN_OP_SELECTIVE_SCAN_BACKWARD, TERN_SELECTIVE_SCAN_BACKWARD_NUM_ARGS, sizeof(tern_selective_scan_backward_attrs), "selective_scan_backward", tern_selective_scan_backward_args},
    {TERN_OP_INDEX_TOPK_MASK, TERN_INDEX_TOPK_MASK_NUM_ARGS, sizeof(tern_index_topk_mask_attrs), "index_topk_mask", tern_index_topk_mask_args},
    {TERN_OP_INDEX_TOPK_MASK_PAGED, TERN_INDEX_TOPK_MASK_PAGED_NUM_ARGS, sizeof(tern_index_topk_mask_paged_attrs), "index_topk_mask_paged", tern_index_topk_mask_paged_args},
    {TERN_OP_SGD, TERN_SGD_NUM_ARGS, 0, "sgd", tern_sgd_args},
    {TERN_OP_LION, TERN_LION_NUM_ARGS, 0, "lion", tern_lion_args},
    {TERN_OP_ADAFACTOR, TERN_ADAFACTOR_NUM_ARGS, 0, "adafactor", tern_adafactor_args},
    {TERN_OP_ADAMW_8BIT, TERN_ADAMW_8BIT_NUM_ARGS, 0, "adamw_8bit", tern_adamw_8bit_args},
    {TERN_OP_LORA_SHRINK, TERN_LORA_SHRINK_NUM_ARGS, sizeof(tern_lora_shrink_attrs), "lora_shrink", tern_lora_shrink_args},
    {TERN_OP_LORA_SHRINK_BACKWARD, TERN_LORA_SHRINK_BACKWARD_NUM_ARGS, sizeof(tern_lora_shrink_backward_attrs), "lora_shrink_backward", tern_lora_shrink_backward_args},
    {TERN_OP_LORA_SEGMENTED, TERN_LORA_SEGMENTED_NUM_ARGS, 0, "lora_segmented", tern_lora_segmented_args},
};

#endif
