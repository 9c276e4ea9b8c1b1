/* Generated from ops/table.cpp by script/generate: do not edit.
 * Shapes are row-major, the last dimension first in memory unless strides say otherwise. Matrix products
 * accumulate in fp32; norms, softmax and losses compute in fp32; reductions have a fixed order. */
#ifndef TERN_ACCEL_OPS_H
#define TERN_ACCEL_OPS_H

#include <stdint.h>

typedef enum tern_act {
  TERN_ACT_SILU = 0,
  TERN_ACT_GELU_TANH = 1,
  TERN_ACT_GELU_ERF = 2,
  TERN_ACT_SIGMOID = 3,
  TERN_ACT_SOFTPLUS = 4, /* log(1 + exp(x)) */
  TERN_ACT_EXP = 5,
  TERN_ACT_QUICK_GELU = 6 /* x sigmoid(1.702 x) */
} tern_act;

/* cast_copy: y = x, rounded to nearest even in y's dtype (integers from floats: towards zero, saturating)
 *   in x [...] any
 *   out y [...] any, may accumulate
 */
enum {
  TERN_OP_CAST_COPY = 1,
  TERN_CAST_COPY_X = 0,
  TERN_CAST_COPY_Y = 1,
  TERN_CAST_COPY_NUM_ARGS = 2
};

/* gather_rows: y[r] = x[index[r]]; zeros where index[r] < 0
 *   in x [n, ...] any
 *   in index [rows] i32
 *   out y [rows, ...] as x
 */
enum {
  TERN_OP_GATHER_ROWS = 2,
  TERN_GATHER_ROWS_X = 0,
  TERN_GATHER_ROWS_INDEX = 1,
  TERN_GATHER_ROWS_Y = 2,
  TERN_GATHER_ROWS_NUM_ARGS = 3
};

/* scatter_add_rows: y[n] = sum over r with index[r] == n, in order of r, of x[r]; index < 0 is skipped
 *   in x [rows, width] float
 *   in index [rows] i32
 *   out y [n, width] float, may accumulate
 */
enum {
  TERN_OP_SCATTER_ADD_ROWS = 3,
  TERN_SCATTER_ADD_ROWS_X = 0,
  TERN_SCATTER_ADD_ROWS_INDEX = 1,
  TERN_SCATTER_ADD_ROWS_Y = 2,
  TERN_SCATTER_ADD_ROWS_NUM_ARGS = 3
};

/* axpby: out = a x + b y
 *   in x [...] float
 *   in y [...] float, optional
 *   out out [...] float, may accumulate
 */
enum {
  TERN_OP_AXPBY = 4,
  TERN_AXPBY_X = 0,
  TERN_AXPBY_Y = 1,
  TERN_AXPBY_OUT = 2,
  TERN_AXPBY_NUM_ARGS = 3
};
typedef struct tern_axpby_attrs {
  float a; /* factor of x */
  float b; /* factor of y */
} tern_axpby_attrs;

/* mul: out = x * y
 *   in x [...] float
 *   in y [...] (stride 0 broadcasts) float
 *   out out [...] float, may accumulate
 */
enum {
  TERN_OP_MUL = 5,
  TERN_MUL_X = 0,
  TERN_MUL_Y = 1,
  TERN_MUL_OUT = 2,
  TERN_MUL_NUM_ARGS = 3
};

/* row_sum: out = sum of x over one dimension
 *   in x [rows, width] float
 *   out out axis 1: [rows]; axis 0: [width] float, may accumulate
 */
enum {
  TERN_OP_ROW_SUM = 6,
  TERN_ROW_SUM_X = 0,
  TERN_ROW_SUM_OUT = 1,
  TERN_ROW_SUM_NUM_ARGS = 2
};
typedef struct tern_row_sum_attrs {
  int32_t axis; /* the dimension summed away: 0 or 1 */
} tern_row_sum_attrs;

/* scale: y = x * factor[0]
 *   in x [...] float
 *   in factor [1] f32
 *   out y [...] float, may accumulate
 */
enum {
  TERN_OP_SCALE = 7,
  TERN_SCALE_X = 0,
  TERN_SCALE_FACTOR = 1,
  TERN_SCALE_Y = 2,
  TERN_SCALE_NUM_ARGS = 3
};

/* dropout: y = keep ? x / (1 - rate) : 0; keep = mask if given, else uniform24(philox(key = keys[row], counter = {feature / 4, site, 0, 0})[feature % 4]) >= rate
 *   in x [rows, width] float
 *   in keys [rows] i64
 *   in mask [rows, width], 1 keeps u8, optional
 *   out y [rows, width] float, may accumulate
 */
enum {
  TERN_OP_DROPOUT = 8,
  TERN_DROPOUT_X = 0,
  TERN_DROPOUT_KEYS = 1,
  TERN_DROPOUT_MASK = 2,
  TERN_DROPOUT_Y = 3,
  TERN_DROPOUT_NUM_ARGS = 4
};
typedef struct tern_dropout_attrs {
  float rate; /* share dropped, in [0, 1) */
  int32_t site; /* which dropout of the model: word 1 of the Philox counter */
} tern_dropout_attrs;

/* sum_squares: out = sum of x^2
 *   in x [...] float
 *   out out [1] f32, may accumulate
 */
enum {
  TERN_OP_SUM_SQUARES = 9,
  TERN_SUM_SQUARES_X = 0,
  TERN_SUM_SQUARES_OUT = 1,
  TERN_SUM_SQUARES_NUM_ARGS = 2
};

/* all_finite: out = 1 if no x is NaN or infinite, else 0; accumulating: logical and with what it holds
 *   in x [...] float
 *   out out [1] i32, may accumulate
 */
enum {
  TERN_OP_ALL_FINITE = 10,
  TERN_ALL_FINITE_X = 0,
  TERN_ALL_FINITE_OUT = 1,
  TERN_ALL_FINITE_NUM_ARGS = 2
};

/* matmul: out = alpha op(a) op(b) + bias, accumulated in fp32
 *   in a [m, k] or [k, m] if transpose_a; batched: [batch, ...] float
 *   in b [k, n] or [n, k] if transpose_b; batched: [batch, ...] float, may have a private layout
 *   in bias [n] float, optional
 *   out out [m, n]; batched: [batch, m, n] float, may accumulate
 */
enum {
  TERN_OP_MATMUL = 11,
  TERN_MATMUL_A = 0,
  TERN_MATMUL_B = 1,
  TERN_MATMUL_BIAS = 2,
  TERN_MATMUL_OUT = 3,
  TERN_MATMUL_NUM_ARGS = 4
};
typedef struct tern_matmul_attrs {
  int32_t transpose_a; /* 0 or 1 */
  int32_t transpose_b; /* 0 or 1; 1 is a Hugging Face weight [out, in] */
  int32_t compute; /* tern_compute that a and b are rounded to before the product: f32, bf16 or f16 */
  float alpha; /* times the product */
} tern_matmul_attrs;

/* matmul_q: y = x w^T + bias or x w, w expanded from its planes, accumulated in fp32
 *   in x [rows, in]; [rows, out] if not transpose_w float
 *   in w [out, in] float, may be quantised, may have a private layout
 *   in bias [out]; absent if not transpose_w float, optional
 *   out y [rows, out]; [rows, in] if not transpose_w float, may accumulate
 */
enum {
  TERN_OP_MATMUL_Q = 12,
  TERN_MATMUL_Q_X = 0,
  TERN_MATMUL_Q_W = 1,
  TERN_MATMUL_Q_BIAS = 2,
  TERN_MATMUL_Q_Y = 3,
  TERN_MATMUL_Q_NUM_ARGS = 4
};
typedef struct tern_matmul_q_attrs {
  int32_t transpose_w; /* 1: y = x w^T (forward); 0: y = x w (gradient of the input) */
  int32_t compute; /* tern_compute that x and the expanded w are rounded to before the product: f32, bf16, f16, x15 or int8 */
} tern_matmul_q_attrs;

/* dequantize: y = w expanded
 *   in w [out, in] float, may be quantised
 *   out y [out, in] float
 */
enum {
  TERN_OP_DEQUANTIZE = 13,
  TERN_DEQUANTIZE_W = 0,
  TERN_DEQUANTIZE_Y = 1,
  TERN_DEQUANTIZE_NUM_ARGS = 2
};

/* embedding: y[r] = table[ids[r]]; zeros where ids[r] is -1
 *   in table [vocab, width] float, may be quantised
 *   in ids [rows] i32
 *   out y [rows, width] float
 */
enum {
  TERN_OP_EMBEDDING = 14,
  TERN_EMBEDDING_TABLE = 0,
  TERN_EMBEDDING_IDS = 1,
  TERN_EMBEDDING_Y = 2,
  TERN_EMBEDDING_NUM_ARGS = 3
};

/* rms_norm: s = x + residual (rounded to sum's dtype); rstd = 1 / sqrt(mean(s^2) + eps); y = s rstd (weight + weight_offset)
 *   in x [rows, width] float
 *   in residual [rows, width] float, optional
 *   in weight [width] float
 *   out y [rows, width] float
 *   out sum [rows, width]; present iff residual is float, optional
 *   out rstd [rows] f32, optional
 */
enum {
  TERN_OP_RMS_NORM = 15,
  TERN_RMS_NORM_X = 0,
  TERN_RMS_NORM_RESIDUAL = 1,
  TERN_RMS_NORM_WEIGHT = 2,
  TERN_RMS_NORM_Y = 3,
  TERN_RMS_NORM_SUM = 4,
  TERN_RMS_NORM_RSTD = 5,
  TERN_RMS_NORM_NUM_ARGS = 6
};
typedef struct tern_rms_norm_attrs {
  float eps; /* added to the mean square */
  float weight_offset; /* added to the weight (Gemma: 1) */
} tern_rms_norm_attrs;

/* rms_norm_backward: g = dy (weight + weight_offset); dx = dsum + rstd (g - x rstd^2 mean(g x)); dweight = sum over rows of dy x rstd
 *   in dy [rows, width] float
 *   in x [rows, width]: what was normalised float
 *   in weight [width] float
 *   in rstd [rows] f32
 *   in dsum [rows, width]: added to dx float, optional
 *   out dx [rows, width] float
 *   out dweight [width] f32, optional, may accumulate
 */
enum {
  TERN_OP_RMS_NORM_BACKWARD = 16,
  TERN_RMS_NORM_BACKWARD_DY = 0,
  TERN_RMS_NORM_BACKWARD_X = 1,
  TERN_RMS_NORM_BACKWARD_WEIGHT = 2,
  TERN_RMS_NORM_BACKWARD_RSTD = 3,
  TERN_RMS_NORM_BACKWARD_DSUM = 4,
  TERN_RMS_NORM_BACKWARD_DX = 5,
  TERN_RMS_NORM_BACKWARD_DWEIGHT = 6,
  TERN_RMS_NORM_BACKWARD_NUM_ARGS = 7
};
typedef struct tern_rms_norm_backward_attrs {
  float weight_offset; /* as forward */
} tern_rms_norm_backward_attrs;

/* rope: each pair (u, w) of the first `rotary` features becomes (u cos - w sin, w cos + u sin); the rest is kept
 *   in x [rows, heads, head_dim] float
 *   in positions [rows] i32
 *   in cos [positions, rotary / 2] f32
 *   in sin [positions, rotary / 2] f32
 *   out y [rows, heads, head_dim] float, may accumulate
 */
enum {
  TERN_OP_ROPE = 17,
  TERN_ROPE_X = 0,
  TERN_ROPE_POSITIONS = 1,
  TERN_ROPE_COS = 2,
  TERN_ROPE_SIN = 3,
  TERN_ROPE_Y = 4,
  TERN_ROPE_NUM_ARGS = 5
};
typedef struct tern_rope_attrs {
  int32_t interleaved; /* 0: pairs (i, i + rotary/2); 1: pairs (2i, 2i + 1) */
  int32_t inverse; /* 1: rotate back, which is the gradient */
} tern_rope_attrs;

/* qk_norm_rope: y = rope(rms_norm(x over head_dim))
 *   in x [rows, heads, head_dim] float
 *   in weight [head_dim]; absent: 0 float, optional
 *   in positions [rows]; absent: nothing turns i32, optional
 *   in cos [positions, rotary / 2]; present iff positions are f32, optional
 *   in sin [positions, rotary / 2]; present iff positions are f32, optional
 *   out y [rows, heads, head_dim] float
 *   out rstd [rows, heads] f32, optional
 */
enum {
  TERN_OP_QK_NORM_ROPE = 18,
  TERN_QK_NORM_ROPE_X = 0,
  TERN_QK_NORM_ROPE_WEIGHT = 1,
  TERN_QK_NORM_ROPE_POSITIONS = 2,
  TERN_QK_NORM_ROPE_COS = 3,
  TERN_QK_NORM_ROPE_SIN = 4,
  TERN_QK_NORM_ROPE_Y = 5,
  TERN_QK_NORM_ROPE_RSTD = 6,
  TERN_QK_NORM_ROPE_NUM_ARGS = 7
};
typedef struct tern_qk_norm_rope_attrs {
  float eps; /* added to the mean square */
  float weight_offset; /* added to the weight */
  int32_t interleaved; /* as rope */
} tern_qk_norm_rope_attrs;

/* qk_norm_rope_backward: the gradient of qk_norm_rope
 *   in dy [rows, heads, head_dim] float
 *   in x [rows, heads, head_dim] float
 *   in weight [head_dim]; absent: 0 float, optional
 *   in rstd [rows, heads] f32
 *   in positions [rows]; absent: nothing turned i32, optional
 *   in cos [positions, rotary / 2]; present iff positions are f32, optional
 *   in sin [positions, rotary / 2]; present iff positions are f32, optional
 *   out dx [rows, heads, head_dim] float
 *   out dweight [head_dim] f32, optional, may accumulate
 */
enum {
  TERN_OP_QK_NORM_ROPE_BACKWARD = 19,
  TERN_QK_NORM_ROPE_BACKWARD_DY = 0,
  TERN_QK_NORM_ROPE_BACKWARD_X = 1,
  TERN_QK_NORM_ROPE_BACKWARD_WEIGHT = 2,
  TERN_QK_NORM_ROPE_BACKWARD_RSTD = 3,
  TERN_QK_NORM_ROPE_BACKWARD_POSITIONS = 4,
  TERN_QK_NORM_ROPE_BACKWARD_COS = 5,
  TERN_QK_NORM_ROPE_BACKWARD_SIN = 6,
  TERN_QK_NORM_ROPE_BACKWARD_DX = 7,
  TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT = 8,
  TERN_QK_NORM_ROPE_BACKWARD_NUM_ARGS = 9
};
typedef struct tern_qk_norm_rope_backward_attrs {
  float weight_offset; /* as forward */
  int32_t interleaved; /* as forward */
} tern_qk_norm_rope_backward_attrs;

/* act_mul: y = act(gate) * (up + up_offset), gate and up within limit
 *   in gate [rows, width] float
 *   in up [rows, width] float
 *   out y [rows, width] float
 */
enum {
  TERN_OP_ACT_MUL = 20,
  TERN_ACT_MUL_GATE = 0,
  TERN_ACT_MUL_UP = 1,
  TERN_ACT_MUL_Y = 2,
  TERN_ACT_MUL_NUM_ARGS = 3
};
typedef struct tern_act_mul_attrs {
  int32_t kind; /* tern_act: silu, gelu_tanh, gelu_erf, sigmoid, quick_gelu */
  float limit; /* 0: none; else of gate the largest, of up the largest size */
  float up_offset; /* added to up */
} tern_act_mul_attrs;

/* act_mul_backward: dgate = dy (up + up_offset) act'(gate); dup = dy act(gate); 0 beyond limit
 *   in dy [rows, width] float
 *   in gate [rows, width] float
 *   in up [rows, width] float
 *   out dgate [rows, width] float
 *   out dup [rows, width] float
 */
enum {
  TERN_OP_ACT_MUL_BACKWARD = 21,
  TERN_ACT_MUL_BACKWARD_DY = 0,
  TERN_ACT_MUL_BACKWARD_GATE = 1,
  TERN_ACT_MUL_BACKWARD_UP = 2,
  TERN_ACT_MUL_BACKWARD_DGATE = 3,
  TERN_ACT_MUL_BACKWARD_DUP = 4,
  TERN_ACT_MUL_BACKWARD_NUM_ARGS = 5
};
typedef struct tern_act_mul_backward_attrs {
  int32_t kind; /* tern_act: silu, gelu_tanh, gelu_erf, sigmoid, quick_gelu */
  float limit; /* 0: none; else of gate the largest, of up the largest size */
  float up_offset; /* added to up */
} tern_act_mul_backward_attrs;

/* attention: p = softmax(hide(softcap(scale q k^T)) with sinks as one more logit of value 0), where hide leaves the keys that causal, window, window_right, chunk and mask all show; out = p v; lse = log sum exp, sinks included; query head h reads kv head h / (heads / kv_heads); rows outside of every sequence, and rows that see no key: out = 0, lse = -inf
 *   in q [q_rows, heads, head_dim] float
 *   in k [k_rows, kv_heads, head_dim] float
 *   in v [k_rows, kv_heads, value_dim] float
 *   in cu_seqlens_q [sequences + 1] i32, lengths: also in host_args
 *   in cu_seqlens_k [sequences + 1] i32, lengths: also in host_args
 *   in sinks [heads] f32, optional
 *   in mask [q_rows, mask_keys]: 1 shows row i key j of its sequence bool, optional
 *   out out [q_rows, heads, value_dim] float
 *   out lse [q_rows, heads] f32, optional
 */
enum {
  TERN_OP_ATTENTION = 22,
  TERN_ATTENTION_Q = 0,
  TERN_ATTENTION_K = 1,
  TERN_ATTENTION_V = 2,
  TERN_ATTENTION_CU_SEQLENS_Q = 3,
  TERN_ATTENTION_CU_SEQLENS_K = 4,
  TERN_ATTENTION_SINKS = 5,
  TERN_ATTENTION_MASK = 6,
  TERN_ATTENTION_OUT = 7,
  TERN_ATTENTION_LSE = 8,
  TERN_ATTENTION_NUM_ARGS = 9
};
typedef struct tern_attention_attrs {
  float scale; /* factor of q k^T */
  float softcap; /* 0: none; else s = softcap * tanh(s / softcap) */
  int32_t causal; /* 1: row i of a sequence sees keys up to i + len_k - len_q */
  int32_t window; /* 0: none; else only keys j > p - window, p = i + len_k - len_q */
  int32_t max_seqlen_q; /* no sequence has more query rows; 1: decoding */
  int32_t max_seqlen_k; /* no sequence has more keys */
  int32_t window_right; /* 0: none; else only keys j < p + window_right; not causal */
  int32_t chunk; /* 0: none; else only keys j with j / chunk = p / chunk */
} tern_attention_attrs;

/* attention_backward: the gradient of attention from its out and lse; rows outside of every sequence: 0
 *   in dout [q_rows, heads, value_dim] float
 *   in q [q_rows, heads, head_dim] float
 *   in k [k_rows, kv_heads, head_dim] float
 *   in v [k_rows, kv_heads, value_dim] float
 *   in out [q_rows, heads, value_dim] float
 *   in lse [q_rows, heads] f32
 *   in cu_seqlens_q [sequences + 1] i32, lengths: also in host_args
 *   in cu_seqlens_k [sequences + 1] i32, lengths: also in host_args
 *   in sinks [heads] f32, optional
 *   in mask [q_rows, mask_keys]: 1 shows row i key j of its sequence bool, optional
 *   out dq [q_rows, heads, head_dim] float
 *   out dk [k_rows, kv_heads, head_dim] float
 *   out dv [k_rows, kv_heads, value_dim] float
 *   out dsinks [heads] f32, optional, may accumulate
 */
enum {
  TERN_OP_ATTENTION_BACKWARD = 23,
  TERN_ATTENTION_BACKWARD_DOUT = 0,
  TERN_ATTENTION_BACKWARD_Q = 1,
  TERN_ATTENTION_BACKWARD_K = 2,
  TERN_ATTENTION_BACKWARD_V = 3,
  TERN_ATTENTION_BACKWARD_OUT = 4,
  TERN_ATTENTION_BACKWARD_LSE = 5,
  TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q = 6,
  TERN_ATTENTION_BACKWARD_CU_SEQLENS_K = 7,
  TERN_ATTENTION_BACKWARD_SINKS = 8,
  TERN_ATTENTION_BACKWARD_MASK = 9,
  TERN_ATTENTION_BACKWARD_DQ = 10,
  TERN_ATTENTION_BACKWARD_DK = 11,
  TERN_ATTENTION_BACKWARD_DV = 12,
  TERN_ATTENTION_BACKWARD_DSINKS = 13,
  TERN_ATTENTION_BACKWARD_NUM_ARGS = 14
};
typedef struct tern_attention_backward_attrs {
  float scale; /* factor of q k^T */
  float softcap; /* 0: none; else s = softcap * tanh(s / softcap) */
  int32_t causal; /* 1: row i of a sequence sees keys up to i + len_k - len_q */
  int32_t window; /* 0: none; else only keys j > p - window, p = i + len_k - len_q */
  int32_t max_seqlen_q; /* no sequence has more query rows; 1: decoding */
  int32_t max_seqlen_k; /* no sequence has more keys */
  int32_t window_right; /* 0: none; else only keys j < p + window_right; not causal */
  int32_t chunk; /* 0: none; else only keys j with j / chunk = p / chunk */
} tern_attention_backward_attrs;

/* kv_write: k_cache[slot] = k, v_cache[slot] = v; floats rounded to the cache's dtype, i8 and f8_e4m3 over a scale for each row and head, others copied; block 0 takes rows of padding, and nobody reads it
 *   in k [rows, kv_heads, head_dim] any
 *   in v [rows, kv_heads, value_dim] any, optional
 *   in slots [rows]: block * block_size + offset; padding: in block 0 i32
 *   in/out k_cache [blocks, block_size, kv_heads, head_dim] any
 *   in/out v_cache [blocks, block_size, kv_heads, value_dim]; present iff v is any, optional
 *   in/out k_scale [blocks, block_size, kv_heads]; present iff floats are kept in 8 bits f32, optional
 *   in/out v_scale [blocks, block_size, kv_heads]; present iff k_scale and v are f32, optional
 */
enum {
  TERN_OP_KV_WRITE = 24,
  TERN_KV_WRITE_K = 0,
  TERN_KV_WRITE_V = 1,
  TERN_KV_WRITE_SLOTS = 2,
  TERN_KV_WRITE_K_CACHE = 3,
  TERN_KV_WRITE_V_CACHE = 4,
  TERN_KV_WRITE_K_SCALE = 5,
  TERN_KV_WRITE_V_SCALE = 6,
  TERN_KV_WRITE_NUM_ARGS = 7
};

/* attention_paged: attention where sequence b's key j lies in block block_table[b, j / block_size]; query row i of b stands at kv_lens[b] - rows of b + i
 *   in q [q_rows, heads, head_dim] float
 *   in k_cache [blocks, block_size, kv_heads, head_dim] cached
 *   in v_cache [blocks, block_size, kv_heads, value_dim] cached
 *   in block_table [sequences, max_blocks]: unused entries name any block i32
 *   in cu_seqlens_q [sequences + 1] i32, lengths: also in host_args
 *   in kv_lens [sequences], this step's rows included i32, lengths: also in host_args
 *   in sinks [heads] f32, optional
 *   in mask [q_rows, mask_keys]: 1 shows row i key j of its sequence bool, optional
 *   out out [q_rows, heads, value_dim] float
 *   out lse [q_rows, heads] f32, optional
 *   in k_scale [blocks, block_size, kv_heads]; present iff the caches are i8 or f8_e4m3 f32, optional
 *   in v_scale [blocks, block_size, kv_heads]; present iff k_scale is f32, optional
 */
enum {
  TERN_OP_ATTENTION_PAGED = 25,
  TERN_ATTENTION_PAGED_Q = 0,
  TERN_ATTENTION_PAGED_K_CACHE = 1,
  TERN_ATTENTION_PAGED_V_CACHE = 2,
  TERN_ATTENTION_PAGED_BLOCK_TABLE = 3,
  TERN_ATTENTION_PAGED_CU_SEQLENS_Q = 4,
  TERN_ATTENTION_PAGED_KV_LENS = 5,
  TERN_ATTENTION_PAGED_SINKS = 6,
  TERN_ATTENTION_PAGED_MASK = 7,
  TERN_ATTENTION_PAGED_OUT = 8,
  TERN_ATTENTION_PAGED_LSE = 9,
  TERN_ATTENTION_PAGED_K_SCALE = 10,
  TERN_ATTENTION_PAGED_V_SCALE = 11,
  TERN_ATTENTION_PAGED_NUM_ARGS = 12
};
typedef struct tern_attention_paged_attrs {
  float scale; /* factor of q k^T */
  float softcap; /* 0: none; else s = softcap * tanh(s / softcap) */
  int32_t causal; /* 1: row i of a sequence sees keys up to i + len_k - len_q */
  int32_t window; /* 0: none; else only keys j > p - window, p = i + len_k - len_q */
  int32_t max_seqlen_q; /* no sequence has more query rows; 1: decoding */
  int32_t max_seqlen_k; /* no sequence has more keys */
  int32_t window_right; /* 0: none; else only keys j < p + window_right; not causal */
  int32_t chunk; /* 0: none; else only keys j with j / chunk = p / chunk */
} tern_attention_paged_attrs;

/* linear_cross_entropy: z = softcap(h w^T); loss = sum over rows of weights (log sum exp(z) - z[target]); never holds rows x vocab; dh, dw are the loss's gradients for an upstream gradient of 1
 *   in h [rows, width] float
 *   in w [vocab, width] float, may be quantised, may have a private layout
 *   in targets [rows]; -1: none in this shard i32
 *   in weights [rows]: 0 leaves a row out f32
 *   in lse [rows]: log sum exp over all shards of the vocabulary; absent: w is all of it f32, optional
 *   out loss [1] f32, may accumulate
 *   out row_max [rows] f32, optional
 *   out row_sum [rows]: sum of exp(logit - row_max) f32, optional
 *   out row_target [rows]: the target's logit f32, optional
 *   out dh [rows, width]: gradient of the loss float, optional
 *   out dw [vocab, width]: gradient of the loss f32, optional, may accumulate
 */
enum {
  TERN_OP_LINEAR_CROSS_ENTROPY = 26,
  TERN_LINEAR_CROSS_ENTROPY_H = 0,
  TERN_LINEAR_CROSS_ENTROPY_W = 1,
  TERN_LINEAR_CROSS_ENTROPY_TARGETS = 2,
  TERN_LINEAR_CROSS_ENTROPY_WEIGHTS = 3,
  TERN_LINEAR_CROSS_ENTROPY_LSE = 4,
  TERN_LINEAR_CROSS_ENTROPY_LOSS = 5,
  TERN_LINEAR_CROSS_ENTROPY_ROW_MAX = 6,
  TERN_LINEAR_CROSS_ENTROPY_ROW_SUM = 7,
  TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET = 8,
  TERN_LINEAR_CROSS_ENTROPY_DH = 9,
  TERN_LINEAR_CROSS_ENTROPY_DW = 10,
  TERN_LINEAR_CROSS_ENTROPY_NUM_ARGS = 11
};
typedef struct tern_linear_cross_entropy_attrs {
  int32_t compute; /* tern_compute that h and w (and the logits' gradient) are rounded to before products */
  float softcap; /* 0: none; else logits are softcap * tanh(z / softcap) */
} tern_linear_cross_entropy_attrs;

/* adamw: g = grad grad_scale; m = beta1 m + one_minus_beta1 g; v = beta2 v + one_minus_beta2 g^2; param = param (1 - lr weight_decay) - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 *   in/out param [...] f32
 *   in/out m [...] f32
 *   in/out v [...] f32
 *   in grad [...] float
 *   in hyper [10]: lr, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, weight_decay, 1 - beta1^t, 1 - beta2^t, grad_scale f32
 *   out copy [...]: param in its storage dtype float, optional
 */
enum {
  TERN_OP_ADAMW = 27,
  TERN_ADAMW_PARAM = 0,
  TERN_ADAMW_M = 1,
  TERN_ADAMW_V = 2,
  TERN_ADAMW_GRAD = 3,
  TERN_ADAMW_HYPER = 4,
  TERN_ADAMW_COPY = 5,
  TERN_ADAMW_NUM_ARGS = 6
};

/* sample: penalties over the history (token t of row r is history[history_table[r, t / block_size], t % block_size]), then bias, then mask, then temperature, then min-p, top-k, top-p; ids drawn by inverse transform over the kept tokens in order of their ids with uniform[row]; logprob of the drawn token under log_softmax of the untouched logits
 *   in logits [rows, vocab] f32
 *   in temperature [rows]; 0: greedy f32
 *   in top_k [rows]; 0: off i32
 *   in top_p [rows]; 1: off f32
 *   in min_p [rows]; 0: off f32
 *   in repetition [rows]; 1: off f32, optional
 *   in presence [rows]; 0: off f32, optional
 *   in frequency [rows]; 0: off f32, optional
 *   in history [blocks, block_size]: earlier tokens; block 0 is nobody's i32, optional
 *   in history_len [rows]: earlier tokens of the row i32, optional
 *   in output_begin [rows]: its tokens from here on were generated i32, optional
 *   in bias_ids [rows, biases]: tokens i32, optional
 *   in bias [rows, biases]: added to their logits f32, optional
 *   in mask [rows, ceil(vocab / 32)]: bit 1 allows u32, optional
 *   in uniform [rows]: from 0 to below 1 f32
 *   out ids [rows] i32
 *   out logprob [rows] f32
 *   out top_ids [rows, tops]: the most likely tokens i32, optional
 *   out top_logprobs [rows, tops] f32, optional
 *   in history_table [rows, max_blocks]: the blocks of history that hold its tokens i32, optional
 */
enum {
  TERN_OP_SAMPLE = 28,
  TERN_SAMPLE_LOGITS = 0,
  TERN_SAMPLE_TEMPERATURE = 1,
  TERN_SAMPLE_TOP_K = 2,
  TERN_SAMPLE_TOP_P = 3,
  TERN_SAMPLE_MIN_P = 4,
  TERN_SAMPLE_REPETITION = 5,
  TERN_SAMPLE_PRESENCE = 6,
  TERN_SAMPLE_FREQUENCY = 7,
  TERN_SAMPLE_HISTORY = 8,
  TERN_SAMPLE_HISTORY_LEN = 9,
  TERN_SAMPLE_OUTPUT_BEGIN = 10,
  TERN_SAMPLE_BIAS_IDS = 11,
  TERN_SAMPLE_BIAS = 12,
  TERN_SAMPLE_MASK = 13,
  TERN_SAMPLE_UNIFORM = 14,
  TERN_SAMPLE_IDS = 15,
  TERN_SAMPLE_LOGPROB = 16,
  TERN_SAMPLE_TOP_IDS = 17,
  TERN_SAMPLE_TOP_LOGPROBS = 18,
  TERN_SAMPLE_HISTORY_TABLE = 19,
  TERN_SAMPLE_NUM_ARGS = 20
};

/* softcap: y = cap * tanh(x / cap)
 *   in x [...] float
 *   out y [...] float
 */
enum {
  TERN_OP_SOFTCAP = 29,
  TERN_SOFTCAP_X = 0,
  TERN_SOFTCAP_Y = 1,
  TERN_SOFTCAP_NUM_ARGS = 2
};
typedef struct tern_softcap_attrs {
  float cap; /* bound of |y|, above 0 */
} tern_softcap_attrs;

/* sink_scale: out = x sigmoid(lse - sink), lse_out = log(exp(lse) + exp(sink)): attention without sinks becomes attention with them; lse -inf: out = 0, lse_out = -inf
 *   in x [rows, heads, value_dim] float
 *   in lse [rows, heads] f32
 *   in sinks [heads] f32
 *   out out [rows, heads, value_dim] float
 *   out lse_out [rows, heads] f32, optional
 */
enum {
  TERN_OP_SINK_SCALE = 30,
  TERN_SINK_SCALE_X = 0,
  TERN_SINK_SCALE_LSE = 1,
  TERN_SINK_SCALE_SINKS = 2,
  TERN_SINK_SCALE_OUT = 3,
  TERN_SINK_SCALE_LSE_OUT = 4,
  TERN_SINK_SCALE_NUM_ARGS = 5
};

/* sink_scale_backward: dsinks = - sum over rows of exp(sink - lse) sum dout out; rows with lse -inf add nothing
 *   in dout [rows, heads, value_dim] float
 *   in out [rows, heads, value_dim] float
 *   in lse [rows, heads]: the sink included f32
 *   in sinks [heads] f32
 *   out dsinks [heads] f32, may accumulate
 */
enum {
  TERN_OP_SINK_SCALE_BACKWARD = 31,
  TERN_SINK_SCALE_BACKWARD_DOUT = 0,
  TERN_SINK_SCALE_BACKWARD_OUT = 1,
  TERN_SINK_SCALE_BACKWARD_LSE = 2,
  TERN_SINK_SCALE_BACKWARD_SINKS = 3,
  TERN_SINK_SCALE_BACKWARD_DSINKS = 4,
  TERN_SINK_SCALE_BACKWARD_NUM_ARGS = 5
};

/* fill: y = value
 *   out y [...] float
 */
enum {
  TERN_OP_FILL = 32,
  TERN_FILL_Y = 0,
  TERN_FILL_NUM_ARGS = 1
};
typedef struct tern_fill_attrs {
  float value; /* what every element becomes */
} tern_fill_attrs;

/* shard_index: y = ids - first where first <= ids < first + count, else -1
 *   in ids [rows] i32
 *   out y [rows] i32
 */
enum {
  TERN_OP_SHARD_INDEX = 33,
  TERN_SHARD_INDEX_IDS = 0,
  TERN_SHARD_INDEX_Y = 1,
  TERN_SHARD_INDEX_NUM_ARGS = 2
};
typedef struct tern_shard_index_attrs {
  int32_t first; /* the shard's first id */
  int32_t count; /* ids of the shard */
} tern_shard_index_attrs;

/* merge_lse: lse = log sum over shards of row_sum exp(row_max), shards whose row_sum is 0 left out; 0 where all are
 *   in row_max [shards, rows] f32
 *   in row_sum [shards, rows]: sum of exp(logit - row_max) f32
 *   out lse [rows] f32
 */
enum {
  TERN_OP_MERGE_LSE = 34,
  TERN_MERGE_LSE_ROW_MAX = 0,
  TERN_MERGE_LSE_ROW_SUM = 1,
  TERN_MERGE_LSE_LSE = 2,
  TERN_MERGE_LSE_NUM_ARGS = 3
};

/* moe_route: s = softmax(logits) or sigmoid(logits); experts = the top_k of s + bias within the best top_groups groups, ties by their number; weights = scale s[experts], divided by their sum where `normalise`
 *   in logits [rows, experts] float
 *   in bias [experts]: added to the scores for the choice alone f32, optional
 *   out weights [rows, top_k] f32
 *   out experts [rows, top_k]: the best first i32
 */
enum {
  TERN_OP_MOE_ROUTE = 35,
  TERN_MOE_ROUTE_LOGITS = 0,
  TERN_MOE_ROUTE_BIAS = 1,
  TERN_MOE_ROUTE_WEIGHTS = 2,
  TERN_MOE_ROUTE_EXPERTS = 3,
  TERN_MOE_ROUTE_NUM_ARGS = 4
};
typedef struct tern_moe_route_attrs {
  int32_t sigmoid; /* scores are 0: softmax over the experts; 1: the sigmoid of each logit */
  int32_t normalise; /* 1: a row's weights are divided by their sum */
  float scale; /* times the weights */
  int32_t groups; /* experts stand in so many groups of neighbours, of which some are kept; 1: all */
  int32_t top_groups; /* groups that are kept of each row */
  int32_t group_top; /* a group is as good as the sum of its best so many scores */
} tern_moe_route_attrs;

/* moe_route_backward: the gradient of moe_route's weights, the choice being fixed
 *   in dweights [rows, top_k] f32
 *   in logits [rows, experts] float
 *   in experts [rows, top_k]: as forward chose i32
 *   out dlogits [rows, experts] float
 */
enum {
  TERN_OP_MOE_ROUTE_BACKWARD = 36,
  TERN_MOE_ROUTE_BACKWARD_DWEIGHTS = 0,
  TERN_MOE_ROUTE_BACKWARD_LOGITS = 1,
  TERN_MOE_ROUTE_BACKWARD_EXPERTS = 2,
  TERN_MOE_ROUTE_BACKWARD_DLOGITS = 3,
  TERN_MOE_ROUTE_BACKWARD_NUM_ARGS = 4
};
typedef struct tern_moe_route_backward_attrs {
  int32_t sigmoid; /* as forward */
  int32_t normalise; /* as forward */
  float scale; /* as forward */
} tern_moe_route_backward_attrs;

/* moe_permute: y[places[r, i]] = x[r], where expert e has the places offsets[e] to offsets[e + 1] in order of (r, i)
 *   in x [rows, width] float
 *   in experts [rows, top_k] i32
 *   out y [rows, top_k, width]: in order of experts as x
 *   out places [rows, top_k]: where each choice of a row went i32
 *   out offsets [experts + 1]: where each expert's rows begin i32
 */
enum {
  TERN_OP_MOE_PERMUTE = 37,
  TERN_MOE_PERMUTE_X = 0,
  TERN_MOE_PERMUTE_EXPERTS = 1,
  TERN_MOE_PERMUTE_Y = 2,
  TERN_MOE_PERMUTE_PLACES = 3,
  TERN_MOE_PERMUTE_OFFSETS = 4,
  TERN_MOE_PERMUTE_NUM_ARGS = 5
};

/* moe_combine: y[r] = sum over i of weights[r, i] x[places[r, i]]
 *   in x [rows, top_k, width]: in order of experts float
 *   in places [rows, top_k] i32
 *   in weights [rows, top_k]; absent: 1 f32, optional
 *   out y [rows, width] float, may accumulate
 */
enum {
  TERN_OP_MOE_COMBINE = 38,
  TERN_MOE_COMBINE_X = 0,
  TERN_MOE_COMBINE_PLACES = 1,
  TERN_MOE_COMBINE_WEIGHTS = 2,
  TERN_MOE_COMBINE_Y = 3,
  TERN_MOE_COMBINE_NUM_ARGS = 4
};

/* moe_combine_backward: dx[places[r, i]] = weights[r, i] dy[r]; dweights[r, i] = dy[r] . x[places[r, i]]
 *   in dy [rows, width] float
 *   in x [rows, top_k, width]; present iff dweights is float, optional
 *   in places [rows, top_k] i32
 *   in weights [rows, top_k]; absent: 1 f32, optional
 *   out dx [rows, top_k, width]: in order of experts float
 *   out dweights [rows, top_k] f32, optional
 */
enum {
  TERN_OP_MOE_COMBINE_BACKWARD = 39,
  TERN_MOE_COMBINE_BACKWARD_DY = 0,
  TERN_MOE_COMBINE_BACKWARD_X = 1,
  TERN_MOE_COMBINE_BACKWARD_PLACES = 2,
  TERN_MOE_COMBINE_BACKWARD_WEIGHTS = 3,
  TERN_MOE_COMBINE_BACKWARD_DX = 4,
  TERN_MOE_COMBINE_BACKWARD_DWEIGHTS = 5,
  TERN_MOE_COMBINE_BACKWARD_NUM_ARGS = 6
};

/* grouped_matmul: y = x w[e]^T + bias[e] or x w[e] of the rows of each expert e, accumulated in fp32; rows of no expert: 0
 *   in x [rows, top_k, in]; [rows, top_k, out] if not transpose_w float
 *   in w [experts, out, in]; quantised: [experts out, in] float, may be quantised
 *   in bias [experts, out]; absent if not transpose_w float, optional
 *   in offsets [experts + 1]: where each expert's rows begin i32
 *   out y [rows, top_k, out]; [rows, top_k, in] if not transpose_w float, may accumulate
 */
enum {
  TERN_OP_GROUPED_MATMUL = 40,
  TERN_GROUPED_MATMUL_X = 0,
  TERN_GROUPED_MATMUL_W = 1,
  TERN_GROUPED_MATMUL_BIAS = 2,
  TERN_GROUPED_MATMUL_OFFSETS = 3,
  TERN_GROUPED_MATMUL_Y = 4,
  TERN_GROUPED_MATMUL_NUM_ARGS = 5
};
typedef struct tern_grouped_matmul_attrs {
  int32_t transpose_w; /* 1: y = x w^T (forward); 0: y = x w (gradient of the input) */
  int32_t compute; /* tern_compute that x and the expanded w are rounded to before the product: f32, bf16 or f16 */
} tern_grouped_matmul_attrs;

/* grouped_matmul_backward: dw[e] = dy^T x and dbias[e] = sum of dy over the rows of each expert e
 *   in dy [rows, top_k, out] float
 *   in x [rows, top_k, in] float
 *   in offsets [experts + 1]: where each expert's rows begin i32
 *   out dw [experts, out, in] f32, optional, may accumulate
 *   out dbias [experts, out] f32, optional, may accumulate
 */
enum {
  TERN_OP_GROUPED_MATMUL_BACKWARD = 41,
  TERN_GROUPED_MATMUL_BACKWARD_DY = 0,
  TERN_GROUPED_MATMUL_BACKWARD_X = 1,
  TERN_GROUPED_MATMUL_BACKWARD_OFFSETS = 2,
  TERN_GROUPED_MATMUL_BACKWARD_DW = 3,
  TERN_GROUPED_MATMUL_BACKWARD_DBIAS = 4,
  TERN_GROUPED_MATMUL_BACKWARD_NUM_ARGS = 5
};
typedef struct tern_grouped_matmul_backward_attrs {
  int32_t compute; /* tern_compute that dy and x are rounded to before the product: f32, bf16 or f16 */
} tern_grouped_matmul_backward_attrs;

/* act: y = act(x)
 *   in x [...] float
 *   out y [...] float
 */
enum {
  TERN_OP_ACT = 42,
  TERN_ACT_X = 0,
  TERN_ACT_Y = 1,
  TERN_ACT_NUM_ARGS = 2
};
typedef struct tern_act_attrs {
  int32_t kind; /* tern_act */
} tern_act_attrs;

/* act_backward: dx = dy act'(x)
 *   in dy [...] float
 *   in x [...] float
 *   out dx [...] float
 */
enum {
  TERN_OP_ACT_BACKWARD = 43,
  TERN_ACT_BACKWARD_DY = 0,
  TERN_ACT_BACKWARD_X = 1,
  TERN_ACT_BACKWARD_DX = 2,
  TERN_ACT_BACKWARD_NUM_ARGS = 3
};
typedef struct tern_act_backward_attrs {
  int32_t kind; /* tern_act */
} tern_act_backward_attrs;

/* causal_conv1d: y[t] = bias + sum over j of weight[:, j] x[t - taps + j], each channel by itself; rows before a sequence's first are those that its state holds, or 0 where kv_lens says that it begins; the state becomes its last rows
 *   in x [rows, channels] float
 *   in weight [channels, taps + 1]: the last is of the row itself float
 *   in bias [channels] float, optional
 *   in cu_seqlens [sequences + 1] i32, lengths: also in host_args
 *   in kv_lens [sequences], this step's rows included; present iff state is i32, optional
 *   in seats [sequences]: whose the state is; padding: 0; present iff state is i32, optional
 *   in/out state [num_seats, taps, channels]: the last rows before float, optional
 *   out y [rows, channels] float
 */
enum {
  TERN_OP_CAUSAL_CONV1D = 44,
  TERN_CAUSAL_CONV1D_X = 0,
  TERN_CAUSAL_CONV1D_WEIGHT = 1,
  TERN_CAUSAL_CONV1D_BIAS = 2,
  TERN_CAUSAL_CONV1D_CU_SEQLENS = 3,
  TERN_CAUSAL_CONV1D_KV_LENS = 4,
  TERN_CAUSAL_CONV1D_SEATS = 5,
  TERN_CAUSAL_CONV1D_STATE = 6,
  TERN_CAUSAL_CONV1D_Y = 7,
  TERN_CAUSAL_CONV1D_NUM_ARGS = 8
};
typedef struct tern_causal_conv1d_attrs {
  int32_t max_seqlen; /* no sequence has more rows; 1: decoding */
} tern_causal_conv1d_attrs;

/* causal_conv1d_backward: the gradient of causal_conv1d without a state
 *   in dy [rows, channels] float
 *   in x [rows, channels] float
 *   in weight [channels, taps + 1] float
 *   in cu_seqlens [sequences + 1] i32, lengths: also in host_args
 *   out dx [rows, channels] float
 *   out dweight [channels, taps + 1] f32, optional, may accumulate
 *   out dbias [channels] f32, optional, may accumulate
 */
enum {
  TERN_OP_CAUSAL_CONV1D_BACKWARD = 45,
  TERN_CAUSAL_CONV1D_BACKWARD_DY = 0,
  TERN_CAUSAL_CONV1D_BACKWARD_X = 1,
  TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT = 2,
  TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS = 3,
  TERN_CAUSAL_CONV1D_BACKWARD_DX = 4,
  TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT = 5,
  TERN_CAUSAL_CONV1D_BACKWARD_DBIAS = 6,
  TERN_CAUSAL_CONV1D_BACKWARD_NUM_ARGS = 7
};
typedef struct tern_causal_conv1d_backward_attrs {
  int32_t max_seqlen; /* no sequence has more rows; 1: decoding */
} tern_causal_conv1d_backward_attrs;

/* gated_delta_rule: for each row of a sequence: S = exp(decay) S; S += k (beta (v - S^T k))^T; out = scale S^T q; S begins as the sequence's state, or 0 where kv_lens says that it begins; head h reads q and k of h / (heads / k_heads)
 *   in q [rows, k_heads, key_dim] float
 *   in k [rows, k_heads, key_dim] float
 *   in v [rows, heads, value_dim] float
 *   in decay [rows, heads]: log of what is kept, at most 0 f32
 *   in beta [rows, heads]: 0 <= beta |k|^2 <= 2 f32
 *   in cu_seqlens [sequences + 1] i32, lengths: also in host_args
 *   in kv_lens [sequences], this step's rows included; present iff state is i32, optional
 *   in seats [sequences]: whose the state is; padding: 0; present iff state is i32, optional
 *   in/out state [num_seats, heads, key_dim, value_dim] f32, optional
 *   out out [rows, heads, value_dim] float
 */
enum {
  TERN_OP_GATED_DELTA_RULE = 46,
  TERN_GATED_DELTA_RULE_Q = 0,
  TERN_GATED_DELTA_RULE_K = 1,
  TERN_GATED_DELTA_RULE_V = 2,
  TERN_GATED_DELTA_RULE_DECAY = 3,
  TERN_GATED_DELTA_RULE_BETA = 4,
  TERN_GATED_DELTA_RULE_CU_SEQLENS = 5,
  TERN_GATED_DELTA_RULE_KV_LENS = 6,
  TERN_GATED_DELTA_RULE_SEATS = 7,
  TERN_GATED_DELTA_RULE_STATE = 8,
  TERN_GATED_DELTA_RULE_OUT = 9,
  TERN_GATED_DELTA_RULE_NUM_ARGS = 10
};
typedef struct tern_gated_delta_rule_attrs {
  float scale; /* factor of q */
  int32_t max_seqlen; /* no sequence has more rows; 1: decoding */
} tern_gated_delta_rule_attrs;

/* gated_delta_rule_backward: the gradient of gated_delta_rule without a state
 *   in dout [rows, heads, value_dim] float
 *   in q [rows, k_heads, key_dim] float
 *   in k [rows, k_heads, key_dim] float
 *   in v [rows, heads, value_dim] float
 *   in decay [rows, heads] f32
 *   in beta [rows, heads] f32
 *   in cu_seqlens [sequences + 1] i32, lengths: also in host_args
 *   out dq [rows, k_heads, key_dim] float
 *   out dk [rows, k_heads, key_dim] float
 *   out dv [rows, heads, value_dim] float
 *   out ddecay [rows, heads] f32
 *   out dbeta [rows, heads] f32
 */
enum {
  TERN_OP_GATED_DELTA_RULE_BACKWARD = 47,
  TERN_GATED_DELTA_RULE_BACKWARD_DOUT = 0,
  TERN_GATED_DELTA_RULE_BACKWARD_Q = 1,
  TERN_GATED_DELTA_RULE_BACKWARD_K = 2,
  TERN_GATED_DELTA_RULE_BACKWARD_V = 3,
  TERN_GATED_DELTA_RULE_BACKWARD_DECAY = 4,
  TERN_GATED_DELTA_RULE_BACKWARD_BETA = 5,
  TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS = 6,
  TERN_GATED_DELTA_RULE_BACKWARD_DQ = 7,
  TERN_GATED_DELTA_RULE_BACKWARD_DK = 8,
  TERN_GATED_DELTA_RULE_BACKWARD_DV = 9,
  TERN_GATED_DELTA_RULE_BACKWARD_DDECAY = 10,
  TERN_GATED_DELTA_RULE_BACKWARD_DBETA = 11,
  TERN_GATED_DELTA_RULE_BACKWARD_NUM_ARGS = 12
};
typedef struct tern_gated_delta_rule_backward_attrs {
  float scale; /* factor of q */
  int32_t max_seqlen; /* no sequence has more rows; 1: decoding */
} tern_gated_delta_rule_backward_attrs;

/* layer_norm: s = x + residual (rounded to sum's dtype); mean = mean(s); rstd = 1 / sqrt(mean((s - mean)^2) + eps); y = (s - mean) rstd weight + bias
 *   in x [rows, width] float
 *   in residual [rows, width] float, optional
 *   in weight [width] float
 *   in bias [width] float, optional
 *   out y [rows, width] float
 *   out sum [rows, width]; present iff residual is float, optional
 *   out mean [rows]; present iff rstd is f32, optional
 *   out rstd [rows] f32, optional
 */
enum {
  TERN_OP_LAYER_NORM = 48,
  TERN_LAYER_NORM_X = 0,
  TERN_LAYER_NORM_RESIDUAL = 1,
  TERN_LAYER_NORM_WEIGHT = 2,
  TERN_LAYER_NORM_BIAS = 3,
  TERN_LAYER_NORM_Y = 4,
  TERN_LAYER_NORM_SUM = 5,
  TERN_LAYER_NORM_MEAN = 6,
  TERN_LAYER_NORM_RSTD = 7,
  TERN_LAYER_NORM_NUM_ARGS = 8
};
typedef struct tern_layer_norm_attrs {
  float eps; /* added to the variance */
} tern_layer_norm_attrs;

/* layer_norm_backward: g = dy weight; c = x - mean; dx = dsum + rstd (g - mean(g) - c rstd^2 mean(g c)); dweight = sum over rows of dy c rstd; dbias = sum over rows of dy
 *   in dy [rows, width] float
 *   in x [rows, width]: what was normalised float
 *   in weight [width] float
 *   in mean [rows] f32
 *   in rstd [rows] f32
 *   in dsum [rows, width]: added to dx float, optional
 *   out dx [rows, width] float
 *   out dweight [width] f32, optional, may accumulate
 *   out dbias [width] f32, optional, may accumulate
 */
enum {
  TERN_OP_LAYER_NORM_BACKWARD = 49,
  TERN_LAYER_NORM_BACKWARD_DY = 0,
  TERN_LAYER_NORM_BACKWARD_X = 1,
  TERN_LAYER_NORM_BACKWARD_WEIGHT = 2,
  TERN_LAYER_NORM_BACKWARD_MEAN = 3,
  TERN_LAYER_NORM_BACKWARD_RSTD = 4,
  TERN_LAYER_NORM_BACKWARD_DSUM = 5,
  TERN_LAYER_NORM_BACKWARD_DX = 6,
  TERN_LAYER_NORM_BACKWARD_DWEIGHT = 7,
  TERN_LAYER_NORM_BACKWARD_DBIAS = 8,
  TERN_LAYER_NORM_BACKWARD_NUM_ARGS = 9
};

/* selective_scan: for each row of a sequence: S = exp(dt a) S + b (dt x)^T; out = S^T c + d x; S begins as the sequence's state, or 0 where kv_lens says that it begins; head h reads b and c of h / (heads / groups)
 *   in x [rows, heads, head_dim] float
 *   in dt [rows, heads]: at least 0 f32
 *   in a [heads]: at most 0 f32
 *   in b [rows, groups, state_size] float
 *   in c [rows, groups, state_size] float
 *   in d [heads] float, optional
 *   in cu_seqlens [sequences + 1] i32, lengths: also in host_args
 *   in kv_lens [sequences], this step's rows included; present iff state is i32, optional
 *   in seats [sequences]: whose the state is; padding: 0; present iff state is i32, optional
 *   in/out state [num_seats, heads, state_size, head_dim] f32, optional
 *   out out [rows, heads, head_dim] float
 */
enum {
  TERN_OP_SELECTIVE_SCAN = 50,
  TERN_SELECTIVE_SCAN_X = 0,
  TERN_SELECTIVE_SCAN_DT = 1,
  TERN_SELECTIVE_SCAN_A = 2,
  TERN_SELECTIVE_SCAN_B = 3,
  TERN_SELECTIVE_SCAN_C = 4,
  TERN_SELECTIVE_SCAN_D = 5,
  TERN_SELECTIVE_SCAN_CU_SEQLENS = 6,
  TERN_SELECTIVE_SCAN_KV_LENS = 7,
  TERN_SELECTIVE_SCAN_SEATS = 8,
  TERN_SELECTIVE_SCAN_STATE = 9,
  TERN_SELECTIVE_SCAN_OUT = 10,
  TERN_SELECTIVE_SCAN_NUM_ARGS = 11
};
typedef struct tern_selective_scan_attrs {
  int32_t max_seqlen; /* no sequence has more rows; 1: decoding */
} tern_selective_scan_attrs;

/* selective_scan_backward: the gradient of selective_scan without a state
 *   in dout [rows, heads, head_dim] float
 *   in x [rows, heads, head_dim] float
 *   in dt [rows, heads] f32
 *   in a [heads] f32
 *   in b [rows, groups, state_size] float
 *   in c [rows, groups, state_size] float
 *   in d [heads]; present if dd is float, optional
 *   in cu_seqlens [sequences + 1] i32, lengths: also in host_args
 *   out dx [rows, heads, head_dim] float
 *   out ddt [rows, heads] f32
 *   out da [heads] f32, optional, may accumulate
 *   out db [rows, groups, state_size] float
 *   out dc [rows, groups, state_size] float
 *   out dd [heads] f32, optional, may accumulate
 */
enum {
  TERN_OP_SELECTIVE_SCAN_BACKWARD = 51,
  TERN_SELECTIVE_SCAN_BACKWARD_DOUT = 0,
  TERN_SELECTIVE_SCAN_BACKWARD_X = 1,
  TERN_SELECTIVE_SCAN_BACKWARD_DT = 2,
  TERN_SELECTIVE_SCAN_BACKWARD_A = 3,
  TERN_SELECTIVE_SCAN_BACKWARD_B = 4,
  TERN_SELECTIVE_SCAN_BACKWARD_C = 5,
  TERN_SELECTIVE_SCAN_BACKWARD_D = 6,
  TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS = 7,
  TERN_SELECTIVE_SCAN_BACKWARD_DX = 8,
  TERN_SELECTIVE_SCAN_BACKWARD_DDT = 9,
  TERN_SELECTIVE_SCAN_BACKWARD_DA = 10,
  TERN_SELECTIVE_SCAN_BACKWARD_DB = 11,
  TERN_SELECTIVE_SCAN_BACKWARD_DC = 12,
  TERN_SELECTIVE_SCAN_BACKWARD_DD = 13,
  TERN_SELECTIVE_SCAN_BACKWARD_NUM_ARGS = 14
};
typedef struct tern_selective_scan_backward_attrs {
  int32_t max_seqlen; /* no sequence has more rows; 1: decoding */
} tern_selective_scan_backward_attrs;

/* index_topk_mask: s_j = sum over heads of weights relu(q k_j); mask = 1 at the topk keys of largest s among those that the row sees causally, ties by rising j
 *   in q [q_rows, index_heads, index_dim] float
 *   in weights [q_rows, index_heads] float
 *   in k [k_rows, index_dim] float
 *   in cu_seqlens_q [sequences + 1] i32, lengths: also in host_args
 *   in cu_seqlens_k [sequences + 1] i32, lengths: also in host_args
 *   out mask [q_rows, mask_keys]: 1 shows row i key j of its sequence bool
 */
enum {
  TERN_OP_INDEX_TOPK_MASK = 52,
  TERN_INDEX_TOPK_MASK_Q = 0,
  TERN_INDEX_TOPK_MASK_WEIGHTS = 1,
  TERN_INDEX_TOPK_MASK_K = 2,
  TERN_INDEX_TOPK_MASK_CU_SEQLENS_Q = 3,
  TERN_INDEX_TOPK_MASK_CU_SEQLENS_K = 4,
  TERN_INDEX_TOPK_MASK_MASK = 5,
  TERN_INDEX_TOPK_MASK_NUM_ARGS = 6
};
typedef struct tern_index_topk_mask_attrs {
  int32_t topk; /* how many of the visible keys a row is shown at most */
  int32_t max_seqlen_q; /* no sequence has more query rows; 1: decoding */
  int32_t max_seqlen_k; /* no sequence has more keys */
} tern_index_topk_mask_attrs;

/* index_topk_mask_paged: index_topk_mask where sequence b's key j lies in block block_table[b, j / block_size]; query row i of b stands at kv_lens[b] - rows of b + i
 *   in q [q_rows, index_heads, index_dim] float
 *   in weights [q_rows, index_heads] float
 *   in k_cache [blocks, block_size, 1, index_dim] float
 *   in block_table [sequences, max_blocks]: unused entries name any block i32
 *   in cu_seqlens_q [sequences + 1] i32, lengths: also in host_args
 *   in kv_lens [sequences], this step's rows included i32, lengths: also in host_args
 *   out mask [q_rows, mask_keys]: 1 shows row i key j of its sequence bool
 */
enum {
  TERN_OP_INDEX_TOPK_MASK_PAGED = 53,
  TERN_INDEX_TOPK_MASK_PAGED_Q = 0,
  TERN_INDEX_TOPK_MASK_PAGED_WEIGHTS = 1,
  TERN_INDEX_TOPK_MASK_PAGED_K_CACHE = 2,
  TERN_INDEX_TOPK_MASK_PAGED_BLOCK_TABLE = 3,
  TERN_INDEX_TOPK_MASK_PAGED_CU_SEQLENS_Q = 4,
  TERN_INDEX_TOPK_MASK_PAGED_KV_LENS = 5,
  TERN_INDEX_TOPK_MASK_PAGED_MASK = 6,
  TERN_INDEX_TOPK_MASK_PAGED_NUM_ARGS = 7
};
typedef struct tern_index_topk_mask_paged_attrs {
  int32_t topk; /* how many of the visible keys a row is shown at most */
  int32_t max_seqlen_q; /* no sequence has more query rows; 1: decoding */
  int32_t max_seqlen_k; /* no sequence has more keys */
} tern_index_topk_mask_paged_attrs;

/* sgd: g = grad_scale grad + decay param; buf = momentum buf + rest g; param = keep param - lr (take_grad g + take_buf buf)
 *   in/out param [...] f32
 *   in/out buf [...]: absent: no momentum f32, optional
 *   in grad [...] float
 *   in hyper [8]: lr, keep, momentum, rest, decay, take_grad, take_buf, grad_scale f32
 */
enum {
  TERN_OP_SGD = 54,
  TERN_SGD_PARAM = 0,
  TERN_SGD_BUF = 1,
  TERN_SGD_GRAD = 2,
  TERN_SGD_HYPER = 3,
  TERN_SGD_NUM_ARGS = 4
};

/* lion: g = grad grad_scale; param = keep param - lr sign(beta1 m + one_minus_beta1 g); m = beta2 m + one_minus_beta2 g
 *   in/out param [...] f32
 *   in/out m [...] f32
 *   in grad [...] float
 *   in hyper [7]: lr, keep, beta1, one_minus_beta1, beta2, one_minus_beta2, grad_scale f32
 */
enum {
  TERN_OP_LION = 55,
  TERN_LION_PARAM = 0,
  TERN_LION_M = 1,
  TERN_LION_GRAD = 2,
  TERN_LION_HYPER = 3,
  TERN_LION_NUM_ARGS = 4
};

/* adafactor: g = grad grad_scale; row, col: running means of g^2 + eps1 over columns and rows; u = g / sqrt(row / mean(row)) / sqrt(col), or g / sqrt(v); u = u a / max(1, rms(u) / clip), a = lr max(eps2, rms(param)) if scale_parameter; m = beta1 m + rest1 u; param = param (1 - weight_decay a) - u or m
 *   in/out param [...] f32
 *   in/out row of a matrix [rows]; of a stack of them [matrices, rows] f32, optional
 *   in/out col of a matrix [columns]; of a stack of them [matrices, columns] f32, optional
 *   in/out v [...]: as param, where there is no row f32, optional
 *   in/out m [...]: absent: no momentum f32, optional
 *   in grad [...] float
 *   in hyper [11]: lr, beta2, rest2, eps1, eps2, clip, beta1, rest1, weight_decay, scale_parameter, grad_scale f32
 */
enum {
  TERN_OP_ADAFACTOR = 56,
  TERN_ADAFACTOR_PARAM = 0,
  TERN_ADAFACTOR_ROW = 1,
  TERN_ADAFACTOR_COL = 2,
  TERN_ADAFACTOR_V = 3,
  TERN_ADAFACTOR_M = 4,
  TERN_ADAFACTOR_GRAD = 5,
  TERN_ADAFACTOR_HYPER = 6,
  TERN_ADAFACTOR_NUM_ARGS = 7
};

/* adamw_8bit: adamw upon m_codes[m] m_max and v_codes[v] v_max; then of each 256 elements m_max = max |m| and m the nearest code of m / m_max, v in the same way
 *   in/out param [...] f32
 *   in/out m [...] u8
 *   in/out v [...] u8
 *   in/out m_max [blocks]: of each 256 elements f32
 *   in/out v_max [blocks] f32
 *   in grad [...] float
 *   in m_codes [256], rising f32
 *   in v_codes [256], rising f32
 *   in hyper [10]: as of adamw f32
 */
enum {
  TERN_OP_ADAMW_8BIT = 57,
  TERN_ADAMW_8BIT_PARAM = 0,
  TERN_ADAMW_8BIT_M = 1,
  TERN_ADAMW_8BIT_V = 2,
  TERN_ADAMW_8BIT_M_MAX = 3,
  TERN_ADAMW_8BIT_V_MAX = 4,
  TERN_ADAMW_8BIT_GRAD = 5,
  TERN_ADAMW_8BIT_M_CODES = 6,
  TERN_ADAMW_8BIT_V_CODES = 7,
  TERN_ADAMW_8BIT_HYPER = 8,
  TERN_ADAMW_8BIT_NUM_ARGS = 9
};

/* lora_shrink: h = alpha dropout(x) a^T, summed in fp32
 *   in x [rows, in] float
 *   in a [rank, in] float
 *   in keys [rows]; absent: nothing is dropped i64, optional
 *   in mask [rows, in], 1 keeps u8, optional
 *   out h [rows, rank] float
 */
enum {
  TERN_OP_LORA_SHRINK = 58,
  TERN_LORA_SHRINK_X = 0,
  TERN_LORA_SHRINK_A = 1,
  TERN_LORA_SHRINK_KEYS = 2,
  TERN_LORA_SHRINK_MASK = 3,
  TERN_LORA_SHRINK_H = 4,
  TERN_LORA_SHRINK_NUM_ARGS = 5
};
typedef struct tern_lora_shrink_attrs {
  float rate; /* share dropped, in [0, 1); 0 without keys */
  int32_t site; /* which dropout of the model, as in dropout */
  float alpha; /* factor of the product */
} tern_lora_shrink_attrs;

/* lora_shrink_backward: dx = alpha dropout(dh a); da = alpha dh^T dropout(x)
 *   in dh [rows, rank] float
 *   in x [rows, in] float
 *   in a [rank, in] float
 *   in keys [rows]; absent: nothing is dropped i64, optional
 *   in mask [rows, in], 1 keeps u8, optional
 *   out dx [rows, in] float, optional, may accumulate
 *   out da [rank, in] f32, optional, may accumulate
 */
enum {
  TERN_OP_LORA_SHRINK_BACKWARD = 59,
  TERN_LORA_SHRINK_BACKWARD_DH = 0,
  TERN_LORA_SHRINK_BACKWARD_X = 1,
  TERN_LORA_SHRINK_BACKWARD_A = 2,
  TERN_LORA_SHRINK_BACKWARD_KEYS = 3,
  TERN_LORA_SHRINK_BACKWARD_MASK = 4,
  TERN_LORA_SHRINK_BACKWARD_DX = 5,
  TERN_LORA_SHRINK_BACKWARD_DA = 6,
  TERN_LORA_SHRINK_BACKWARD_NUM_ARGS = 7
};
typedef struct tern_lora_shrink_backward_attrs {
  float rate; /* as forward */
  int32_t site; /* as forward */
  float alpha; /* as forward */
} tern_lora_shrink_backward_attrs;

/* lora_segmented: y[r] = b[s] (a[s] x[r]), s = slots[r], summed in fp32; 0 where s is num_slots
 *   in x [rows, in] float
 *   in a [num_slots, rank, in] float
 *   in b [num_slots, out, rank] float
 *   in slots [rows]; num_slots: no adapter i32
 *   out y [rows, out] float, may accumulate
 */
enum {
  TERN_OP_LORA_SEGMENTED = 60,
  TERN_LORA_SEGMENTED_X = 0,
  TERN_LORA_SEGMENTED_A = 1,
  TERN_LORA_SEGMENTED_B = 2,
  TERN_LORA_SEGMENTED_SLOTS = 3,
  TERN_LORA_SEGMENTED_Y = 4,
  TERN_LORA_SEGMENTED_NUM_ARGS = 5
};

enum { TERN_OP_LIMIT = 61 }; /* ids are below */

/* X(ID, name) for every op, in the order of the ids: TERN_OP_<ID>, and the name in lower case. */
#define TERN_FOR_EACH_OP(X) \
  X(CAST_COPY, cast_copy) \
  X(GATHER_ROWS, gather_rows) \
  X(SCATTER_ADD_ROWS, scatter_add_rows) \
  X(AXPBY, axpby) \
  X(MUL, mul) \
  X(ROW_SUM, row_sum) \
  X(SCALE, scale) \
  X(DROPOUT, dropout) \
  X(SUM_SQUARES, sum_squares) \
  X(ALL_FINITE, all_finite) \
  X(MATMUL, matmul) \
  X(MATMUL_Q, matmul_q) \
  X(DEQUANTIZE, dequantize) \
  X(EMBEDDING, embedding) \
  X(RMS_NORM, rms_norm) \
  X(RMS_NORM_BACKWARD, rms_norm_backward) \
  X(ROPE, rope) \
  X(QK_NORM_ROPE, qk_norm_rope) \
  X(QK_NORM_ROPE_BACKWARD, qk_norm_rope_backward) \
  X(ACT_MUL, act_mul) \
  X(ACT_MUL_BACKWARD, act_mul_backward) \
  X(ATTENTION, attention) \
  X(ATTENTION_BACKWARD, attention_backward) \
  X(KV_WRITE, kv_write) \
  X(ATTENTION_PAGED, attention_paged) \
  X(LINEAR_CROSS_ENTROPY, linear_cross_entropy) \
  X(ADAMW, adamw) \
  X(SAMPLE, sample) \
  X(SOFTCAP, softcap) \
  X(SINK_SCALE, sink_scale) \
  X(SINK_SCALE_BACKWARD, sink_scale_backward) \
  X(FILL, fill) \
  X(SHARD_INDEX, shard_index) \
  X(MERGE_LSE, merge_lse) \
  X(MOE_ROUTE, moe_route) \
  X(MOE_ROUTE_BACKWARD, moe_route_backward) \
  X(MOE_PERMUTE, moe_permute) \
  X(MOE_COMBINE, moe_combine) \
  X(MOE_COMBINE_BACKWARD, moe_combine_backward) \
  X(GROUPED_MATMUL, grouped_matmul) \
  X(GROUPED_MATMUL_BACKWARD, grouped_matmul_backward) \
  X(ACT, act) \
  X(ACT_BACKWARD, act_backward) \
  X(CAUSAL_CONV1D, causal_conv1d) \
  X(CAUSAL_CONV1D_BACKWARD, causal_conv1d_backward) \
  X(GATED_DELTA_RULE, gated_delta_rule) \
  X(GATED_DELTA_RULE_BACKWARD, gated_delta_rule_backward) \
  X(LAYER_NORM, layer_norm) \
  X(LAYER_NORM_BACKWARD, layer_norm_backward) \
  X(SELECTIVE_SCAN, selective_scan) \
  X(SELECTIVE_SCAN_BACKWARD, selective_scan_backward) \
  X(INDEX_TOPK_MASK, index_topk_mask) \
  X(INDEX_TOPK_MASK_PAGED, index_topk_mask_paged) \
  X(SGD, sgd) \
  X(LION, lion) \
  X(ADAFACTOR, adafactor) \
  X(ADAMW_8BIT, adamw_8bit) \
  X(LORA_SHRINK, lora_shrink) \
  X(LORA_SHRINK_BACKWARD, lora_shrink_backward) \
  X(LORA_SEGMENTED, lora_segmented)

#endif
