#include "ops/registry.h"

#include <array>
#include <stdexcept>

#include "base/strings.h"

namespace tern::ops {
namespace {

// By id: the order of the table.
constexpr std::array<const OpRules*, TERN_OP_LIMIT> kRules = {
    nullptr,
    &cast_copy_rules,
    &gather_rows_rules,
    &scatter_add_rows_rules,
    &axpby_rules,
    &mul_rules,
    &row_sum_rules,
    &scale_rules,
    &dropout_rules,
    &sum_squares_rules,
    &all_finite_rules,
    &matmul_rules,
    &matmul_q_rules,
    &dequantize_rules,
    &embedding_rules,
    &rms_norm_rules,
    &rms_norm_backward_rules,
    &rope_rules,
    &qk_norm_rope_rules,
    &qk_norm_rope_backward_rules,
    &act_mul_rules,
    &act_mul_backward_rules,
    &attention_rules,
    &attention_backward_rules,
    &kv_write_rules,
    &attention_paged_rules,
    &linear_cross_entropy_rules,
    &adamw_rules,
    &sample_rules,
    &softcap_rules,
};

}  // namespace

const OpRules& op_rules(std::uint32_t op) {
  if (op == 0 || op >= kRules.size()) throw std::out_of_range(cat("no op has the id ", op));
  return *kRules[op];
}

}  // namespace tern::ops
