// Every op's rules; each is defined beside its contract in ops/<op>.cpp.
#pragma once

#include "ops/rules.h"

namespace tern::ops {

extern const OpRules cast_copy_rules;
extern const OpRules gather_rows_rules;
extern const OpRules scatter_add_rows_rules;
extern const OpRules axpby_rules;
extern const OpRules mul_rules;
extern const OpRules row_sum_rules;
extern const OpRules scale_rules;
extern const OpRules dropout_rules;
extern const OpRules sum_squares_rules;
extern const OpRules all_finite_rules;
extern const OpRules matmul_rules;
extern const OpRules matmul_q_rules;
extern const OpRules dequantize_rules;
extern const OpRules embedding_rules;
extern const OpRules rms_norm_rules;
extern const OpRules rms_norm_backward_rules;
extern const OpRules rope_rules;
extern const OpRules qk_norm_rope_rules;
extern const OpRules qk_norm_rope_backward_rules;
extern const OpRules act_mul_rules;
extern const OpRules act_mul_backward_rules;
extern const OpRules attention_rules;
extern const OpRules attention_backward_rules;
extern const OpRules kv_write_rules;
extern const OpRules attention_paged_rules;
extern const OpRules linear_cross_entropy_rules;
extern const OpRules adamw_rules;
extern const OpRules sample_rules;
extern const OpRules softcap_rules;

}  // namespace tern::ops
